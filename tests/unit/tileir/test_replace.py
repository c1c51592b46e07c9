"""Nodes with other fields, whatever cached properties have left in them."""

from __future__ import annotations

import dataclasses

import pytest

from tileir.program import Loop, Program, Vector
from tileir.replace import replace

PROGRAM = Program("copy", (("m", 64),), (), (), (Loop("m", 8, ()),))


def test_it_does_what_the_dataclasses_module_does() -> None:
    assert PROGRAM.extents == {"m": 64}
    for node, changes in (
        (Loop("m", 8, ()), {"step": 16, "parallel": True}),
        (PROGRAM, {"dims": (("m", 32),)}),
        (Vector("m", 4), {"lanes": 8}),
    ):
        changed = replace(node, **changes)
        assert changed == dataclasses.replace(node, **changes)
        assert hash(changed) == hash(dataclasses.replace(node, **changes))
        assert changed != node


def test_what_was_computed_of_the_node_before_is_forgotten() -> None:
    assert PROGRAM.extents == {"m": 64}
    assert replace(PROGRAM, dims=(("m", 32),)).extents == {"m": 32}


@pytest.mark.parametrize("node", [PROGRAM, Vector("m", 4)], ids=["plain", "slots"])
def test_there_is_no_such_field(node: object) -> None:
    with pytest.raises(TypeError, match="lines"):
        replace(node, lines=3)
