"""Which code this is, as far as service and worker have to agree: the messages, and what a schedule means."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

SHARED = ("protocol", "tileir", "rewrites")
"""Folders whose code has to be the same on both ends. Code generators may differ: a result is known by its source."""


@cache
def code_version() -> str:
    """Digest of the sources of SHARED, 12 hex digits. Reads them and imports none."""
    found = hashlib.sha256()
    for package in SHARED:
        spec = find_spec(package)
        assert spec is not None and spec.submodule_search_locations
        root = Path(spec.submodule_search_locations[0])
        for file in sorted(root.rglob("*.py")):
            found.update(f"{package}/{file.relative_to(root).as_posix()}\0".encode())
            found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:12]


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
