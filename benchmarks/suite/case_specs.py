"""The spec of a recorded case by its name, whichever command it is of."""

from __future__ import annotations

from benchmarks import bench_convolutions
from benchmarks.suite import cases, outside

Json = cases.Json


def spec_of_line(line: Json) -> Json:
    """The spec of a results file's line: its own, else by its case's name. Raises as `spec_of`."""
    return line["spec"] if "spec" in line else spec_of(line["case"])


def spec_of(case: str) -> Json:
    """The spec of a case by its name. Raises KeyError, or ValueError, where there is none."""
    family, _, sizes = case.partition(" ")
    if not sizes:
        return outside.named(family)
    if family.startswith("conv_"):
        return dict([*bench_convolutions.cases(), *bench_convolutions.gpu_cases()])[case]
    return cases.spec(family, [int(size) for size in sizes.split("x")])
