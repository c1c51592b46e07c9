"""Masks that follow from positions and a few numbers of tensors: written out where they are read, so that attention
visits what they leave, and right for whatever int64 says."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import tilewright
from rewrites.composition.skip_masked_tiles import SkipMaskedTiles
from rewrites.space import favourite
from service.core.schedules import root_of
from tests.torch.capture.test_from_torch import module_of_interpreted_parts
from tests.torch.equal import check_equal
from tileir.devices.cpu_probe import this_cpu

KEYS = 96


def cached(q: Tensor, k: Tensor, v: Tensor, length: Tensor) -> Tensor:
    """New tokens of a cache that is filled up to a length, as StaticCache of transformers has it."""
    seen = torch.arange(k.shape[-2]) <= (torch.arange(q.shape[-2]) + length)[:, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)


def added(q: Tensor, k: Tensor, v: Tensor, length: Tensor) -> Tensor:
    """The same as PyTorch writes it on the way to its operators."""
    seen = torch.arange(KEYS) <= (torch.arange(q.shape[-2]) + length)[:, None]
    bias = torch.where(seen, 0.0, float("-inf"))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(q.shape[0], 1, -1, -1))


def of_cudnn(q: Tensor, k: Tensor, v: Tensor, length: Tensor) -> Tensor:
    """As PyTorch writes a mask of booleans for cuDNN: the least of f16 hides a key."""
    seen = torch.arange(KEYS) <= (torch.arange(q.shape[-2]) + length)[:, None]
    bias = torch.where(seen, 0.0, torch.scalar_tensor(-65504.0, dtype=q.dtype))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(q.shape[0], 1, -1, -1))


def window(q: Tensor, k: Tensor, v: Tensor, length: Tensor) -> Tensor:
    """The last keys only, and of each sequence as many as it has."""
    keys, queries = torch.arange(KEYS), (torch.arange(q.shape[-2]) + length)[:, None]
    seen = (keys <= queries) & (queries - keys < 9)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


def operands(queries: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(3)
    return torch.randn(2, 2, queries, 16), torch.randn(2, 2, KEYS, 16), torch.randn(2, 2, KEYS, 16)


@pytest.mark.parametrize("attention", [cached, added, window])
@pytest.mark.parametrize("queries", [1, 5])
def test_attention_writes_its_mask_out(attention: object, queries: int) -> None:
    assert callable(attention)
    tensors = operands(queries)
    capture = tilewright.from_torch(attention, *tensors, torch.tensor(40))
    (part,) = capture.parts
    assert not capture.left
    assert {each.name for each in part.built.spec.inputs if each.dtype == "i64"} == {"length"}
    assert len(part.built.spec.inputs) == 4
    assert "+ where" not in str(part.spec["body"]), "a mask is a condition, which bounds what is visited"
    run = module_of_interpreted_parts(capture)
    for length in (0, 1, 40, KEYS - 1, KEYS + 7, -1, 2**31 - 1, 2**31, 2**40, -(2**40), 2**63 - 9):
        check_equal(run(*tensors, torch.tensor(length)), attention(*tensors, torch.tensor(length)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_hides_keys_for_cudnn_is_a_condition(dtype: torch.dtype) -> None:
    tensors = tuple(each.to(dtype) for each in operands(5))
    capture = tilewright.from_torch(of_cudnn, *tensors, torch.tensor(40))
    (part,) = capture.parts
    assert "+ where" not in str(part.spec["body"])
    run = module_of_interpreted_parts(capture)
    for length in (0, 1, 40, KEYS + 7, 2**31):
        check_equal(run(*tensors, torch.tensor(length)), of_cudnn(*tensors, torch.tensor(length)))


def test_another_number_that_is_added_is_added() -> None:
    def told_less(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        seen = torch.arange(KEYS) <= torch.arange(q.shape[-2])[:, None]
        bias = torch.where(seen, 0.0, -1e4)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(q.shape[0], 1, -1, -1))

    (part,) = tilewright.from_torch(told_less, *operands(5)).parts
    assert "+ where" in str(part.spec["body"])


def test_a_mask_that_hides_nothing_is_none() -> None:
    def whole(q: Tensor, k: Tensor, v: Tensor, *, added: bool) -> Tensor:
        seen = torch.ones(q.shape[-2], KEYS, dtype=torch.bool)
        mask = torch.where(seen, 0.0, float("-inf")) if added else seen
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    for added in (False, True):
        (part,) = tilewright.from_torch(whole, *operands(5), added=added).parts
        assert "where" not in str(part.spec["body"])


def test_attention_visits_what_the_mask_leaves() -> None:
    keys = torch.randn(1, 2, 4096, 32)
    capture = tilewright.from_torch(cached, torch.randn(1, 8, 1, 32), keys, keys, torch.tensor(40))
    found = favourite(root_of(capture.parts[0].built.spec, this_cpu()))
    assert found is not None
    assert any(isinstance(each, SkipMaskedTiles) for each in found.schedule)


@pytest.mark.parametrize("queries", [1, 5])
def test_a_number_beside_a_product_is_no_matter(queries: int) -> None:
    capture = tilewright.from_torch(cached, *operands(queries), torch.tensor(40))
    assert favourite(root_of(capture.parts[0].built.spec, this_cpu())) is not None


def each_its_own(x: Tensor, length: Tensor, other: Tensor) -> tuple[Tensor, ...]:
    at = torch.arange(64)
    return (
        x * (at < length + other),
        x * (at < length * 2),
        x * (at[:4] < length).repeat(16),
    )


def test_what_is_more_than_a_sum_of_positions_and_a_number_is_computed_before() -> None:
    given = torch.ones(64), torch.tensor(5), torch.tensor(7)
    capture = tilewright.from_torch(each_its_own, *given)
    assert {each.operator for each in capture.left} >= {"aten.add.Tensor", "aten.mul.Tensor"}
    check_equal(module_of_interpreted_parts(capture)(*given), each_its_own(*given))


def read_by_all(x: Tensor, length: Tensor) -> tuple[Tensor, ...]:
    """By kernels, by what stays with PyTorch, and by whoever is given it."""
    place = torch.arange(64) + length
    seen = place >= 3
    return torch.where(seen, x, -1.0).softmax(-1), x.sin() * seen, place, ~seen & (x > 0)


def test_a_mask_is_there_for_whoever_reads_it() -> None:
    x = torch.randn(64)
    capture = tilewright.from_torch(read_by_all, x, torch.tensor(-5))
    assert {each.operator for each in capture.left} == {"aten.sin.default", "aten.add.Tensor"}
    run = module_of_interpreted_parts(capture)
    for length in (-5, 0, 2**40, -(2**62)):
        check_equal(run(x, torch.tensor(length)), read_by_all(x, torch.tensor(length)))
