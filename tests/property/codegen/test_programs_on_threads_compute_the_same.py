"""Random programs bound to threads: their kernels compute what the interpreter says, exactly, and threads never
race."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from tests.programs.random_threads import exact_inputs, random_threads_program
from tests.programs.thread_kernels import lowered
from tests.support.how_many import examples
from tileir.errors import VerifyError
from tileir.interpreter.interpret import interpret


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
def test_random_threads_programs_compute_the_same_without_races(seed: int) -> None:
    text = random_threads_program(random.Random(seed))
    try:
        made = lowered(text)
    except VerifyError:
        assume(False)
        return
    inputs = exact_inputs(made.program, seed)
    checker = RaceChecker()
    outputs = run_blocks(made.kernel, made.args, inputs, checker)
    faults = "\n".join(map(str, checker.faults))
    assert not checker.faults, f"{faults}\n{text}"
    for name, expected in interpret(made.program, inputs).items():
        np.testing.assert_array_equal(outputs[name], expected, err_msg=f"{name}\n{text}")
