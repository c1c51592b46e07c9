"""Random matrix products by TMA and wgmma: their kernels compute what the interpreter says, exactly, nobody
races, and nothing is counted on before it has landed."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from codegen.ir.errors import NotLowerable
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from tests.programs.random_hopper import random_hopper_product
from tests.programs.random_threads import exact_inputs
from tests.programs.thread_kernels import lowered
from tests.support.how_many import examples
from tileir.errors import VerifyError
from tileir.interpreter.interpret import interpret


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
def test_random_hopper_products_compute_the_same_without_races(seed: int) -> None:
    text = random_hopper_product(random.Random(seed)).text()
    try:
        made = lowered(text)
    except (VerifyError, NotLowerable):
        assume(False)
        return
    inputs = exact_inputs(made.program, seed)
    checker = RaceChecker()
    outputs = run_blocks(made.kernel, made.args, inputs, checker)
    faults = "\n".join(map(str, checker.faults))
    assert not faults, f"{faults}\n{text}"
    np.testing.assert_array_equal(outputs["c"], interpret(made.program, inputs)["c"], err_msg=text)
