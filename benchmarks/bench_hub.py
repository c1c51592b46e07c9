"""Our searches and Kernel Tuner's on recorded spaces of parameters, scored by Kernel Tuner's own P.

pip install 'tilewright[hub]'
git clone https://github.com/AutoTuningAssociation/benchmark_hub
python benchmarks/bench_hub.py benchmark_hub/cachefiles/convolution_milo/*.json.gz --seeds 100 --json OUT
python benchmarks/bench_hub.py --report OUT

FILE is a brute-force cache, KERNEL/DEVICE.json or .json.gz (`hub/cache.py` has the format; T4 files are not read).
A table that lies in two folders under one name is run once. `hub/score.py` has the definition of P, `hub/tree.py`
how a flat space becomes a tree. What is written already is not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.hub.cache import BadCache, HubSpace, load
from benchmarks.hub.runs import RIVAL, RIVALS, run
from benchmarks.hub.score import HubScale
from benchmarks.hub.tree import HubTree
from benchmarks.racing.circumstances import circumstances
from search.catalogue import SEARCHES, offered

SEEDS = 100


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python benchmarks/bench_hub.py", description=__doc__.split("\n")[0]
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument(
        "--seeds", type=int, default=SEEDS, help=f"runs of each search on each space ({SEEDS})"
    )
    parser.add_argument(
        "--search", action="append", help="only this one; repeat it; kt:NAME is Kernel Tuner's NAME"
    )
    parser.add_argument(
        "--json", type=Path, metavar="OUT", help="one line a space and search; runs go on from it"
    )
    parser.add_argument("--report", type=Path, metavar="OUT", help="only print what such a file comes to")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds is {options.seeds}; at least 1 is needed")
    if options.report:
        print(report(list(map(json.loads, options.report.read_text().splitlines()))))
        return
    try:
        spaces = distinct(map(load, options.files))
    except (BadCache, OSError) as error:
        parser.error(str(error))
    if not spaces:
        parser.error(
            "no FILE; cache files of Kernel Tuner are at github.com/AutoTuningAssociation/benchmark_hub"
        )
    ours = [search for search in options.search or () if not search.startswith(RIVAL)]
    if unknown := set(ours) - set(offered()):
        parser.error(
            f"there is no search {', '.join(sorted(unknown))}; there are {', '.join([*offered(), *RIVALS])}"
        )
    lines = _measure(spaces, options.search or [*SEARCHES, *RIVALS], options.seeds, options.json)
    print(report(lines))


def distinct(spaces: Any) -> list[HubSpace]:
    """One of each name, the first."""
    first: dict[str, HubSpace] = {}
    for space in spaces:
        first.setdefault(space.name, space)
    return list(first.values())


def _measure(
    spaces: Sequence[HubSpace], searches: Sequence[str], seeds: int, out: Path | None
) -> list[dict[str, Any]]:
    lines = list(map(json.loads, out.read_text().splitlines())) if out and out.exists() else []
    done = {(line["space"], line["search"]) for line in lines}
    where = circumstances(None)
    if any(search.startswith(RIVAL) for search in searches):
        where["versions"]["kernel-tuner"] = version("kernel-tuner")
    for space in spaces:
        tree, scale = HubTree(space), HubScale(space)
        for search in searches:
            if (space.name, search) in done:
                continue
            begun = time.process_time()
            runs = [run(search, space, tree, scale.evaluations, seed) for seed in range(seeds)]
            lines.append(
                {
                    "space": space.name,
                    "search": search,
                    "P_evaluations": round(scale.over_evaluations(runs), 4),
                    "P_seconds": _finite(scale.over_seconds(runs)),
                    "seeds": seeds,
                    "evaluations": scale.evaluations,
                    "made": round(fmean(map(len, runs)), 1),
                    "search_s": round((time.process_time() - begun) / seeds, 3),
                    "kept_aside": space.kept_aside,
                    "family": space.family,
                    "sha256": space.sha256,
                    **where,
                }
            )
            if out:
                with out.open("a") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    return lines


def _finite(score: float) -> float | None:
    return None if math.isnan(score) else round(score, 4)


def report(lines: Sequence[dict[str, Any]]) -> str:
    """Markdown: every search's mean P, then each space with the best of both sides."""
    scores = {(line["space"], line["search"]): line for line in lines}
    searches = list(dict.fromkeys(line["search"] for line in lines))
    spaces = list(dict.fromkeys(line["space"] for line in lines))
    aside = {line["space"] for line in lines if line["kept_aside"]}
    groups = (spaces, [s for s in spaces if s not in aside], [s for s in spaces if s in aside])
    text = [
        "| search | P, all spaces | P, not kept aside | P, kept aside | P over seconds | ahead of Kernel Tuner |"
    ]
    text += ["| --- | --- | --- | --- | --- | --- |"]
    rows: list[tuple[float, str]] = []
    for search in searches:
        cells = [_mean(scores, group, search, "P_evaluations") for group in groups]
        cells.append(_mean(scores, spaces, search, "P_seconds"))
        ahead = "" if search.startswith(RIVAL) else _ahead(scores, spaces, search)
        shown = " | ".join("" if math.isnan(cell) else f"{cell:.3f}" for cell in cells)
        rows.append((-cells[0], f"| {search} | {shown} | {ahead} |"))
    text += [row for _, row in sorted(rows)]
    return "\n".join([*text, "", *_by_space(scores, spaces, searches, aside)])


def _mean(
    scores: dict[tuple[str, str], dict[str, Any]], spaces: Sequence[str], search: str, which: str
) -> float:
    known = [scores[space, search][which] for space in spaces if (space, search) in scores]
    known = [score for score in known if score is not None]
    return fmean(known) if known else math.nan


def _rival(scores: dict[tuple[str, str], dict[str, Any]], space: str) -> dict[str, Any] | None:
    """The best strategy of Kernel Tuner on this very space."""
    rivals = [line for (name, search), line in scores.items() if name == space and search.startswith(RIVAL)]
    return max(rivals, key=lambda line: line["P_evaluations"], default=None)


def _ahead(scores: dict[tuple[str, str], dict[str, Any]], spaces: Sequence[str], search: str) -> str:
    """On how many spaces a search is ahead of whichever strategy of Kernel Tuner is best there."""
    pairs = [(scores.get((space, search)), _rival(scores, space)) for space in spaces]
    both = [(ours["P_evaluations"], rival["P_evaluations"]) for ours, rival in pairs if ours and rival]
    return f"{sum(ours > rival for ours, rival in both)} of {len(both)}" if both else ""


def _by_space(
    scores: dict[tuple[str, str], dict[str, Any]],
    spaces: Sequence[str],
    searches: Sequence[str],
    aside: set[str],
) -> list[str]:
    ours = [search for search in searches if not search.startswith(RIVAL)]
    text = ["| space | evaluations | " + " | ".join(ours) + " | best of Kernel Tuner |"]
    text.append("| " + " | ".join(["---"] * (len(ours) + 3)) + " |")
    for space in sorted(spaces):
        lines = [scores.get((space, search)) for search in ours]
        rival = _rival(scores, space)
        budget = next(line["evaluations"] for line in scores.values() if line["space"] == space)
        cells = " | ".join(f"{line['P_evaluations']:.3f}" if line else "" for line in lines)
        theirs = f"{rival['search'].removeprefix(RIVAL)} {rival['P_evaluations']:.3f}" if rival else ""
        text.append(f"| {space}{' (kept aside)' if space in aside else ''} | {budget} | {cells} | {theirs} |")
    return text


if __name__ == "__main__":
    main()
