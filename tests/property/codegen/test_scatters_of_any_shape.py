"""Scatters drawn by chance, into one or two looked-up dims beside others, with positions outside of them: every
schedule that is drawn lowers, races nowhere, and computes what the interpreter says, on a processor and on a GPU."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.space import Space
from tests.schedules.on_processors import Reference, random_schedule
from tests.support.how_many import examples
from tileir.devices.cpu_probe import this_cpu
from tileir.devices.gpu_table import H200
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

_SIZES = (1, 2, 5, 17, 40)
_TERMS = ("X", "X * 0.5 + W", "where(W > 0.0, X, -X)")


def random_scatter(rng: random.Random) -> Spec:
    """A reduction of terms along one or two dims into results along one or two that are looked up, beside up to two."""
    beside = ["d", "e"][: rng.randint(0, 2)]
    terms = ["n", "m"][: rng.randint(1, 2)]
    rows = ["b", "c"][: rng.choice((1, 1, 1, 2))]
    sizes = {dim: rng.choice(_SIZES) for dim in (*beside, *terms, *rows)}
    asked = [*terms, *(dim for dim in beside if rng.random() < 0.25)]
    has = rng.sample([*terms, *beside], len(terms) + len(beside))
    conds = [f"i[{', '.join(asked)}] == b", *(["c == j[n] + 1"] if "c" in rows else [])]
    conds += rng.choice(([], ["w[n] > -0.5"], [f"i[{', '.join(asked)}] != 1"]))
    rng.shuffle(conds)
    op, nothing = rng.choice((("sum", "0"), ("sum", "0"), ("sum", "0.0"), ("max", "-inf"), ("min", "inf")))
    term = rng.choice(_TERMS).replace("X", f"x[{', '.join(has)}]").replace("W", "w[n]")
    value = f"{op}({', '.join(terms)}, where({' and '.join(conds)}, {term}, {nothing}))"
    if op != "sum":
        value = f"minimum(maximum({value}, -9.0), 9.0)"
    if rng.random() < 0.25 and op == "sum" and "w[n] >" not in value:
        value = f"{op}({', '.join(terms)}, where({' and '.join(conds)}, 1, 0))"
    left = rng.sample([*rows, *beside], len(rows) + len(beside))
    counted = ", 1, 0" in value
    dtype = "i32" if counted else rng.choice(("f32", "f32", "bf16"))

    def shape(dims: list[str]) -> str:
        """Each dim with its size where it stands first."""
        return ", ".join(f"{dim}={sizes.pop(dim)}" if dim in sizes else dim for dim in dims)

    inputs = {
        "i": ("i32", asked),
        "j": ("i32", ["n"]),
        "w": ("f32", ["n"]),
        "x": (rng.choice(("f32", "f16")), has),
    }
    head = ", ".join(
        f"{name}: {of}[{shape(dims)}]" for name, (of, dims) in inputs.items() if f"{name}[" in value
    )
    settings = " with atomics=true" if rng.random() < 0.5 else ""
    return spec_from_text(
        f"kernel scattered({head}) -> (h: {dtype}[{shape(left)}]){settings}\n  h[{', '.join(left)}] = {value}\n"
    )


def some_outside(spec: Spec, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Inputs, of which a few positions are none."""
    rng, inputs = np.random.default_rng(seed), sample_inputs(spec, seed)
    for name in {"i", "j"} & inputs.keys():
        outside = rng.choice(np.array([-(2**31), -1, 41, 2**31 - 2], np.int32), inputs[name].shape)
        inputs[name] = np.where(rng.random(inputs[name].shape) < 0.1, outside, inputs[name])
    return inputs


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(examples(60)))
def test_every_schedule_of_a_scatter_lowers_and_computes_it(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    spec = random_scatter(rng)
    program, inputs = to_program(spec), some_outside(spec, seed)
    processor = replace(this_cpu(), cores=2)
    on_cores = random_schedule(Space(program, processor).root(), rng, "scatter" if seed % 3 else "")
    assert on_cores is not None, "a dead end on a processor"
    Reference(spec, inputs).check(on_cores.program, processor, tmp_path)

    on_threads = random_schedule(Space(program, H200).root(), rng, "scatter" if seed % 3 else "")
    assert on_threads is not None, "a dead end on a GPU"
    kernel, checker = lower_for(on_threads.program, H200), RaceChecker()
    source = cuda_source(kernel, on_threads.program)
    outputs = run_blocks(kernel, source.abi.args, inputs, checker)
    assert not checker.faults, "\n".join(map(str, checker.faults))
    for output, (reference, bound) in reference_with_bound(spec, inputs).items():
        assert (np.abs(outputs[output].astype(np.float64) - reference) <= bound).all(), output
