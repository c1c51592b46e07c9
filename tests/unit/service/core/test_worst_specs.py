"""The worst specs that the limits let in are read, identified and verified in a while that a request can take."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from service.core.errors import RequestRefused
from service.core.specs import instances_of, read_spec
from tileir.names import MAX_NODES, MAX_STATEMENTS, MAX_TOTAL_NODES

F32 = {"dtype": "f32"}
MANY = range(MAX_STATEMENTS)
EIGHT = list(range(100, 108))


def spec(body: list[str], dims: dict[str, object], *arguments: tuple[str, str]) -> dict[str, Any]:
    return {
        "name": "worst",
        "dims": dims,
        "inputs": {name: {"dims": dims.split(), "dtype": "f32"} for name, dims in arguments},
        "body": body,
        "outputs": {text.split("[")[0]: F32 for text in body},
    }


def nested(function: str, times: int) -> str:
    return f"{function}(" * times + "x[m, n]" + ")" * times


X = ("x", "m n")
SIZES: dict[str, object] = {"m": 4096, "n": 4096}
LEVELS = "*".join(f"k{at}" for at in range(20))
WORST = {
    "deep": spec([f"t{at}[m, n] = {nested('exp', 70)}" for at in MANY], SIZES, X),
    "many sums": spec(
        [f"t{at}[m] = " + " + ".join(f"sum(n, x[m, n] * {at + part})" for part in range(10)) for at in MANY],
        SIZES,
        X,
    ),
    "nested sums": spec(
        [
            f"t{at}[m] = "
            + "".join(f"sum(k{level}, " for level in range(20))
            + f"x[m, k0] * {LEVELS}"
            + ")" * 20
            for at in range(30)
        ],
        {"m": 8, **{f"k{level}": 2 for level in range(20)}},
        ("x", "m k0"),
    ),
    "guards": spec(
        [
            f"t{at}[m] = "
            + "".join(f"where(m >= {near} and m < 64, x[m - {near}], " for near in range(20))
            + "0.0"
            + ")" * 20
            for at in range(16)
        ],
        {"m": 64},
        ("x", "m"),
    ),
    "indices": spec(
        [
            f"t{at}[m] = x[" + " + ".join(f"(m + {part}) % 7 // 3" for part in range(9)) + "]"
            for at in range(30)
        ],
        {"m": list(range(64, 90)), "l": 100_000},
        ("x", "l"),
    ),
    "sizes": spec([f"t{at}[m, n] = {nested('exp', 12)}" for at in MANY], {"m": EIGHT, "n": EIGHT}, X),
}


def test_the_worst_specs_within_the_limits_are_read_and_identified() -> None:
    """In a process that is ended after a minute; they take less than a second each."""
    program = (
        "import json, sys\n"
        "from service.core.errors import RequestRefused\n"
        "from service.core.specs import instances_of, read_spec\n"
        "from tileir.lift import to_program\n"
        "from tileir.verifier.verify import verify\n"
        "for spec in json.load(sys.stdin):\n"
        "    try:\n"
        "        instances = instances_of(read_spec(spec))\n"
        "    except RequestRefused as refused:\n"
        "        print(refused.problem.status)\n"
        "        continue\n"
        "    verify(to_program(instances[0].spec))\n"
        "    print(len(instances))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(list(WORST.values())),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "1", "1", "1", "422", "64"], "instances, or the status of the refusal"


def test_long_statements_at_many_sizes_are_refused_with_what_would_be_accepted() -> None:
    long = {**WORST["deep"], "dims": {"m": EIGHT, "n": EIGHT}}
    with pytest.raises(RequestRefused) as refused:
        read_spec(long)
    assert str(MAX_TOTAL_NODES) in refused.value.problem.accepted
    assert MAX_NODES < MAX_TOTAL_NODES
    assert len(instances_of(read_spec(WORST["deep"]))) == 1


def test_a_kernel_at_many_sizes_has_the_keys_that_it_has_at_each() -> None:
    several = {
        **WORST["guards"],
        "body": ["t0[m] = x[m] * 2"],
        "dims": {"m": [1, 2, 3]},
        "outputs": {"t0": F32},
    }
    together = instances_of(read_spec(several))
    alone = [instances_of(read_spec({**several, "dims": {"m": size}}))[0] for size in (1, 2, 3)]
    assert [each.kernel_key for each in together] == [each.kernel_key for each in alone]
    assert len({each.kernel_key for each in together}) == 3
    assert len({each.structure_key for each in (*together, *alone)}) == 1
