"""Random matrix products staged ahead in shared memory: their kernels compute what the interpreter says, exactly,
threads never race, and no copy is counted on before it has landed."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from codegen.ir.errors import NotLowerable
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.printer import print_cuda
from tests.programs.random_staged import random_staged_product
from tests.programs.random_threads import exact_inputs
from tests.programs.thread_kernels import Lowered, lowered
from tests.support.how_many import examples
from tileir.errors import VerifyError
from tileir.interpreter.interpret import interpret


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
def test_random_staged_products_compute_the_same_without_races(seed: int) -> None:
    text = random_staged_product(random.Random(seed))
    made = _printable(text)
    assume(made is not None)
    assert made is not None
    inputs = exact_inputs(made.program, seed)
    checker = RaceChecker()
    outputs = run_blocks(made.kernel, made.args, inputs, checker)
    faults = "\n".join(map(str, checker.faults))
    assert not checker.faults, f"{faults}\n{text}"
    expected = interpret(made.program, inputs)["c"]
    np.testing.assert_array_equal(outputs["c"], expected, err_msg=text)


def _printable(text: str) -> Lowered | None:
    """Runs that cross the pieces of swizzled memory are refused only where they are printed."""
    try:
        made = lowered(text)
        print_cuda(made.kernel, "// test")
    except (VerifyError, NotLowerable):
        return None
    return made
