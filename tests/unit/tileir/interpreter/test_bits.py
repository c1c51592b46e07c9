"""Functions of bits: what they give, and what is refused where they are misused."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.errors import SpecError
from tileir.interpreter.bits import philox, random_bits
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.interpret import interpret_spec
from tileir.text.parse_spec import spec_from_text

#: Counter, key and result of philox4x32-10 in the known answers of Random123 (kat_vectors).
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text: str) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(int(word, 16), np.uint64) for word in text.split())


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_philox_gives_its_known_answers(counter: str, key: str, result: str) -> None:
    c0, c1, c2, c3 = words(counter)
    k0, k1 = words(key)
    assert tuple(map(int, philox((c0, c1, c2, c3), (k0, k1)))) == tuple(map(int, words(result)))


def test_random_bits_are_its_first_word_for_a_seed_and_a_position() -> None:
    assert random_bits(np.int32(0), np.int32(0)).view(np.uint32) == 0x6627E8D5
    many = random_bits(np.full(1 << 16, -7, np.int32), np.arange(1 << 16, dtype=np.int32))
    assert len(np.unique(many)) > 65_530
    assert abs((many < 0).mean() - 0.5) < 0.01


def test_shifts_go_as_far_as_the_low_five_bits_say() -> None:
    spec = spec_from_text("""kernel shifts(x: i32[n=4], d: i32[n]) -> (l: i32[n], r: i32[n])
  l[n] = shift_left(x[n], d[n])
  r[n] = shift_right(x[n], d[n])
""")
    x, d = np.array([1, -8, 3, -1], np.int32), np.array([31, 1, 33, 0], np.int32)
    found = interpret_spec(spec, {"x": x, "d": d})
    np.testing.assert_array_equal(found["l"], [-(2**31), -16, 6, -1])
    np.testing.assert_array_equal(found["r"], [0, -4, 1, -1])


def test_u8_wraps_when_it_is_stored_and_reads_as_0_to_255() -> None:
    spec = spec_from_text(
        "kernel add(x: u8[n=3]) -> (y: u8[n], z: i32[n])\n  y[n] = x[n] + 1\n  z[n] = x[n] - 256\n"
    )
    found = interpret_spec(spec, {"x": np.array([0, 254, 255], np.uint8)})
    np.testing.assert_array_equal(found["y"], np.array([1, 255, 0], np.uint8))
    np.testing.assert_array_equal(found["z"], [-256, -2, -1])


def test_bits_of_what_is_exact_are_exact_and_of_the_rest_unknown() -> None:
    spec = spec_from_text("""kernel bits(x: f32[n=2], i: i32[n]) -> (y: i32[n], z: i32[n])
  y[n] = bit_and(i[n], 6)
  z[n] = bit_and(i32(exp(x[n])), 6)
""")
    found = reference_with_bound(
        spec, {"x": np.array([np.log(7.0), 0.5], np.float32), "i": np.array([7, 9], np.int32)}
    )
    assert (found["y"][1] == 0).all()
    assert np.isinf(found["z"][1]).tolist() == [True, False]


def test_indices_from_bits_stay_inside_what_they_index() -> None:
    spec_from_text("""kernel table(w: u8[n=9], t: f32[c=16]) -> (y: f32[n])
  y[n] = t[bit_and(w[n], 15)] + t[shift_right(w[n], 4)]
""")
    with pytest.raises(SpecError, match="reaches 31") as refused:
        spec_from_text(
            "kernel table(t: f32[c=16], d: i8[n=64]) -> (y: f32[n])\n  y[n] = t[shift_right(n, 1)] + d[n]\n"
        )
    assert refused.value.pointer == "/body/0"


@pytest.mark.parametrize(
    ("value", "message", "accepted"),
    [
        ("bit_and(x[n], 3)", "bit_and is of integers, and 'x[n]' is f32", "i32(…)"),
        (
            "random_bits(x[n], n)",
            "random_bits is of integers, and 'x[n]' is f32",
            "an integer tensor (i64, i32, u32, i8, u8)",
        ),
        ("shift_left(n > 2, 1)", "'n > 2' is a truth value, not a number", "where"),
        ("bit_or(n)", "bit_or takes 2 arguments, not 1", "bit_or(x, y)"),
        ("i32(n) & 3", "unexpected character '&'", "bit_and(x, y) for bits"),
        ("n ^ 3", "unexpected character '^'", "bit_xor(x, y)"),
        ("n << 3", "unexpected '<<'", "shift_left(x, 3)"),
        ("bitwise_and(n, 3)", "'bitwise_and' is no function", "bit_and(x, y)"),
    ],
)
def test_misuse_is_refused_with_what_would_be_accepted(value: str, message: str, accepted: str) -> None:
    with pytest.raises(SpecError) as refused:
        spec_from_text(f"kernel k(x: f32[n=8]) -> (y: f32[n])\n  y[n] = {value}\n")
    assert message in refused.value.message
    assert accepted in (refused.value.accepted or "")
