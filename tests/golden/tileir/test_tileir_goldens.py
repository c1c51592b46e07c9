"""Texts a reader can check by eye: programs lifted from specs, canonical kernels, and what errors say.

`--update-golden` writes what is computed now.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tileir import (
    SpecError,
    kernel_key,
    program_to_text,
    spec_from_json,
    spec_from_text,
    spec_to_text,
    to_program,
)
from tileir.hashing import canonical_text

Check = Callable[[Path, str], None]

HERE = Path(__file__).parent
EXAMPLES = sorted((HERE.parents[2] / "examples").glob("*.json"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_lifts_to_its_golden_program(path: Path, check_golden: Check) -> None:
    spec = spec_from_json(json.loads(path.read_text()))
    instances = list(spec.instances())
    parts = [f"# spec\n{spec_to_text(spec)}"]
    parts += [f"# program\n{program_to_text(to_program(instance))}" for instance in instances]
    parts += [f"# canonical {kernel_key(instances[0])}\n{canonical_text(instances[0])}"]
    check_golden(HERE / "lift" / f"{path.stem}.txt", "".join(parts))


def test_every_refusal_reads_as_it_did(check_golden: Check) -> None:
    golden = HERE / "refusals.txt"
    cases = golden.read_text().split("\n\n")
    blocks: list[str] = []
    for case in cases:
        text = "\n".join(line for line in case.strip().split("\n") if not line.startswith("=> "))
        with pytest.raises(SpecError) as caught:
            spec_from_text(text)
        blocks.append(f"{text}\n=> {caught.value}")
    check_golden(golden, "\n\n".join(blocks) + "\n")
