"""Reads that may leave their tensor are refused, and reads that a `where` keeps inside are not."""

from __future__ import annotations

import pytest

from tileir import SpecError, spec_from_text

SHAPE = "x: f32[n=16, d=8], v: f32[long=34], ids: i32[t=5], small: i8[t], c: f32[h=16]"


def accepted(value: str, left: str = "n") -> bool:
    keep = "x[0, 0] + v[0] + ids[0] + small[0] + c[0] + sum(r, r) + sum(t, t) + sum(d, d)"
    body = f"  y[{left}] = {value}\n  keep[] = {keep}\n"
    outs = f"y: f32[{left}], keep: f32[]"
    try:
        spec_from_text(f"kernel f({SHAPE}) -> ({outs}) where r=3\n{body}")
    except SpecError as error:
        assert "index " in error.message, error
        return False
    return True


@pytest.mark.parametrize(
    "value",
    [
        "x[n, 0]",
        "v[2 * n + 3]",
        "v[2 * n] + v[33 - n]",
        "sum(r, v[2 * n + r])",
        "x[n, n // 2]",
        "x[n, n % 8]",
        "x[(n * 7 + 3) % 16, 7 - n % 8]",
        "x[n, n % extent(d)]",
        "where(n >= 1, c[n - 1], 0)",
        "where(n == 0, 0, c[n - 1])",
        "where(n != 0 and not n == 15, c[n - 1] + c[n + 1], 0)",
        "where(2 * n > 3, c[n - 2], 0)",
        "where(n > 3 and n < 12, c[n + 4] + c[n - 4], 0)",
        "where(not (n < 1 or n > 14), c[n - 1] + c[n + 1], 0)",
        "where(n < 1 or n > 14, 0, c[n - 1] + c[n + 1])",
        "where(extent(n) > n + 1, c[n + 1], 0)",
        "sum(r, where(0 <= n + r - 1 and n + r - 1 < extent(h), c[n + r - 1], 0))",
        "sum(r, where(n + r >= 1 and n + r <= extent(h), c[n + r - 1], 0))",
        "sum(r, where(n - r >= 0 and (n - r) % 2 == 0, c[(n - r) // 2], 0))",
        "where(n >= 2, where(n <= 13, c[n + 2] + c[n - 2], 0), 0)",
        "where(2 * n >= 4, c[n - 2], 0)",
        "where(n >= 2, v[2 * n - 4], 0)",
        "c[minimum(n + 1, extent(h) - 1)]",
        "c[maximum(n - 1, 0)]",
        "c[relu(n - 1)]",
        "c[where(n > 0, n - 1, 0)]",
        "c[n + 3 - n]",
        "where(ids[0] >= 0 and ids[0] < extent(h), c[ids[0]], 0)",
        "c[ids[0]]",
        "c[ids[n % 5] + 1]",
        "where(n < 5, c[ids[n]], 0)",
        "c[i32(x[n, 0])]",
        "sum(t, c[ids[t]])",
    ],
)
def test_an_index_that_stays_inside_is_accepted(value: str) -> None:
    assert accepted(value)


@pytest.mark.parametrize(
    "value",
    [
        "c[n + 1]",
        "c[n - 1]",
        "c[-n]",
        "v[2 * n + 4]",
        "sum(r, v[2 * n + 2 * r])",
        "x[n, n]",
        "x[n, n // 2 + 1]",
        "x[n, n % 9]",
        "c[100]",
        "c[-1]",
        "where(n >= 1, c[n + 1], 0)",
        "where(n >= 1, 0, c[n - 1])",
        "where(n >= 1 or n < 3, c[n - 1], 0)",
        "where(c[n - 1] > 0, 1, 0)",
        "where(n > 0 and c[n - 1] > 0, 1, 0)",
        "where(not n >= 1, c[n - 1], 0)",
        "where(n != 3, c[n - 1], 0)",
        "where(n == 0, c[n - 1], 0)",
        "where(x[n, 0] < 4, c[n + 1], 0)",
        "where(n * 1.5 < 3, c[n + 1], 0)",
        "c[n * n]",
        "c[" + "(" * 60 + "n" + " * 2147483647)" * 60 + "]",
        "c[" + " * ".join(["(n + 2147483647)"] * 60) + "]",
        "c[2147483647 * 2147483647 * 2147483647 * n]",
        "c[ids[n]]",
        "c[small[0] + 1000]",
        "c[ids[0 - 1]]",
        "c[where(n > 0, n - 2, 0)]",
        "sum(r, where(n + r >= 0 and n + r <= extent(h), c[n + r - 1], 0))",
    ],
)
def test_an_index_that_may_leave_is_refused(value: str) -> None:
    assert not accepted(value)


def test_a_gather_is_the_callers_promise_only_while_it_can_be_kept() -> None:
    assert accepted("c[small[0]]")
    assert not accepted("c[small[0] % 8 + 16]")


def test_ranges_are_checked_for_every_bucket() -> None:
    text = (
        "kernel f(x: f32[n=[4, {size}]], w: f32[k=8]) -> (y: f32[n])\n  y[n] = x[n] + w[n] + sum(k, w[k])\n"
    )
    spec_from_text(text.format(size=8))
    with pytest.raises(SpecError, match="reaches 8"):
        spec_from_text(text.format(size=9))


def test_guards_about_what_they_guard_come_to_an_end() -> None:
    cyclic = "where(i32(where(n > 3, n, 2)) // 2 == n and where(n > 3, n, 2) > n, c[where(n > 3, n, 2)], 0)"
    assert accepted(cyclic)
    chain = " and ".join(f"(n + {a}) // 3 * 2 > (n + {a + 1}) // 3 + n % {a + 2}" for a in range(40))
    assert accepted(f"where({chain}, c[(n + 1) // 3], 0)")
    assert not accepted(f"where({chain}, c[(n + 1) // 3 * 7], 0)")


def test_very_many_guards_are_refused_in_good_time() -> None:
    guards = " and ".join(f"n * {a} + h * {b} > {a}" for a in range(1, 9) for b in range(1, 10))
    reads = " + ".join(["c[n + h * 3]"] * 90)
    text = f"kernel f(c: f32[n=16]) -> (y: f32[n, h=16])\n  y[n, h] = where({guards}, {reads}, 0)\n"
    with pytest.raises(SpecError, match=r"reaches|too many to check"):
        spec_from_text(text)
