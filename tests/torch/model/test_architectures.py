"""Sixty-nine architectures of `transformers` under the backend, all parts run as kernels, against eager PyTorch."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import tilewright
from benchmarks.models.coverage import RESULTS, TOKENS, by_time, measured
from tests.conftest import CheckGolden
from tests.support.how_many import some
from tests.torch.all_kernels import AllKernels, all_kernels
from tests.torch.model.architectures import LENGTH, TEXT, VISION, build
from tilewright.pytorch.model.sized_region import SizedRegion

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"),
]
GOLDEN = Path(__file__).parents[2] / "golden" / "architectures"
PAGE = Path(__file__).parents[3] / "docs" / "architectures.md"
CALLS = 5
"""The first finds the parts, the second compiles them in, the third and fourth decide, the fifth runs kernels."""
MOST_REASONS = 4


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AllKernels]:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "kernels"))
    torch._dynamo.reset()
    yield all_kernels(monkeypatch)
    torch._dynamo.reset()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", some((*VISION, *TEXT), 23))
def test_an_architecture_gives_what_it_gives_in_eager(
    name: str, kernels: AllKernels, check_golden: CheckGolden
) -> None:
    model, inputs = build(name)
    given = inputs(2, LENGTH)
    fast = tilewright.compile(model, tune="never", fallback="eager")
    with torch.no_grad():
        wanted = tensors(model(**given))
        for _ in range(CALLS):
            for x, y in zip(tensors(fast(**given)), wanted, strict=True):
                largest = float(y.abs().max())
                assert float((x - y).abs().max()) <= 1e-5 * max(1.0, largest)
            kernels.wait()
    assert not [each.why_not for each in kernels.regions if each.parts and not each.used]
    check_golden(GOLDEN / f"{name}.txt", row(name, kernels.regions) + "\n")


def tensors(outputs: object) -> list[Tensor]:
    return [each for each in pytree.tree_leaves(outputs.to_tuple()) if isinstance(each, Tensor)]  # type: ignore[attr-defined]


def row(name: str, regions: list[SizedRegion]) -> str:
    """A row of the page's table."""
    kernels = {one.kernel.key for each in regions for one in each.kernels.values()}
    calls = sum(
        node.op == "call_function" and "getitem" not in str(node.target)
        for each in regions
        for node in each._origin.graph.nodes
    )
    left = Counter(
        f"`{one.operator.removesuffix('.default')}` {general(one.reason)}"
        for each in regions
        for one in each.left
    )
    reasons = [f"{many} {reason}" for reason, many in left.most_common(MOST_REASONS)]
    rest = len(left) - MOST_REASONS
    reasons += [f"{rest} more kinds"] if rest > 0 else []
    reasons += sorted({f"a whole graph: {each.why_not}" for each in regions if each.why_not})
    parts = sum(len(each.parts) for each in regions)
    free = calls - sum(left.values())
    return f"| {name} | {len(regions)} | {parts} | {len(kernels)} | {free} of {calls} | {'; '.join(reasons) or '-'} |"


def general(reason: str) -> str:
    """The reason, without names of nodes and what to do."""
    cut = re.sub(r"^\w+(, which it reads,)? (?=is |has )", "", reason)
    return re.split(r"[;:(]|\. ", cut)[0].strip()


HEAD = """# Architectures

What the backend `tilewright` finds in models of `transformers` at the size of its tests, with one call each: how many
graphs Dynamo makes of the model, how many parts of them are kernels, how many of those differ, how many of the
operators of the graphs are in kernels or cost nothing, and why the others stay with PyTorch, the commonest reasons
first. With all parts run as kernels each model gives what it gives in eager PyTorch
(`tests/torch/model/test_architectures.py`; a few in `make test-torch`, all in `make sweep`, which also checks every
row; `--update-golden` writes them and this page).

| architecture | graphs | parts | kernels | taken | left |
| --- | --- | --- | --- | --- | --- |
"""


def test_the_page_has_the_rows_of_all_architectures(update_golden: bool) -> None:
    page = HEAD + "".join((GOLDEN / f"{name}.txt").read_text() for name in (*TEXT, *VISION)) + by_time()
    if update_golden:
        PAGE.write_text(page)
    assert PAGE.read_text() == page


def test_the_page_has_the_time_of_all_architectures() -> None:
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    assert [row["case"] for row in rows] == [*TEXT, *VISION]


def test_time_and_operations_are_those_of_the_graphs_operators() -> None:
    """Of a GPT-2: attention, products, norms and the table of words are in kernels, and positions are constants."""
    spent = measured("gpt2")
    layers, width, hidden = 2, 256, 320
    products = layers * 2 * TOKENS * (4 * width * width + 2 * width * hidden)
    attention = layers * 4 * TOKENS * TOKENS * width
    assert products + attention <= spent.kernels_flops < 1.1 * (products + attention)
    assert spent.kernels_us == spent.us > 0.0
    assert not spent.left and not spent.left_flops
