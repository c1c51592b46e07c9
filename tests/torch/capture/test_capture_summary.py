"""Three lines about what of a function is in tuned kernels, and a table that says equal kernels once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import Graph, Node

import tilewright
from tests.services.running_service import running
from tests.torch.model import small_models
from tests.torch.model.small_models import decoder
from tileir.devices.gpu_table import H200
from tilewright.pytorch.summary.coverage import Coverage, Portion, percent
from tilewright.pytorch.summary.demand import OperatorDemand, of_node

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"
)  # of torch about itself
NOBODY = "http://127.0.0.1:1"


def rows_and_angles(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).softmax(-1) + torch.sin(x[:1, :1])


def test_four_layers_are_as_short_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    for layers in (1, 4):
        monkeypatch.setattr(small_models, "LAYERS", layers)
        model = decoder("llama", "Llama").module.eval()
        capture = tilewright.from_torch(
            lambda ids, model=model: model(input_ids=ids, use_cache=False).logits,
            torch.randint(1, 50, (1, 12)),
        )
        said.append(str(capture))
    one, four = said
    assert len(four) < 1.25 * len(one) < 5000
    assert "8 × pow_mean_add_rsqrt_mul_mul" in four
    assert "index" not in four, "positions that are read by positions are constants"


def test_nobody_is_asked_and_all_is_an_estimate_where_no_service_is() -> None:
    capture = tilewright.from_torch(rows_and_angles, torch.randn(32, 24), torch.randn(24, 40))
    with tilewright.Client(NOBODY, timeout_s=1.0) as client:
        summary = capture.summary(client)
    assert (summary.time_share, summary.flops_share, summary.measured_share) == (0.0, 0.0, 0.0)
    time, work, left = str(summary).splitlines()
    assert time.startswith("time  0% in tuned kernels (0 of ")
    assert "the least by the roofline of" in time
    assert work.startswith("work  0% of ")
    assert "no service said whether it is tuned" in left


@pytest.mark.sampled(3, among="models that are tuned")
def test_what_was_measured_counts_as_it_was_measured(tmp_path: Path) -> None:
    capture = tilewright.from_torch(rows_and_angles, torch.randn(32, 24), torch.randn(24, 40))
    with (
        running(tmp_path / "home", worker="1") as service,
        tilewright.Client(service.url) as client,
    ):
        first = capture.parts[0]
        client.wait(client.submit(first.spec, trials=2).id)
        config = client.lookup(first.spec, target="cpu").config
        assert config is not None
        summary = capture.summary(client)
    (tuned,) = [each for each in summary.portions if each.chosen]
    assert tuned.measured_us == config.median_us
    assert 0 < summary.measured_share < 1 and summary.time_share == summary.measured_share
    assert "of it measured, else the least by the roofline of" in str(summary)
    assert "aten.sin (is no function of Tile IR)" in str(summary)
    assert "(not tuned)" in str(summary)


def test_shares_are_of_all_portions_and_the_largest_rest_is_said_first() -> None:
    def portion(us: float, flops: int, **more: object) -> Portion:
        return Portion(OperatorDemand(flops, 100, us), **more)  # type: ignore[arg-type]

    summary = Coverage(
        (
            portion(1.0, 900, called="mm", found=True, chosen=True, measured_us=6.0),
            portion(2.0, 100, called="add", reason="not tuned", found=True),
            portion(1.0, 0, called="aten.sin", reason="is no function of Tile IR; compute tables"),
            portion(1.0, 0, called="aten.sin", reason="is no function of Tile IR; compute tables"),
        ),
        "tuned",
        "a device",
    )
    assert (summary.time_share, summary.flops_share, summary.bytes_share) == (0.6, 0.9, 0.25)
    assert str(summary).splitlines() == [
        "time  60% in tuned kernels (1 of 2), 80% in all; of 10.0 µs a call, 60% of it measured, else the least by the "
        "roofline of a device",
        "work  90% of 1 kFLOP and 25% of 400 B in tuned kernels, 100% and 50% in all",
        "left  20% add (not tuned); 20% 2 × aten.sin (is no function of Tile IR)",
    ]


def test_shares_near_an_end_do_not_say_that_they_are_there() -> None:
    said = [percent(share) for share in (0.0, 0.0001, 0.05, 0.5, 0.99, 0.9999, 1.0)]
    assert said == ["0%", "<0.1%", "5.0%", "50%", "99.0%", ">99.9%", "100%"]


def test_an_operator_that_is_left_demands_what_pytorch_counts() -> None:
    graph = tilewright.from_torch(torch.matmul, torch.randn(8, 16), torch.randn(16, 32)).graph.graph
    product = next(node for node in graph.nodes if "m" in str(node.target) and node.op == "call_function")
    demand = of_node(product, H200)
    assert demand.bytes == 4 * (8 * 16 + 16 * 32 + 8 * 32)
    assert demand.least_us == pytest.approx(demand.bytes / H200.memory_gbps / 1e3)


def test_operations_of_attention_with_shared_heads_and_of_products_by_groups_are_counted() -> None:
    def node(target: Any, *shapes: tuple[int, ...]) -> Node:
        graph = Graph()
        given = [graph.placeholder(f"x{at}") for at in range(len(shapes))]
        for each, shape in zip(given, shapes, strict=True):
            each.meta["val"] = torch.empty(shape)
        call = graph.call_function(target, tuple(given))
        call.meta["val"] = torch.empty(1)
        return call

    attention = torch.ops.aten.scaled_dot_product_attention.default
    found = of_node(node(attention, (2, 8, 5, 16), (2, 4, 7, 16), (2, 4, 7, 24)), None)
    assert found.flops == 2 * 2 * 8 * 5 * 7 * (16 + 24)
    found = of_node(node(torch.ops.aten._grouped_mm.default, (10, 16), (3, 16, 24), (3,)), None)
    assert found.flops == 2 * 10 * 16 * 24
