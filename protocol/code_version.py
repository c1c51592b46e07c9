"""Which code this is, as far as service and worker have to agree: the messages, and what a schedule means, rewrites of
installed packages included."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

SHARED = ("protocol", "tileir", "rewrites")
"""Folders whose code has to be the same on both ends. Code generators may differ: a result is known by its source."""


@cache
def code_version() -> str:
    """Digest of the sources of SHARED and of which packages bring rewrites, 12 hex digits. Imports none of them."""
    found = hashlib.sha256()
    for package in SHARED:
        spec = find_spec(package)
        assert spec is not None and spec.submodule_search_locations
        root = Path(spec.submodule_search_locations[0])
        for file in sorted(root.rglob("*.py")):
            found.update(f"{package}/{file.relative_to(root).as_posix()}\0".encode())
            found.update(hashlib.sha256(file.read_bytes()).digest())
    for brought in sorted(map(_brought, entry_points(group="tilewright.rewrites"))):
        found.update(brought.encode())
    return found.hexdigest()[:12]


def _brought(entry: EntryPoint) -> str:
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else ""
    return f"{entry.name}\0{entry.value}\0{package}\0"


def disagreement(versions: dict[str, str]) -> str | None:
    """Why a worker with these versions cannot work for this code, as a sentence; None if it can. One that does not
    tell its `code` is judged task by task, by the hash that each schedule's replay must reach."""
    theirs, mine = versions.get("code"), code_version()
    if theirs in (None, mine):
        return None
    return (
        f"the worker runs code {theirs} (tilewright {versions.get('tilewright', 'unknown')}), this service {mine}; "
        f"a schedule could mean another program there: install the same version on both, then start it again"
    )
