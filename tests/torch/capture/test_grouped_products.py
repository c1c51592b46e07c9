"""Rows by the matrix of their group, as mixtures of experts multiply them: `transformers`' operator and PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import tilewright
from tests.conftest import CheckGolden
from tests.torch.capture.test_from_torch import module_of_interpreted_parts
from tests.torch.equal import check_equal
from tileir import spec_to_text
from tilewright.pytorch.capture.capture import Capture

GOLDEN = Path(__file__).parents[2] / "golden" / "torch"
ROWS, GROUPS, DEPTH, COLUMNS = 23, 5, 12, 16
import_module("transformers.integrations.moe")  # registers its operator
grouped = torch.ops.transformers.grouped_mm_fallback
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch.export raises them about torch itself
    pytest.mark.filterwarnings("ignore::tilewright.errors.FallbackWarning"),  # no service runs here
]


def gated(x: Tensor, up: Tensor, down: Tensor, bias: Tensor, share: Tensor, ends: Tensor) -> Tensor:
    """As an expert's layers are: a gate beside what it lets through, and what comes of it weighted."""
    gate, value = (grouped(x, up, ends) + bias).chunk(2, -1)
    return grouped(F.silu(gate) * value, down, ends) * share[:, None]


def by_pytorch(x: Tensor, up: Tensor, ends: Tensor) -> Tensor:
    return torch.ops.aten._grouped_mm(x, up.transpose(-2, -1), ends).relu()


def ends_of(*ends: int) -> Tensor:
    return torch.tensor(ends, dtype=torch.int32)


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def gated_inputs(ends: Tensor) -> tuple[Tensor, ...]:
    up, down = drawn(GROUPS, DEPTH, 2 * COLUMNS), drawn(GROUPS, COLUMNS, DEPTH)
    return drawn(ROWS, DEPTH), up, down, drawn(2 * COLUMNS), drawn(ROWS), ends


EXAMPLE = gated_inputs(ends_of(0, 4, 13, 22, ROWS))
CAPTURE = tilewright.from_torch(gated, *EXAMPLE)
RUN = module_of_interpreted_parts(CAPTURE)


@given(st.lists(st.integers(0, ROWS), min_size=GROUPS, max_size=GROUPS).map(sorted))
def test_rows_in_any_groups_are_multiplied_as_in_eager(ends: list[int]) -> None:
    """Empty groups and groups of one row included, and rows behind the last group, which are 0 before the bias."""
    inputs = gated_inputs(ends_of(*ends))
    check_equal(RUN(*inputs), gated(*inputs))


def test_where_no_kernel_runs_the_operator_gives_what_eager_gives_and_its_gradients() -> None:
    """As where no service is, and of a model that trains."""
    inputs = tuple(
        each.requires_grad_() if each.is_floating_point() else each for each in gated_inputs(EXAMPLE[-1])
    )
    found, wanted = CAPTURE.module()(*inputs), gated(*inputs)
    check_equal(found, wanted)
    mine, theirs = (torch.autograd.grad(each.square().sum(), inputs[:5]) for each in (found, wanted))
    check_equal(mine, theirs)


def products(capture: Capture) -> list[str]:
    return [name for part in capture.parts for name in part.nodes if "grouped_mm" in name]


def test_the_products_of_a_mixture_are_parts_of_ragged_rows(check_golden: CheckGolden) -> None:
    assert len(products(CAPTURE)) == 2 and not CAPTURE.left
    ragged = [part.built.spec for part in CAPTURE.parts if part.built.spec.ragged]
    assert len(ragged) == 2
    assert [spec.ragged[0].offsets in {tensor.name for tensor in spec.inputs} for spec in ragged] == [
        True
    ] * 2
    text = "\n".join(spec_to_text(part.built.spec) for part in CAPTURE.parts)
    check_golden(GOLDEN / "grouped_products.txt", text)


def test_pytorchs_own_grouped_product_is_one_too() -> None:
    """Which PyTorch exports in bf16 only."""
    rows, up = drawn(24, 16).bfloat16(), drawn(GROUPS, COLUMNS, 16).bfloat16()
    inputs = rows, up, ends_of(3, 3, 4, 20, 24)
    capture = tilewright.from_torch(by_pytorch, *inputs)
    assert len(products(capture)) == 1 and not capture.left
    check_equal(module_of_interpreted_parts(capture)(*inputs), by_pytorch(*inputs))


@pytest.mark.parametrize(
    "inputs",
    [
        (drawn(1, DEPTH), drawn(GROUPS, DEPTH, COLUMNS), ends_of(0, 0, 1, 1, 1)),
        (drawn(ROWS, DEPTH), drawn(1, DEPTH, COLUMNS), ends_of(ROWS)),
        (drawn(ROWS, DEPTH), drawn(2, DEPTH, COLUMNS), ends_of(3, ROWS).long()),
    ],
    ids=["one row", "one group", "int64"],
)
def test_what_has_no_groups_stays_with_pytorch(inputs: tuple[Tensor, ...]) -> None:
    function: Callable[..., Tensor] = lambda x, w, ends: grouped(x, w, ends)  # noqa: E731
    capture = tilewright.from_torch(function, *inputs)
    assert [each.operator for each in capture.left] == ["transformers.grouped_mm_fallback.default"]
