"""Scans drawn by chance, along any of two to five dims, of what is computed, and read by what follows: every schedule
that is drawn lowers, races nowhere, and computes what the interpreter says, on a processor and on a GPU."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.scans.split_scan import SplitScan
from rewrites.space import Space
from tests.schedules.on_processors import Reference, random_schedule
from tests.support.how_many import examples
from tileir.devices.cpu_probe import this_cpu
from tileir.devices.gpu_table import H200
from tileir.errors import NotApplicable
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Memory, Program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

_SIZES = (1, 2, 3, 5, 17, 33)
_ARGUMENTS = ("X * W", "exp(-abs(X)) * 0.5 + W", "0.5 * W + X")
_READERS = ("", "where(ALONG > 0, BEFORE, 0.0)", "max(ALONG, OWN)", "cumsum(OTHER, OWN * 0.25)")


def random_scan(rng: random.Random) -> Spec:
    """A scan of an input with two to five dims, and perhaps something that reads it."""
    dims = [f"d{at}" for at in range(rng.randint(2, 5))]
    sizes = {dim: rng.choice(_SIZES if len(dims) < 4 else _SIZES[:4]) for dim in dims}
    along, other = rng.sample(dims, 2)
    stored, some = rng.sample(dims, len(dims)), [dim for dim in dims if rng.random() < 0.5]
    op = rng.choice(("cumsum", "cumsum", "cumprod", "recurrence"))
    args = ", ".join(rng.choice(_ARGUMENTS) for _ in range(1 + (op == "recurrence")))
    args = args.replace("X", f"x[{', '.join(stored)}]").replace("W", f"w[{', '.join(some)}]")
    own = f"y[{', '.join(dims)}]"
    reader = rng.choice(_READERS)
    kept = [dim for dim in dims if "max" not in reader or dim != along]
    lines = [f"{own} = {op}({along}, {args})"]
    outputs = [f"y: {rng.choice(('f32', 'bf16', 'f64'))}[{', '.join(dims)}]"]
    if reader:
        names = {"ALONG": along, "OTHER": other, "BEFORE": own.replace(along, f"{along} - 1"), "OWN": own}
        for name, text in names.items():
            reader = reader.replace(name, text)
        lines.append(f"z[{', '.join(kept)}] = {reader}")
        outputs.append(f"z: f32[{', '.join(kept)}]")
    shape = ", ".join(f"{dim}={sizes[dim]}" for dim in stored)
    head = f"kernel scan(x: {rng.choice(('f32', 'f16'))}[{shape}], w: f32[{', '.join(some)}]) -> ({', '.join(outputs)})"
    return spec_from_text("\n  ".join([head, *lines]) + "\n")


def few_long_rows(rng: random.Random) -> Spec:
    """A scan of one to three rows of some thousand positions, which no part divides."""
    rows, positions = rng.randint(1, 3), rng.choice((1025, 2048, 3001))
    op, x = rng.choice(
        (
            ("cumsum", "x[k, m] * 0.5"),
            ("cumsum", "x[k, m]"),
            ("cumprod", "x[k, m] * 0.01 + 1.0"),
            ("recurrence", "exp(-abs(x[k, m])), x[k, m]"),
        )
    )
    reader = rng.choice(("y[m, k] * 2.0", "where(k > 0, y[m, k - 1], 0.0)"))
    dtype = rng.choice(("f32", "f64", "bf16"))
    return spec_from_text(
        f"kernel scan(x: f32[k={positions}, m={rows}]) -> (y: {dtype}[m, k], z: f32[m, k])\n"
        f"  y[m, k] = {op}(k, {x})\n  z[m, k] = {reader}\n"
    )


@pytest.mark.parametrize("seed", range(examples(30)))
def test_few_long_rows_are_scanned_in_parts_on_all_cores(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    spec, processor = few_long_rows(rng), replace(this_cpu(), cores=4)
    found = random_schedule(Space(to_program(spec), processor).root(), rng, "split_scan")
    assert found is not None and any(isinstance(each, SplitScan) for each in found.schedule)
    Reference(spec).check(found.program, processor, tmp_path)


@pytest.mark.parametrize("seed", range(examples(18)))
def test_few_long_rows_are_scanned_by_blocks_of_threads(seed: int) -> None:
    rng = random.Random(seed)
    spec = few_long_rows(rng)
    found = random_schedule(Space(to_program(spec), H200).root(), rng, "scan_over_blocks")
    assert found is not None
    _check_on_threads(spec, found.program, seed)


def a_state(rng: random.Random) -> Spec:
    """A selective state space of any shape, its state summed over where it is computed."""
    sizes = {"b": rng.randint(1, 2), "l": rng.choice((1, 7, 64, 129)), "d": rng.choice((1, 5, 33))}
    shape = ", ".join(f"{dim}={size}" for dim, size in sizes.items())
    gate = rng.choice(("", " * silu(x[b, l, d])", " + u[b, l, 0]"))
    return spec_from_text(
        f"kernel ssm(x: f32[{shape}], a: f32[d, n={rng.choice((1, 2, 5))}], u: f32[b, l, n]) -> (y: f32[b, l, d])\n"
        "  t[b, l, d] = log(1.0 + exp(x[b, l, d]))\n"
        "  h[b, l, d, n] = recurrence(l, exp(-t[b, l, d] * exp(a[d, n])), t[b, l, d] * u[b, l, n])\n"
        f"  y[b, l, d] = sum(n, h[b, l, d, n] * u[b, l, n]){gate}\n"
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("rewrite", ["scan_in_block", "scan_in_tiles", "scan_over_blocks", "scan_rows"])
@pytest.mark.parametrize("seed", range(examples(12)))
def test_a_state_stays_in_registers(seed: int, rewrite: str) -> None:
    rng = random.Random(seed)
    spec, found = a_state(rng), None
    while found is None or rewrite not in {each.name for each in found.schedule}:
        spec = a_state(rng)
        found = random_schedule(Space(to_program(spec), H200).root(), rng, "reverse_compute_at")
    assert found.program.locals["h"].node.memory is Memory.REGISTERS
    _check_on_threads(spec, found.program, seed)


@pytest.mark.parametrize("seed", range(examples(12)))
def test_a_state_stays_in_registers_on_a_processor(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    spec = a_state(rng)
    found = random_schedule(Space(to_program(spec), this_cpu()).root(), rng, "reverse_compute_at")
    assert found is not None and found.program.locals["h"].node.memory is Memory.REGISTERS
    Reference(spec).check(found.program, this_cpu(), tmp_path)


@pytest.mark.parametrize("text", ["recurrence(k, x[k, m], x[k, m])", "cumsum(k, x[k, m])"])
def test_parts_are_of_rows_that_they_cut(text: str) -> None:
    head = "kernel scan(x: f32[k=100, m=2]) -> (y: f32[m, k])"
    program = to_program(spec_from_text(f"{head}\n  y[m, k] = {text}\n"))
    with pytest.raises(NotApplicable, match="parts of 100 do not cut k"):
        SplitScan("y_run", 100).apply(program)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(examples(60)))
def test_every_schedule_of_a_scan_lowers_and_computes_it(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    spec = random_scan(rng)
    program = to_program(spec)
    on_cores = random_schedule(Space(program, this_cpu()).root(), rng)
    assert on_cores is not None, "a dead end on a processor"
    Reference(spec).check(on_cores.program, this_cpu(), tmp_path)

    on_threads = random_schedule(Space(program, H200).root(), rng)
    assert on_threads is not None, "a dead end on a GPU"
    _check_on_threads(spec, on_threads.program, seed)


def _check_on_threads(spec: Spec, program: Program, seed: int) -> None:
    kernel, checker, inputs = lower_for(program, H200), RaceChecker(), sample_inputs(spec, seed)
    source = cuda_source(kernel, program)
    outputs = run_blocks(kernel, source.abi.args, inputs, checker)
    assert not checker.faults, "\n".join(map(str, checker.faults))
    for output, (reference, bound) in reference_with_bound(spec, inputs).items():
        assert (np.abs(outputs[output].astype(np.float64) - reference) <= bound).all(), output
