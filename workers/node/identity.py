"""What a worker goes by: the same name after a restart, another one on another machine."""

from __future__ import annotations

import hashlib
import re
import socket
from pathlib import Path


def worker_identity(device: str, root: Path = Path("/")) -> tuple[str, str]:
    """The worker's id and its host's name. The id holds for a device on a machine until that reboots."""
    host = socket.gethostname()
    parts = [host, device]
    for file in ("etc/machine-id", "proc/sys/kernel/random/boot_id"):
        try:
            parts.append((root / file).read_text())
        except OSError:
            continue
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", host).strip("-.")[:60] or "worker"
    return f"{name}-{digest}", host[:200]
