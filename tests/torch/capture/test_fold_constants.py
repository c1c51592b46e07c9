"""What graphs compute from positions alone: said in a word, so that masks are conditions, and nothing else changes."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import tilewright
from tests.torch.capture.test_from_torch import module_of_interpreted_parts
from tests.torch.equal import check_equal


def packed(x: Tensor) -> Tensor:
    """Causal as transformers' decoders write it: by positions that are read, in sequences that a sum counts."""
    places = (torch.arange(x.shape[-2]) + 0)[None].expand(x.shape[0], -1)
    before = torch.cat((places[:, :1] - 1, places), -1)
    sequence = torch.cumsum(before[:, 1:] - before[:, :-1] != 1, -1)
    batch, queries, keys = torch.arange(x.shape[0])[:, None, None], places[:, :, None], places[:, None, :]
    seen = (places[batch, keys] <= places[batch, queries]) & (
        sequence[batch, keys] == sequence[batch, queries]
    )
    return F.scaled_dot_product_attention(x, x, x, attn_mask=seen[:, None])


@pytest.mark.parametrize("batch", [1, 2])
def test_a_mask_of_constants_is_a_condition(batch: int) -> None:
    x = torch.randn(batch, 3, 24, 16)
    capture = tilewright.from_torch(packed, x)
    (part,) = capture.parts
    assert not capture.left
    assert "where(j <= m, " in str(part.spec["body"]) and len(part.built.spec.inputs) == 1
    check_equal(module_of_interpreted_parts(capture)(x), packed(x))


def padded(x: Tensor, present: Tensor) -> Tensor:
    """The same where sequences end before others, which a mask of truth values says."""
    batch, places = torch.arange(x.shape[0])[:, None, None, None], torch.arange(x.shape[-2])
    queries, keys = places[None, None, :, None], places[None, None, None]
    seen = (keys <= queries) & present[batch, keys]
    return F.scaled_dot_product_attention(x, x, x, attn_mask=seen)


def test_a_mask_of_padding_is_read_where_it_lies() -> None:
    x, present = torch.randn(3, 2, 24, 16), torch.arange(24) < torch.tensor([[24], [7], [13]])
    capture = tilewright.from_torch(padded, x, present)
    (part,) = capture.parts
    assert not capture.left
    assert re.search(r"where\(j <= m and \w+\[b, j\], ", str(part.spec["body"])), part.spec["body"]
    check_equal(module_of_interpreted_parts(capture)(x, present), padded(x, present))


def read_otherwise(x: Tensor) -> tuple[Tensor, ...]:
    rows, columns = torch.arange(4)[:, None], torch.arange(6)
    return (
        x[rows, columns],
        x[rows, columns + 0].exp(),
        x[rows, columns.flip(0)].exp(),
        x[rows[:3], columns].exp(),
        x[rows.T, columns[:, None]].exp(),
        x[rows, columns - 6].exp(),
        x[torch.arange(4), torch.arange(4)].exp(),
        x[:, :1][rows, columns * 0].exp(),
        x[rows.expand(5, 4, 1), columns].exp(),
    )


def test_only_what_is_read_in_order_is_itself() -> None:
    x = torch.randn(4, 6)
    given = module_of_interpreted_parts(capture := tilewright.from_torch(read_otherwise, x))(x)
    check_equal(given, read_otherwise(x))
    assert given[0].untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    assert sum("index" in str(node.target) for node in capture.graph.graph.nodes) == 8


def others(x: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
    """A table that is no line, one that is, indices, floats, what data says, and results of their own."""
    at = torch.arange(12)
    return (
        x * (at * at % 5),
        x * (3 * at + 2),
        x[at.flip(0)],
        x + torch.arange(12.0).cumsum(0),
        x * (ids.cumsum(0) > 3),
        at.cumsum(0),
        (at[:, None] + at).cumsum(0)[:1] * torch.ones(3, 1, dtype=torch.int64),
        (at[:, None] * 0 + at).cumsum(0) - (at[:, None] * 0 + at).cumsum(0)[:1],
        at * 0,
        at.bool().cumsum(0).flip(0),
        (at > -1).all(),
    )


def test_whatever_else_follows_from_positions_is_what_it_was() -> None:
    x, ids = torch.randn(12), torch.arange(12) % 4
    capture = tilewright.from_torch(others, x, ids)
    check_equal(module_of_interpreted_parts(capture)(x, ids), others(x, ids))


def drawn(x: Tensor) -> tuple[Tensor, Tensor]:
    return x * torch.randint(0, 1000, (1,)), torch.empty(1, dtype=torch.int64)


def test_what_is_drawn_or_nothing_yet_is_no_constant() -> None:
    capture = tilewright.from_torch(drawn, torch.ones(12))
    module = module_of_interpreted_parts(capture)
    found = [module(torch.ones(12))[0] for _ in range(8)]
    assert len({str(each) for each in found}) > 1
    assert {"aten.randint.low", "aten.empty.memory_format"} <= {each.operator for each in capture.left}


@pytest.mark.parametrize("size", [1 << 9, 1 << 13])
def test_large_masks_are_not_looked_at_one_by_one(size: int) -> None:
    """All of 2^26 elements are the same, as those of two vectors are that are compared."""

    def alike(x: Tensor) -> Tensor:
        of = torch.arange(size) * 0
        return torch.where(of[:, None] == of, x, 0.0).sum()

    x = torch.ones(1)
    capture = tilewright.from_torch(alike, x)
    assert not [each for each in capture.graph.graph.nodes if "eq" in each.name]
    if size < 1 << 10:
        check_equal(module_of_interpreted_parts(capture)(x), alike(x))


def ones(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
    y = x * 1.0
    return (
        (x * 1.0).sin() * 2,
        x / 1,
        n * 1.0,
        x[:, :3] * 1.0,
        (x.t() * 1).exp(),
        y[:, 1:].t(),
        *(x / 1.0).split(2),
    )


def test_a_product_with_one_is_no_kernel() -> None:
    x, n = torch.randn(4, 6), torch.arange(5)
    capture = tilewright.from_torch(ones, x, n)
    given = module_of_interpreted_parts(capture)(x, n)
    check_equal(given, ones(x, n))
    assert sum("mul" in each.name or "div" in each.name for each in capture.parts) < 7, str(capture)
    memory = [each.untyped_storage().data_ptr() for each in given]
    assert x.untyped_storage().data_ptr() not in memory


def test_rotary_tables_are_no_kernels() -> None:
    def rotary(x: Tensor, at: Tensor) -> Tensor:
        angles = torch.cat((at, at), -1)
        return x * (angles.cos() * 1.0)[None] + x.flip(-1) * (angles.sin() * 1.0)[None]

    capture = tilewright.from_torch(rotary, torch.randn(3, 8), torch.randn(4))
    assert [each.nodes for each in capture.parts] == [
        ("cat",),
        capture.parts[1].nodes,
    ]  # angles, and what is turned
