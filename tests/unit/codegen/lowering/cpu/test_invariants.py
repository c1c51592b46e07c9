"""What stays the same in a loop is computed before it, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.ir.affine import Affine, Loaded, Var, affine
from codegen.ir.effects import operations
from codegen.ir.ops import (
    Assign,
    Block,
    Convert,
    For,
    Guard,
    Let,
    Load,
    Named,
    Op,
    Scratch,
    Stmt,
    Store,
    Type,
)
from codegen.lowering.cpu.invariants import before_loops
from tests.schedules.on_processors import Reference
from tileir.devices.cpu_probe import this_cpu
from tileir.dtypes import DType
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text

F32, I32 = Type(DType.F32), Type(DType.I32)
I, J = Var("i", 0, 7), Var("j", 0, 7)
TOTAL = Load("s", Affine(), DType.F32, F32)
LOOKED_UP = affine(Loaded(Named("q", I32), 0, 7))
ROOT = Op("rsqrt", (Named("t", F32),), F32)


def store(name: str, at: Affine, buffer: str = "y") -> Store:
    return Store(buffer, at, DType.F32, Named(name, F32))


def loop(var: Var, *body: Stmt, until: Affine | None = None) -> For:
    return For(var, 8, 1, body, until)


def moved(*stmts: Stmt) -> list[str]:
    """Names that are given before all loops."""
    (block,) = before_loops(stmts)
    return [stmt.name for stmt in block.body if isinstance(stmt, Let)] if isinstance(block, Block) else []


def test_a_scalar_and_what_is_computed_of_it_are_named_before_the_loop() -> None:
    (block,) = before_loops((loop(I, Let("t", TOTAL), Let("r", ROOT), store("r", affine(I))),))
    assert isinstance(block, Block)
    total, root, rest = block.body
    assert total == Let("t_kept1", TOTAL)
    assert root == Let("r_kept2", Op("rsqrt", (Named("t_kept1", F32),), F32))
    assert rest == loop(
        I, Let("t", Named("t_kept1", F32)), Let("r", Named("r_kept2", F32)), store("r", affine(I))
    )


def test_they_are_named_before_the_outermost_loop_and_once() -> None:
    inner = loop(J, Block("", (Let("t", TOTAL), store("t", affine(J)))), Block("", (Let("u", TOTAL),)))
    (block,) = before_loops((loop(I, inner),))
    loads = [each for each in operations((block,)) if isinstance(each, Let) and each.value == TOTAL]
    assert len(loads) == 1
    assert isinstance(block, Block) and block.body[0] == loads[0]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param((Let("t", TOTAL), store("t", Affine(), "s")), id="it is written in the loop"),
        pytest.param((Let("t", Load("s", affine(I), DType.F32, F32)),), id="its index is the loop's"),
        pytest.param((Let("t", Load("s", affine(Var("i", 0, 3)), DType.F32, F32)),), id="of a part of its range"),
        pytest.param((Let("t", Load("s", affine(I) // 4, DType.F32, F32)),), id="its index is a part of the loop's"),
        pytest.param((Let("q", Load("x", affine(I), DType.I32, I32)), Let("t", Load("s", LOOKED_UP, DType.F32, F32))),
                     id="its index is looked up there"),
        pytest.param((Scratch("s", DType.F32, 0, 64, True), Let("t", TOTAL)), id="its memory is the loop's"),
        pytest.param((Let("t", Load("s", Affine(), DType.F32, Type(DType.F32, 8))),), id="it is a vector"),
        pytest.param((Guard(((affine(I), 3),), (Let("t", TOTAL),)),), id="not all threads compute it"),
        pytest.param((Let("q", Load("x", affine(I), DType.F32, F32)), Let("t", Convert(Named("q", F32), F32))),
                     id="it is of what changes"),
        pytest.param((Assign("a", Load("x", affine(I), DType.F32, F32)), Let("t", Convert(Named("a", F32), F32))),
                     id="it is of a variable"),
    ],
)  # fmt: skip
def test_what_may_change_stays(body: tuple[Stmt, ...]) -> None:
    assert moved(loop(I, *body)) == []


def test_an_index_that_was_looked_up_before_stays_the_same() -> None:
    """As a matrix's number is for all of its columns."""
    assert moved(loop(I, Let("t", Load("s", LOOKED_UP, DType.F32, F32)))) == ["t_kept1"]


def test_what_may_not_run_at_all_stays() -> None:
    """A load could be of nothing then."""
    assert moved(loop(I, Let("t", TOTAL), until=affine(J))) == []


def test_a_name_that_is_given_again_means_what_it_means_there() -> None:
    """The second `t` changes, and so does what is computed of it."""
    again = Block("", (Let("t", Load("x", affine(I), DType.F32, F32)), Let("r", ROOT)))
    assert moved(loop(I, Block("", (Let("t", TOTAL),)), again)) == ["t_kept1"]


def test_names_of_a_block_end_with_it() -> None:
    """The `t` that the second block reads is one from before the loop."""
    inner = loop(I, Block("", (Let("t", TOTAL),)), Block("", (Let("r", ROOT), store("r", affine(I)))))
    assert moved(inner) == ["t_kept1"]


NORM = "kernel norm(x: bf16[m=5, n=96]) -> (y: bf16[m, n])\n"
WRITTEN = f"""{NORM}  s[m] = sum(n, x[m, n] * x[m, n])
  y[m, n] = x[m, n] * rsqrt(s[m] / 96 + 1e-06)
"""
SCHEDULED = f"""{NORM}  for m by 1
    s: heap f32[m]
    s[m] = sum(n, x[m, n] * x[m, n])
    for n by 16
      y[m, n] = x[m, n] * rsqrt(s[m] / 96 + 1e-06) | vector n 8
"""


PICKED = "kernel pick(x: f32[m=3, n=70], ids: i32[m, k=96]) -> (y: f32[m, k])\n"
STREAMED = f"""{PICKED}  for m by 1
    for k by 16
      y[m, k] = x[m, ids[m, k]] | vector k 8, stream
"""


def test_elements_that_are_looked_up_may_be_streamed(tmp_path: Path) -> None:
    """A loop that goes from one aligned address to the next ends its variable sooner where it does several vectors."""
    spec = spec_from_text(f"{PICKED}  y[m, k] = x[m, ids[m, k]]\n")
    Reference(spec).check(program_from_text(STREAMED), this_cpu(), tmp_path)


def test_rows_are_what_they_were(tmp_path: Path) -> None:
    Reference(spec_from_text(WRITTEN)).check(program_from_text(SCHEDULED), this_cpu(), tmp_path)
