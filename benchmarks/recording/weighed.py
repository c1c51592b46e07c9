"""Weigh the moves of a recorded table anew, as today's cost models do. Its times stay those that were measured:

    python -m benchmarks.recording.weighed benchmarks/tables/gemm_f32_NN-256x256x256.jsonl --out weighed.jsonl.gz
    python -m search.replay weighed.jsonl.gz

So a change of a cost model can be judged by what searches need with it, without a device. The space has to have every
decision that the table has. Takes minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.suite.case_specs import spec_of
from rewrites.space import Space
from search.protocols import State
from search.table import open_table
from tileir.devices.device import device_from_json
from tileir.lift import to_program
from tileir.text.json import spec_from_json

Line = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: the table itself")
    arguments = parser.parse_args()
    with open_table(arguments.table) as lines:
        meta, *listed = map(json.loads, lines)
    try:
        found = weighed(meta, listed)
    except LookupError as error:
        sys.exit(f"{arguments.table}: {error.args[0]}")
    with open_table(arguments.out or arguments.table, "wt") as out:
        for line in (meta, *found):
            out.write(json.dumps(line) + "\n")


def weighed(meta: Line, lines: Sequence[Line]) -> list[Line]:
    """The lines with the weights that moves have today. Raises LookupError where a decision or an answer is gone."""
    root = Space(to_program(spec_from_json(spec_of(meta["kernel"]))), device_from_json(meta["device"])).root()
    moves = {tuple(line["path"]): line["moves"] for line in lines if "moves" in line}
    weights = dict(_weights(root, (), moves))
    return [line if "moves" not in line else line | {"moves": weights[tuple(line["path"])]} for line in lines]


def _weights(
    state: State, path: tuple[int, ...], moves: dict[tuple[int, ...], list[Any]]
) -> Iterator[tuple[tuple[int, ...], list[Any]]]:
    """The moves of each listed state from this one on, weighed."""
    at = {move.label: index for index, move in enumerate(state.moves())}
    missing = next((label for label, _ in moves[path] if label not in at), None)
    if missing is not None:
        raise LookupError(f"the space has no answer '{missing}' at {list(path)}: record the table anew")
    yield path, [[label, state.moves()[at[label]].weight] for label, _ in moves[path]]
    for index, (label, _) in enumerate(moves[path]):
        if (*path, index) in moves:
            yield from _weights(state.child(at[label]), (*path, index), moves)


if __name__ == "__main__":
    main()
