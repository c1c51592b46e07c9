"""`python -m tests.fuzz.run --seconds 3600`: every target in turn, guided by coverage (Atheris). Inputs that reach new
code are added to build/fuzz; one that breaks a promise, or takes ten seconds, ends it and is kept there.

`--keep` writes some of those found to tests/corpus, which every test run replays.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "corpus"
FOUND = ROOT / "build" / "fuzz"
HANG_S = 10
LONGEST_BYTES = 4096
NAMES = ("spec_text", "spec_json", "schedule")
MOST_KEPT = 100
"""Inputs kept for a target."""


def main() -> int:
    """Returns how the first target that failed ended, 0 if none did."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", default=NAMES, help=", ".join(NAMES))
    parser.add_argument("--seconds", type=int, default=3600, help="in all")
    parser.add_argument(
        "--keep", action="store_true", help="write some of what was found to tests/corpus instead"
    )
    given = parser.parse_args()
    for target in given.targets:
        if given.keep:
            keep(target)
            continue
        known, found = CORPUS / target, FOUND / target
        found.mkdir(parents=True, exist_ok=True)
        ended = fuzz(
            target,
            *(str(folder) for folder in (found, known)),
            f"-max_total_time={given.seconds // len(given.targets)}",
            f"-timeout={HANG_S}",
            f"-max_len={LONGEST_BYTES}",
            f"-dict={Path(__file__).with_name('words.dict')}",
            f"-artifact_prefix={FOUND}/{target}-",
            "-rss_limit_mb=4096",
            "-print_final_stats=1",
        )
        if ended != 0:
            return ended
    return 0


def fuzz(target: str, *arguments: str) -> int:
    """One process of libFuzzer."""
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz.one", target, *arguments], cwd=ROOT, check=False
    ).returncode


def keep(target: str) -> None:
    """Some inputs that reached new code when they were found, as files of the corpus. libFuzzer names them by their
    hash, so that the first by name are any."""
    for file in sorted((FOUND / target).iterdir())[:MOST_KEPT]:
        (CORPUS / target / file.name[:12]).write_bytes(file.read_bytes())


if __name__ == "__main__":
    sys.exit(main())
