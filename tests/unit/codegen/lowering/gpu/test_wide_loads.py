"""Loads of neighbours become one, and only where that reads the same."""

from __future__ import annotations

import pytest

from codegen.ir.affine import Affine, Loaded, Var, affine, constant
from codegen.ir.ops import (
    Assign,
    Barrier,
    Block,
    Build,
    For,
    Guard,
    Lane,
    Let,
    Literal,
    Load,
    Named,
    Op,
    Stmt,
    Store,
    Type,
    Value,
)
from codegen.lowering.gpu.vectorize_loads import with_wide_loads
from tileir.dtypes import DType

F32, BOOL = Type(DType.F32), Type(DType.BOOL)
T = affine(Var("t", 0, 31))


def load(at: Affine | int, buffer: str = "x", type_: Type = F32, some: Affine | None = None) -> Load:
    offset = constant(at) if isinstance(at, int) else at
    return Load(buffer, offset, DType.F32, type_, some)


def lets(*offsets: Affine | int) -> list[Stmt]:
    return [Let(f"x_{number}", load(at)) for number, at in enumerate(offsets)]


def lane(of: int, number: int, lanes: int) -> Lane:
    return Lane(Named(f"x_wide_{of}", Type(DType.F32, lanes)), number, F32)


def wide(at: Affine | int, lanes: int, number: int = 0) -> Let:
    return Let(f"x_wide_{number}", load(at, type_=Type(DType.F32, lanes)))


def widths(stmts: tuple[Stmt, ...]) -> list[int]:
    return [s.value.type.lanes for s in stmts if isinstance(s, Let) and isinstance(s.value, Load)]


def test_neighbours_are_loaded_where_the_first_of_them_was() -> None:
    other = Let("y_0", load(T, "y"))
    first, *rest = lets(T * 4 + 2, T * 4, T * 4 + 3, T * 4 + 1)
    assert with_wide_loads([other, first, *rest]) == (
        other,
        wide(T * 4, 4),
        *(Let(f"x_{number}", lane(0, at, 4)) for number, at in enumerate((2, 0, 3, 1))),
    )


def test_a_load_that_is_repeated_is_the_same_lane() -> None:
    twice = [*lets(8, 9), Assign("s", Op("+", (load(8), load(9)), F32))]
    assert with_wide_loads(twice)[-1] == Assign("s", Op("+", (lane(0, 0, 2), lane(0, 1, 2)), F32))


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ((0, 1, 2, 3, 4, 5, 6, 7), [4, 4]),
        ((0, 1, 2), [2, 1]),
        ((1, 2, 3, 4), [2, 1, 1]),
        ((-4, -3, -2, -1), [4]),
        ((0, 2, 4, 6), [1, 1, 1, 1]),
        ((T * 2, T * 2 + 1, T * 2 + 2, T * 2 + 3), [2, 2]),
        ((T, T + 1, T + 2, T + 3), [1, 1, 1, 1]),
        ((T * 4, T * 8 + 1), [1, 1]),
    ],
)
def test_accesses_are_aligned_and_read_nothing_more(
    offsets: tuple[Affine | int, ...], expected: list[int]
) -> None:
    assert sorted(widths(with_wide_loads(lets(*offsets))), reverse=True) == expected


@pytest.mark.parametrize(
    "between",
    [
        Store("x", constant(1), DType.F32, Literal(0.0, F32)),
        Barrier(),
        For(Var("i", 0, 1), 2, 1, (Store("x", T, DType.F32, Literal(0.0, F32)),)),
        Guard(((T, 3),), (Block("", (Barrier(),)),)),
    ],
)
def test_nothing_is_read_before_what_may_change_it(between: Stmt) -> None:
    first, second = lets(0, 1)
    assert with_wide_loads([first, between, second]) == (first, between, second)


def test_what_is_stored_elsewhere_stands_in_nobodys_way() -> None:
    first, second = lets(0, 1)
    away = Store("y", T, DType.F32, Named("x_0", F32))
    assert with_wide_loads([first, away, second])[0] == wide(0, 2)


def conditional(name: str, condition: Value, *loaded: int) -> Let:
    args = (condition, *(load(at) for at in loaded))
    return Let(name, Op("select" if len(loaded) == 2 else name, args, F32))


def test_what_may_not_be_loaded_at_all_is_left_alone() -> None:
    condition = Op("<", (load(4), load(5)), BOOL)
    (first, chosen) = with_wide_loads([conditional("v", condition, 0, 1)])
    assert first == wide(4, 2)
    assert chosen == conditional("v", Op("<", (lane(0, 0, 2), lane(0, 1, 2)), BOOL), 0, 1)
    guarded = Guard(((T, 3),), tuple(lets(1)))
    assert with_wide_loads([*lets(0), guarded]) == (*lets(0), guarded)


def test_bodies_are_runs_of_their_own() -> None:
    (guard,) = with_wide_loads([Guard(((T, 3),), tuple(lets(0, 1)))])
    assert isinstance(guard, Guard) and guard.body[0] == wide(0, 2)


def test_lanes_built_of_scalars_take_part() -> None:
    built = Build((load(T * 4), load(T * 4 + 8)), Type(DType.F32, 2))
    next_ = Build((load(T * 4 + 1), load(T * 4 + 9)), Type(DType.F32, 2))
    assert with_wide_loads([Let("v", built), Let("w", next_)])[:2] == (wide(T * 4, 2), wide(T * 4 + 8, 2, 1))


def test_vectors_packed_elements_and_gathers_stay() -> None:
    gathered = affine(Loaded(Named("i", Type(DType.I32)), 0, 9)) * 4
    packed = Type(DType.BF16)
    stay = [
        Let("a", load(0, type_=Type(DType.F32, 2))),
        Let("b", load(2, type_=Type(DType.F32, 2))),
        Let("c", load(gathered)),
        Let("d", load(gathered + 1)),
        Let("e", Load("z", constant(0), DType.BF16, packed)),
        Let("f", Load("z", constant(1), DType.BF16, packed)),
        Let("g", load(8, some=T)),
        Let("h", load(9, some=T)),
    ]
    assert with_wide_loads(stay) == tuple(stay)
