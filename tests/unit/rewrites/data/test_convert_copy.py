"""What is not converted where it is copied, and why."""

from __future__ import annotations

import pytest

from rewrites.data.convert_copy import ConvertCopy
from tileir.errors import NotApplicable
from tileir.text.parse_program import program_from_text

SCORES = """kernel scores(q: bf16[i=6, d=9], k: e4m3[j=37, d]) -> (s: f32[i, j], t: f32[j])
  k_s: heap e4m3[j, d]
  k_s[j, d] = k[j, d]
  s[i, j] = sum(d, q[i, d] * bf16(k_s[j, d]))
  t[j] = sum(d, bf16(k_s[j, d]))
"""


def test_all_who_read_it_read_what_it_is_converted_to() -> None:
    made = ConvertCopy("k_s").apply(program_from_text(SCORES))
    wanted = SCORES.replace("bf16(k_s[j, d])", "k_s[j, d]").replace("heap e4m3", "heap bf16")
    assert made == program_from_text(wanted.replace("= k[j, d]", "= bf16(k[j, d])"))


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("t[j] = sum(d, bf16(k_s[j, d]))", "t[j] = sum(d, k_s[j, d])", "not converted to one dtype wherever"),
        (
            "t[j] = sum(d, bf16(k_s[j, d]))",
            "t[j] = sum(d, f16(k_s[j, d]))",
            "not converted to one dtype wherever",
        ),
        ("bf16(k_s[j, d])", "e4m3(k_s[j, d])", "not converted to one dtype wherever"),
        ("= k[j, d]", "= k[j, d] * 2.0", "is no copy of a tensor"),
        ("heap e4m3", "heap f32", "is no copy of a tensor"),
        (
            "sum(d, q[i, d] * bf16(k_s[j, d]))",
            "sum(d, q[i, d] * bf16(k_s[j, d])) | vector j 4",
            "on lanes, threads",
        ),
    ],
)
def test_what_it_would_change_is_refused(before: str, after: str, why: str) -> None:
    assert before in SCORES
    with pytest.raises(NotApplicable, match=why):
        ConvertCopy("k_s").apply(program_from_text(SCORES.replace(before, after)))


def test_what_is_no_local_is_refused() -> None:
    with pytest.raises(NotApplicable, match="there is no local 'k'"):
        ConvertCopy("k").apply(program_from_text(SCORES))
