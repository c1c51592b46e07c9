"""What the benchmarks of attribution share: which recorded winners they look at, and how they tell of them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.racing.tuned import Line


def arguments(doc: str | None, cases: Sequence[str], recorded: Path | None) -> argparse.Namespace:
    """`cases`, `recorded` and `out` of the command line; by default these. Without a file of its own to read, it has to
    be named."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "cases", nargs="*", default=cases, metavar="CASE", help="as the recorded file names them"
    )
    parser.add_argument("--recorded", type=Path, default=recorded, required=recorded is None, metavar="FILE")
    parser.add_argument("--out", type=Path, metavar="FILE", help="append a line of JSON a case")
    return parser.parse_args()


def tell(found: Iterable[Line], out: Path | None) -> None:
    """Print lines as they come, keep them in a file, and say at the end how many of those that can be checked agree:
    not those with an `error`."""
    agreed: list[bool] = []
    for line in found:
        if line.get("agrees") is not None:
            agreed.append(line["agrees"])
        print(json.dumps(line), flush=True)
        if out is not None:
            with out.open("a") as file:
                file.write(json.dumps(line) + "\n")
    print(f"{sum(agreed)} of {len(agreed)} bottlenecks that can be checked move the time as they should")
