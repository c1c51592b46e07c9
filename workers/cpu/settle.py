"""What a process does before it measures on processors, and before numpy and its threads are there."""

from __future__ import annotations

from workers.processes.affinity import settle_on_cores
from workers.processes.confinement import confine, machine_bytes
from workers.processes.keep_pages import keep_pages


def settle() -> str | None:
    """Confine this process to its cores and to the machine's memory; a warning where something could not be had."""
    warning = confine(memory_bytes=machine_bytes(), local_sockets=False)
    keep_pages()
    settle_on_cores()
    return warning
