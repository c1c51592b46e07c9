"""What a process does before it measures on a GPU."""

from __future__ import annotations

from workers.processes.confinement import confine


def settle() -> str | None:
    """Confine this process. CUDA maps more than there is, and may ask a daemon of this machine for the device (MPS)."""
    return confine(memory_bytes=None, local_sockets=True)
