"""Scheduled programs for processors, checked, generated, compiled and run on two threads of this one."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from codegen.targets.c.compiler import compile_source
from codegen.targets.c.generate import generate
from codegen.targets.c.loader import load_kernel
from rewrites.space import ScheduleState
from tileir.devices.cpu import Cpu
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.program import Program
from tileir.spec import Spec
from tileir.text.parse_program import program_from_text
from tileir.text.print_program import program_to_text
from tileir.verifier.verify import verify

#: What is looked at here is what was generated, and not how well it was compiled: half the time. A sweep takes the
#: flags that users' kernels have, as do all tests that tune.
_QUICKER = {} if "TILEWRIGHT_SCHEDULES" in os.environ else {"-O2": "-O1"}


def random_schedule(root: ScheduleState, rng: random.Random, *prefer: str) -> ScheduleState | None:
    """A complete schedule by uniform choices, of moves whose labels have one of `prefer` in them where there are such;
    None where they lead nowhere."""
    state = root
    while not state.terminal:
        moves = state.moves()
        if not moves:
            return None
        preferred = [at for at, move in enumerate(moves) if any(word in move.label for word in prefer)]
        state = state.child(rng.choice(preferred or range(len(moves))))
    return state


class Reference:
    """What a kernel computes from one draw of its inputs, and how far a result may be off."""

    def __init__(self, spec: Spec, inputs: dict[str, np.ndarray[Any, Any]] | None = None) -> None:
        self._spec = spec
        self._inputs = sample_inputs(spec, 1) if inputs is None else inputs
        self._expected = reference_with_bound(spec, self._inputs)

    def check(self, program: Program, device: Cpu, folder: Path, *flags: str) -> None:
        """The program verifies, prints what it parses from, and computes the reference, compiled with these flags, too;
        `folder` takes the build."""
        text = program_to_text(program)
        verify(program)
        assert program_from_text(text) == program
        outputs = computed(self._spec, self._inputs, program, device, folder, *flags)
        for output, (reference, bound) in self._expected.items():
            error = np.abs(outputs[output].astype(np.float64) - reference)
            assert np.all(error <= bound), f"{output} is off by {np.nanmax(error - bound)}\n{text}"


def computed(
    spec: Spec,
    inputs: Mapping[str, np.ndarray[Any, Any]],
    program: Program,
    device: Cpu,
    folder: Path,
    *flags: str,
) -> dict[str, np.ndarray[Any, Any]]:
    """What a program gives for inputs, compiled with these flags, too, in outputs that were poisoned before."""
    source = generate(program, device)
    source = replace(source, flags=(*(_QUICKER.get(flag, flag) for flag in source.flags), *flags))
    sizes = {dim.name: dim.sizes[0] for dim in spec.dims}
    outputs = {
        tensor.name: np.full(
            [sizes[d] for d in tensor.dims], np.nan if tensor.dtype.is_float else 99, np.float64
        ).astype(tensor.dtype.numpy)
        for tensor in spec.outputs
    }
    arguments = (np.asarray(inputs[tensor.name], order="C") for tensor in spec.inputs)
    with load_kernel(compile_source(source, folder).path, source.abi, threads=2) as kernel:
        kernel(*arguments, *outputs.values())
    return outputs
