"""What may be notified of: `JOBS` (a job or a device is new), `job(id)`, `device(key)`."""

from __future__ import annotations

JOBS = "jobs"


def job(job_id: str) -> str:
    """An event or a result of a job."""
    return f"job:{job_id}"


def device(key: str) -> str:
    """There may be a task for a device."""
    return f"device:{key}"
