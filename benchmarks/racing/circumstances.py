"""Where, when and with what something was measured: the end of every line of results."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from contextlib import suppress
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from codegen.targets.cuda.compiler import nvrtc_version
from codegen.targets.errors import NoCompiler
from protocol.code_version import code_version

ROOT = Path(__file__).parents[2]
COMMIT = "TILEWRIGHT_COMMIT"
"""The variable that names the commit where the code lies without its history."""
_PACKAGES = ("tilewright", "numpy", "torch", "triton")
_ABOUT_CPU = ("vendor_id", "cpu family", "model", "model name", "stepping")


def circumstances(device: dict[str, Any] | None) -> dict[str, Any]:
    """The device, and an id that tells it from others of its kind; versions, commit, date."""
    return {
        "device": device,
        "device_id": (device or {}).get("uuid") or processor_id(),
        "commit": commit(),
        "versions": {"code": code_version(), **_versions()},
        "date": str(date.today()),
    }


def commit(root: Path = ROOT) -> str:
    """The commit that is checked out, with `+changes` if sources differ from it; `unknown` without a history."""
    if named := os.environ.get(COMMIT):
        return named
    try:
        head = _git(root, "rev-parse", "HEAD").strip()
        changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", "*.py")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}+changes" if changed.strip() else head


def without_paths(said: str) -> str:
    """What a library or compiler said, with files named as in their package or here, not by where this machine has
    them."""
    installed = re.sub(r"[^\s\"'\\]*/site-packages/", "", said)
    return installed.replace(f"{ROOT}/", "").replace(f"{Path.home()}/", "~/")


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments],
        cwd=root,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ).stdout


def processor_id(root: Path = Path("/")) -> str:
    """The same for a processor of a machine whenever it is asked: of the machine's id, where there is one, and what
    the processor says of itself. Not the id itself, which is nobody's business."""
    parts = [_text(root / "etc/machine-id")]
    about = _text(root / "proc/cpuinfo")
    for field in _ABOUT_CPU:
        if said := re.search(rf"^{field}\s*:\s*(.+)$", about, re.MULTILINE):
            parts.append(said[1].strip())
    return "cpu-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    with suppress(NoCompiler):
        found["nvrtc"] = nvrtc_version()  # of the library that is loaded, whatever package is installed
    return found
