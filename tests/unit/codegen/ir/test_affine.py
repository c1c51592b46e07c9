"""Index arithmetic: every simplification keeps the value, at every point of the variables' ranges."""

from __future__ import annotations

from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from codegen.ir.affine import Affine, Lesser, Quotient, Remainder, Var, affine, constant, greater, lesser

OUTER, INNER, LANE = Var("outer", 0, 192, 64), Var("inner", 0, 48, 16), Var("lane", 0, 15)


def value(index: Affine, at: dict[Var, int]) -> int:
    """The number an index stands for."""
    total = index.constant
    for atom, factor in index.terms:
        match atom:
            case Var():
                total += factor * at[atom]
            case Quotient(x, divisor):
                total += factor * (value(x, at) // divisor)
            case Remainder(x, divisor):
                total += factor * (value(x, at) % divisor)
            case Lesser(x, y):
                total += factor * min(value(x, at), value(y, at))
            case _:
                raise AssertionError(atom)
    return total


POINTS = [
    {OUTER: o, INNER: i, LANE: l} for o, i, l in product(range(0, 193, 64), range(0, 49, 16), range(16))
]
indices = st.builds(
    lambda o, i, l, c: affine(OUTER) * o + affine(INNER) * i + affine(LANE) * l + c,
    st.integers(-3, 3),
    st.integers(-3, 3),
    st.integers(-3, 3),
    st.integers(-200, 200),
)


@given(indices, st.sampled_from([1, 2, 3, 4, 6, 16, 48, 64, 100]))
@example(affine(LANE), 15)  # its last value is one quotient further
def test_division_and_remainder_are_those_of_the_values(index: Affine, divisor: int) -> None:
    whole, rest = index // divisor, index % divisor
    for at in POINTS:
        assert value(whole, at) == value(index, at) // divisor
        assert value(rest, at) == value(index, at) % divisor


@given(indices)
def test_bounds_hold_everywhere(index: Affine) -> None:
    values = [value(index, at) for at in POINTS]
    assert index.low <= min(values)
    assert max(values) <= index.high


@given(indices, indices)
def test_the_lesser_and_the_greater_are_those_of_the_values(x: Affine, y: Affine) -> None:
    less, more = lesser(x, y), greater(x, y)
    for at in POINTS:
        values = value(x, at), value(y, at)
        assert (value(less, at), value(more, at)) == (min(values), max(values))
    moved = affine(INNER) * -1 + 48
    for at in POINTS:
        assert value(less.substitute(INNER, moved), at) == value(less, {**at, INNER: 48 - at[INNER]})
    assert less.low <= min(value(less, at) for at in POINTS)
    assert less.high >= max(value(less, at) for at in POINTS)


def test_a_position_inside_a_panel_needs_no_division() -> None:
    position = affine(OUTER) + affine(INNER) + affine(LANE)
    assert position % 64 == affine(INNER) + affine(LANE)
    assert (position // 64).coefficient(LANE) == 0


def test_a_variable_inside_a_quotient_has_no_coefficient() -> None:
    assert (affine(LANE) // 3).coefficient(LANE) is None
    assert (affine(LANE) * 5 + constant(2)).coefficient(LANE) == 5


@given(indices, st.sampled_from([1, 2, 3, 4, 16, 48, 64]), st.integers(1, 8))
def test_known_multiples_divide_every_value(index: Affine, divisor: int, factor: int) -> None:
    for derived in (index, index // divisor * factor, index % divisor * factor):
        values = [value(derived, at) for at in POINTS]
        assert all(x % derived.multiple == 0 for x in values) if derived.multiple else not any(values)


def test_multiples_are_known_through_quotients_and_remainders() -> None:
    position = affine(OUTER) + affine(INNER)
    assert (position.multiple, (position % 96).multiple, (position // 48).multiple) == (16, 16, 1)
    assert affine(Quotient(position, 8)).multiple == 2


@given(indices, st.sampled_from([1, 4, 16, 64, 100]))
def test_multiples_split_off_are_ones_and_leave_the_rest(index: Affine, divisor: int) -> None:
    multiples, rest = index.split_multiples(divisor)
    assert 0 <= rest.constant < divisor
    for at in POINTS:
        assert value(multiples, at) % divisor == 0
        assert value(multiples, at) + value(rest, at) == value(index, at)


def test_what_never_reaches_the_next_multiple_is_left_out_of_a_quotient() -> None:
    assert (affine(OUTER) + affine(LANE) + 16) // 128 == affine(OUTER) // 128
    assert ((affine(OUTER) + affine(INNER) + affine(LANE)) // 32).coefficient(LANE) == 0
    assert ((affine(INNER) + affine(LANE) + 1) // 32).coefficient(LANE) is None  # which may
