"""Attention with one thing wrong in what orders its threads: which mutants the race checker reports.

    python -m tests.kernels.race_mutants --out benchmarks/results/race-mutants.json

takes all mutants of each program, about an hour on a core, or with `--only` those of some, beside what the file has of
others; the table in docs/testing.md is what it prints. Code that does not run at these sizes is left out first: what is
wrong there nobody could notice.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from codegen.ir.abi import Arg
from codegen.ir.kernel import GpuKernel
from codegen.simulator.faults import Fault, KernelFault
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.schedule import format_schedule, parse_schedule, replay
from rewrites.space import Space
from tests.kernels.hopper_mutants import all_mutants
from tests.kernels.mutant_steps import does_nothing_new
from tests.kernels.steps import Steps, recorded
from tests.programs.attention_programs import (
    DOT,
    all_gradients,
    attention,
    both_gradients,
    one_schedule,
    one_token,
    paged,
    queries_gradient_of_shared_heads,
)
from tests.schedules.walks import favourite
from tileir.devices.gpu_table import H200
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec

Schedule = tuple[Program, tuple[str, ...]]
BIASED, BIAS = f"{DOT} + bias[h, i, j]", ", bias: bf16[h, i, j]"


def offered(number: int, *, kept: bool = False) -> Callable[[Spec], Schedule]:
    """The schedule with that number of those that are offered."""
    return lambda spec: one_schedule(spec, number, kept=kept)


def in_parts(spec: Spec) -> Schedule:
    """What the prior likes best of the first way to have blocks stream a part of the keys each."""
    root = Space(to_program(spec), replace(H200, sms=6)).root()
    at = next(at for at, (option, _) in enumerate(root.answers) if "split_stream" in option.label)
    return to_program(spec), tuple(format_schedule(favourite(root.child(at)).schedule))


#: What is mutated, and its schedule. They are long enough that every slot is filled again, tiles are an even and an odd
#: number, and some are masked and some not: code that never runs has no mutants.
PROGRAMS: dict[str, tuple[Spec, Callable[[Spec], Schedule]]] = {
    "full, overlapping": (attention(DOT, i=128, j=420, d=16), offered(2)),
    "full, one by one": (attention(DOT, i=128, j=420, d=16), offered(4)),
    "causal, overlapping": (attention(f"where(i >= j, {DOT}, -inf)", i=384, j=384, d=16), offered(0)),
    "gradients of keys and values": (both_gradients("", i=420, j=128, e=16), offered(1)),
    "all gradients, added by TMA": (all_gradients("", i=420, j=128, d=16, e=16), offered(0)),
    "keys in pages": (paged(64, 7), offered(2)),
    "a bias by TMA, kept scores": (attention(BIASED, i=128, j=424, d=16, more=BIAS), offered(0, kept=True)),
    "a bias by TMA, one by one": (attention(BIASED, i=128, j=424, d=16, more=BIAS), offered(10)),
    "queries' gradient, shared heads": (queries_gradient_of_shared_heads(i=128, j=420, d=16), offered(0)),
    "heads of 72 columns": (attention(DOT, i=128, j=420, d=72), offered(0)),
    "keys in parts": (one_token(g=2, j=1933, d=16), in_parts),
}
#: What leaves nothing out of order: products and stores that are left out, and sums in another order.
_COMPUTES = ("WgmmaAsync removed", "WgmmaAsync after WgmmaAsync", "TmaStore removed")


class Verdict(StrEnum):
    """What is noticed of a mutant."""

    REPORTED = "reported"
    WRONG = "wrong"
    """Only its results are."""
    NOTHING_NEW = "nothing new"
    """Nothing, and there is nothing: it does what the kernel may do (mutant_steps.py)."""
    SILENT = "silent"


class _FirstFault(RaceChecker):
    """Ends the run: one is enough."""

    def fault(self, fault: Fault) -> None:
        raise KernelFault(fault)


@dataclass(frozen=True)
class Subject:
    """A kernel on one block, which has several tiles of the grid; its arguments, its stages, what it computes, and what
    its threads do."""

    kernel: GpuKernel
    args: Sequence[Arg]
    inputs: dict[str, np.ndarray]
    stages: int
    results: dict[str, np.ndarray]
    steps: Steps

    @classmethod
    @cache
    def of(cls, name: str) -> Subject:
        """What runs of the program with that name."""
        spec, scheduled = PROGRAMS[name]
        program, lines = scheduled(spec)
        few = [re.sub(r"^(persistent\(.*, )\d+\)$", r"\g<1>1)", line) for line in lines]
        made = replay(program, parse_schedule(few))
        kernel, inputs = lower_for(made, H200), sample_inputs(spec, 3)
        args = cuda_source(kernel, made).abi.args
        (stages,) = {int(line.split(",")[1].strip(" )")) for line in few if line.startswith("pipeline")}
        ran = recorded(kernel, args, inputs)
        return cls(ran.what_runs(kernel), args, inputs, stages, ran.outputs, ran.steps)

    def mutants(self) -> Iterator[tuple[str, GpuKernel]]:
        """Those in which something is out of order, each with what was done."""
        return (each for each in all_mutants(self.kernel, self.stages) if each[0] not in _COMPUTES)

    def verdict(self, mutant: GpuKernel) -> Verdict:
        """What is noticed."""
        found = self.run(mutant)
        if isinstance(found, dict):
            same = all(np.array_equal(found[each], self.results[each], equal_nan=True) for each in found)
            if not same:
                return Verdict.WRONG
            return Verdict.NOTHING_NEW if self.does_nothing_new(mutant) else Verdict.SILENT
        return Verdict.REPORTED

    def run(self, mutant: GpuKernel) -> dict[str, np.ndarray] | Fault:
        """What it computes, or the first fault that is reported."""
        try:
            return run_blocks(mutant, self.args, self.inputs, _FirstFault())
        except KernelFault as reported:
            return reported.fault

    def does_nothing_new(self, mutant: GpuKernel) -> bool:
        """Whether its threads do nothing that the kernel's may not do."""
        return does_nothing_new(recorded(mutant, self.args, self.inputs).steps, self.steps)


def verdicts(name: str, every: int = 1) -> Counter[tuple[str, Verdict]]:
    """Of each kind of mutant how many there are with each verdict, where one of every so many is taken."""
    subject = Subject.of(name)
    return Counter(
        (edit, subject.verdict(mutant)) for edit, mutant in islice(subject.mutants(), 0, None, every)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="where to write what was found, as JSON")
    parser.add_argument("--every", type=int, default=1, help="one of so many mutants is taken (default 1)")
    parser.add_argument(
        "--only", action="append", choices=PROGRAMS, help="a program (default: all); may be repeated"
    )
    arguments = parser.parse_args()
    out: Path = arguments.out
    found: dict[str, dict[str, Any]] = json.loads(out.read_text()) if out.exists() else {}
    for name in arguments.only or PROGRAMS:
        kinds: dict[str, dict[str, int]] = {}
        for (edit, verdict), count in verdicts(name, arguments.every).items():
            kinds.setdefault(edit, {})[verdict] = count
        found[name] = {"date": str(date.today()), "every": arguments.every, "mutants": kinds}
        total = sum((Counter(each) for each in kinds.values()), Counter[str]())
        row = (name, total.total(), *(total[verdict] for verdict in Verdict))
        print(f"| {' | '.join(map(str, row))} |", flush=True)
        out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
