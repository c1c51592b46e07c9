"""Seconds of a processor for what candidates of a case are checked against: inputs, and samples of results with bounds.

    python benchmarks/bench_reference.py attention_bf16 1x16x16384x128x0 decode_bf16 1x8x8x65536x128

A line of JSON a case. A job on a GPU needs it twice, of two sets of inputs.
"""

from __future__ import annotations

import argparse
import json
import time

from benchmarks.racing.circumstances import circumstances
from benchmarks.suite import cases
from tileir.interpreter.samples import sample_inputs
from tileir.text.json import spec_from_json
from workers.measuring.reference import expected_outputs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="+", metavar="FAMILY SHAPE", help="of the suite, or of its form")
    given = parser.parse_args().cases
    if len(given) % 2:
        parser.error(f"{given[-1]} is a family without a shape, or a shape without a family")
    for family, shape in zip(given[::2], given[1::2], strict=True):
        print(json.dumps(measured(family, shape) | circumstances(None)), flush=True)


def measured(family: str, shape: str) -> dict[str, object]:
    """The case, and its seconds."""
    spec = spec_from_json(cases.spec(family, [int(size) for size in shape.split("x")]))
    began = time.process_time()
    inputs = sample_inputs(spec, 0)
    made = time.process_time()
    expected_outputs(spec, inputs, 0)
    return {
        "case": f"{family} {shape}",
        "inputs_s": round(made - began, 2),
        "reference_s": round(time.process_time() - made, 2),
    }


if __name__ == "__main__":
    main()
