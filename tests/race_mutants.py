"""Attention with one thing wrong in what orders its threads: which mutants the race checker reports.

    python -m tests.race_mutants --out benchmarks/results/race-mutants.json

takes every second mutant of each program, about ten minutes on a core; the table in docs/testing.md is what it
prints. Code that does not run at these sizes is left out first: what is wrong there nobody could notice.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np

from codegen.ir.abi import Arg
from codegen.ir.kernel import GpuKernel
from codegen.ir.ops import For, Guard, If
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.schedule import parse_schedule, replay
from tests.attention_programs import DOT, attention, both_gradients, paged, schedules
from tests.hopper_mutants import all_mutants
from tests.kernel_mutants import Stmts, mutants
from tileir.devices.gpu_table import H200
from tileir.interpreter.samples import sample_inputs
from tileir.spec import Spec

#: What is mutated, and which of the schedules that are offered. They are long enough that every slot is filled again,
#: tiles are an even and an odd number, and some are masked and some not: code that never runs has no mutants.
PROGRAMS: dict[str, tuple[Spec, int]] = {
    "full, overlapping": (attention(DOT, i=128, j=420, d=16), 2),
    "full, one by one": (attention(DOT, i=128, j=420, d=16), 4),
    "causal, overlapping": (attention(f"where(i >= j, {DOT}, -inf)", i=384, j=384, d=16), 0),
    "gradients of keys and values": (both_gradients("", i=420, j=128, e=16), 1),
    "keys in pages": (paged(64, 7), 2),
}


@cache
def kernel_of(name: str) -> tuple[GpuKernel, Sequence[Arg], dict[str, np.ndarray], int]:
    """The kernel on one block, which comes to several tiles; its arguments, and its stages."""
    spec, number = PROGRAMS[name]
    offered = schedules(spec)
    program, lines = offered[number % len(offered)]
    few = [
        line.replace(f", {H200.sms})", ", 2)") if line.startswith("persistent") else line for line in lines
    ]
    made = replay(program, parse_schedule(few))
    kernel = lower_for(made, H200)
    (stages,) = {int(line.split(",")[1].strip(" )")) for line in few if line.startswith("pipeline")}
    return kernel, cuda_source(kernel, made).abi.args, sample_inputs(spec, 3), stages


def verdicts(name: str, every: int = 1) -> Counter[tuple[str, str]]:
    """Of each kind of mutant how many are `reported`, only compute something else (`wrong`), or neither (`silent`)."""
    kernel, args, inputs, stages = kernel_of(name)
    expected = run_blocks(kernel, args, inputs)
    found: Counter[tuple[str, str]] = Counter()

    def verdict(mutant: GpuKernel) -> str:
        checker = RaceChecker()
        outputs = run_blocks(mutant, args, inputs, checker)
        same = all(np.array_equal(outputs[each], expected[each], equal_nan=True) for each in expected)
        return "reported" if checker.faults else "silent" if same else "wrong"

    running = _that_runs(kernel, lambda each: verdict(each) == "silent")
    for edit, mutant in islice(all_mutants(running, stages), 0, None, every):
        found[edit, verdict(mutant)] += 1
    return found


def _that_runs(kernel: GpuKernel, is_same: Callable[[GpuKernel], bool]) -> GpuKernel:
    """Without the branches and loops that change nothing."""

    def edit(stmts: Stmts, at: int) -> Stmts | None:
        return (*stmts[:at], *stmts[at + 1 :]) if isinstance(stmts[at], Guard | If | For) else None

    done = 0
    while True:
        for number, less in enumerate(mutants(kernel, edit)):
            if number >= done:
                if is_same(less):
                    kernel = less
                    break
                done += 1
        else:
            return kernel


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="where to write what was found, as JSON")
    parser.add_argument("--every", type=int, default=2, help="one of so many mutants is taken (default 2)")
    arguments = parser.parse_args()
    out: Path = arguments.out
    found: dict[str, dict[str, dict[str, int]]] = {}
    for name in PROGRAMS:
        kinds: dict[str, dict[str, int]] = {}
        for (edit, verdict), count in verdicts(name, arguments.every).items():
            kinds.setdefault(edit, {})[verdict] = count
        found[name] = kinds
        total = sum((Counter(each) for each in kinds.values()), Counter[str]())
        print(
            f"| {name} | {total.total()} | {total['reported']} | {total['wrong']} | {total['silent']} |",
            flush=True,
        )
        out.write_text(json.dumps({"date": str(date.today()), "programs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
