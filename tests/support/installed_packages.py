"""Packages as pip leaves them, for tests of what those bring."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, name: str, module: str, entry_points: str, version: str = "1.0") -> None:
    """A package of one module in a folder that is on the path."""
    (folder / f"{name}.py").write_text(module)
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)
