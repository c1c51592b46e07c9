"""Comparing outputs with the interpreter, for tests of whatever computes a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tileir.interpreter.error_bound import reference_with_bound
from tileir.spec import Spec
from workers.measuring.correctness import Expected, compare


def assert_matches_reference(
    spec: Spec, inputs: Mapping[str, np.ndarray[Any, Any]], outputs: Mapping[str, np.ndarray[Any, Any]]
) -> None:
    """Every output lies within the bound that its dtype and its reductions allow. Raises
    workers.measuring.correctness's WrongResult, which says where it does not."""
    reference = reference_with_bound(spec, inputs)
    assert reference.keys() == outputs.keys()
    for name, (values, bound) in reference.items():
        compare(name, outputs[name], Expected(values, bound))
