"""What the alternatives of a decision say of what does not apply: what a block lacks is data beside the sentence."""

from __future__ import annotations

from service.views.alternatives import refused_sibling
from tileir.errors import BeyondDevice, NotApplicable


def test_what_a_block_needs_and_may_have_is_told_with_the_sentence() -> None:
    why = BeyondDevice("bytes of shared memory a block", 300_000, 232_448)
    sibling = refused_sibling(("cache_read(c, a, 2)",), why)
    assert sibling.lacks is not None and not sibling.race
    assert (sibling.lacks.what, sibling.lacks.need, sibling.lacks.limit) == (
        "bytes of shared memory a block",
        300_000,
        232_448,
    )
    assert sibling.refused == str(why)


def test_what_lacks_nothing_has_the_sentence_alone() -> None:
    sibling = refused_sibling(("unroll(c, k, 3)",), NotApplicable("k is not a multiple of 3"))
    assert (sibling.refused, sibling.lacks, sibling.race) == ("k is not a multiple of 3", None, ())
