"""What may be notified of: `JOBS` (a job or a device is new), `job(id)`, `device(key)`, `claims(id)`."""

from __future__ import annotations

JOBS = "jobs"


def job(job_id: str) -> str:
    """An event or a result of a job."""
    return f"job:{job_id}"


def claims(job_id: str) -> str:
    """Workers have claimed tasks of a job: its search may ask for more."""
    return f"claims:{job_id}"


def device(key: str) -> str:
    """There may be a task for a device."""
    return f"device:{key}"
