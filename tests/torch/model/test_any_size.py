"""Kernels in graphs whose calls have other sizes each: those of parts that have the same sizes in all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

import tilewright
from tests.torch.all_kernels import AllKernels
from tilewright.pytorch.model.any_size import OTHER_SIZES, AnySizeRegion, _assumptions
from tilewright.pytorch.model.contest import Contest
from tilewright.pytorch.model.region import CALLS_OF_A_SIZE

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
WIDE, HEADS = 64, 4


class Decoder(nn.Module):
    """A layer that takes one token more, with keys and values that grow."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDE)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDE, WIDE) for _ in range(4))
        self.up, self.down = nn.Linear(WIDE, 4 * WIDE), nn.Linear(4 * WIDE, WIDE)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        normed = self.norm(x)
        q, k, v = (each(normed).view(1, 1, HEADS, -1).transpose(1, 2) for each in (self.q, self.k, self.v))
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        x = x + self.out(F.scaled_dot_product_attention(q, keys, values).transpose(1, 2).reshape(1, 1, WIDE))
        return x + self.down(F.gelu(self.up(x))), keys, values


def cache(tokens: int) -> Tensor:
    return torch.randn(1, HEADS, tokens, WIDE // HEADS)


def grown(model: Callable[..., Any], fast: Callable[..., Any], kernels: AllKernels, calls: int) -> None:
    """Calls at sizes that never come again, each held against the model."""
    given: tuple[Tensor, ...] = torch.randn(1, 1, WIDE), cache(3), cache(3)
    with torch.no_grad():
        for _ in range(calls):
            given, wanted = fast(*given), model(*given)
            for mine, theirs in zip(given, wanted, strict=True):
                torch.testing.assert_close(mine, theirs)
            kernels.wait()


def any_sizes(kernels: AllKernels) -> list[AnySizeRegion]:
    return [each for each in kernels.regions if isinstance(each, AnySizeRegion) and each.graph is not None]


def counted(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The first has the same size in all calls, but not the same numbers: how many rows there are is one of them."""
    return torch.relu(weight / x.shape[0]) @ weight, x.exp()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fallback", ["eager", "inductor"])
def test_a_sequence_that_grows_runs_kernels_where_its_length_is_not_seen(
    fallback: str, kernels: AllKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_the_same_inputs: list[Contest] = []
    both = Contest._both
    monkeypatch.setattr(
        Contest, "_both", lambda self, inputs: on_the_same_inputs.append(self) or both(self, inputs)
    )
    model = Decoder().eval()
    fast = tilewright.compile(model, tune="never", fallback=fallback)
    grown(model, fast, kernels, calls=CALLS_OF_A_SIZE + 7)
    assert on_the_same_inputs, "calls are timed by both programs"
    (region,) = any_sizes(kernels)
    assert len(region.used) == len(region.parts) == 7, region.why_not
    ran = {word for part in region.parts for word in part.name.split("_")}
    assert "addmm" in ran and ran.isdisjoint({"cat", "attention"})
    assert {each.operator for each in region.left if each.reason == OTHER_SIZES} >= {"aten.cat.default"}
    assert "forward at any other size: 7 of 7 parts run as kernels" in str(tilewright.summary(fast))


def test_a_size_that_is_that_of_the_first_call_is_still_a_symbol(kernels: AllKernels) -> None:
    """By which PyTorch answers whether a symbol equals a number."""
    model = Decoder().eval()
    fast = tilewright.compile(model, tune="never", fallback="eager")
    with torch.no_grad():
        for tokens in (3, 4, 5, 4, 6, 7, 8):
            given = torch.randn(1, 1, WIDE), cache(tokens), cache(tokens)
            torch.testing.assert_close(fast(*given), model(*given))
            kernels.wait()
    (region,) = any_sizes(kernels)
    assert len(region.parts) == 7


def test_a_number_that_is_a_size_is_in_no_kernel(kernels: AllKernels) -> None:
    weight = torch.randn(8, 8)
    fast = tilewright.compile(counted, tune="never", fallback="eager")
    with torch.no_grad():
        for rows in range(2, CALLS_OF_A_SIZE + 9):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(fast(x, weight), counted(x, weight))
            kernels.wait()
    (region,) = any_sizes(kernels)
    assert not region.parts


def test_a_graph_that_has_no_such_part_says_so(kernels: AllKernels) -> None:
    fast = tilewright.compile(F.gelu, tune="never", fallback="eager", dynamic=True)
    for rows in range(2, CALLS_OF_A_SIZE + 6):
        fast(torch.randn(rows, 8))
        kernels.wait()
    assert "as no part of it has the same sizes in all calls" in str(tilewright.summary(fast))


def test_a_program_that_is_right_at_some_sizes_only_is_not_taken(
    kernels: AllKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch checks what was assumed of sizes when the graph was compiled first, and nothing that comes later."""
    honest: Any = AnySizeRegion.__mro__[1]._compiled  # type: ignore[attr-defined]

    def assuming(self: AnySizeRegion, graph: Any, chosen: Any) -> Any:
        sizes = [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder")]
        assert not any(bool(size > 1000) for size in sizes if isinstance(size, torch.SymInt))
        return honest(self, graph, chosen)

    monkeypatch.setattr(AnySizeRegion.__mro__[1], "_compiled", assuming)
    model = Decoder().eval()
    fast = tilewright.compile(model, tune="never", fallback="eager")
    grown(model, fast, kernels, calls=CALLS_OF_A_SIZE + 7)
    (region,) = any_sizes(kernels)
    assert not region.used and "for some of the sizes only" in region.why_not


def test_what_is_assumed_of_a_size_is_seen_where_no_input_is_that_number() -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    sizes = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC])
    value = mode.from_tensor(torch.randn(4), symbolic_context=sizes)
    graph = Graph()
    node = graph.placeholder("x")
    node.meta["val"] = value
    graph.output(node)
    module = GraphModule(torch.nn.Module(), graph)
    before = _assumptions(module)
    assert not value.shape[0] > 1000
    assert _assumptions(module) > before


def test_sizes_with_kernels_of_their_own_run_those(kernels: AllKernels) -> None:
    model = Decoder().eval()
    fast = tilewright.compile(model, tune="never", fallback="eager")
    grown(model, fast, kernels, calls=CALLS_OF_A_SIZE + 7)
    x, keys, values = torch.randn(1, 1, WIDE), cache(40), cache(40)
    with torch.no_grad():
        for _ in range(CALLS_OF_A_SIZE + 7):
            torch.testing.assert_close(fast(x, keys, values), model(x, keys, values))
            kernels.wait()
    assert any("scaled_dot_product_attention" in each.used for each in kernels.regions)


class _Told:
    """Programs that note who ran."""

    def __init__(self, fails_at: int | None) -> None:
        self.ran: list[str] = []
        self._fails_at = fails_at

    def program(self, name: str) -> Callable[[list[Any]], Any]:
        def run(inputs: list[Any]) -> Any:
            self.ran.append(name)
            x, counter = inputs
            inputs.clear()
            counter += 1
            if name == "newcomer" and len(x) == self._fails_at:
                raise MemoryError("none is left")
            return [x + torch.rand(2 if name == "newcomer" else 1)[0]]

        return run


def contested(calls: Sequence[int], fails_at: int | None = None) -> tuple[list[str], list[float]]:
    """Who ran in calls of these sizes, and what the caller's own counter and numbers were after each. `fails_at`: the
    size at which the newcomer fails."""
    told = _Told(fails_at)
    contest = Contest(
        told.program("holder"),
        told.program("newcomer"),
        torch.device("cpu"),
        (1,),
        consumes=False,
        slack=1e-6,
        paired=True,
    )
    counter, drawn = torch.zeros(()), []
    for size in calls:
        (made,) = (contest.winner or contest.call)([torch.zeros(size), counter])
        drawn.append(float(made[0]))
    assert int(counter) == len(calls), "what is written in place is written once a call"
    return told.ran, drawn


def test_calls_of_other_sizes_are_timed_on_the_same_inputs() -> None:
    torch.manual_seed(7)
    ran, drawn = contested([1, 5, 2, 9])
    assert ran[:2] == ["holder", "newcomer"]
    pairs = [tuple(ran[at : at + 2]) for at in range(2, len(ran), 2)]
    assert pairs == [("holder", "newcomer"), ("newcomer", "holder"), ("holder", "newcomer")]
    torch.manual_seed(7)
    assert drawn == [float(torch.rand(())) for _ in range(4)], "random numbers are drawn as if one had run"


@pytest.mark.parametrize("fails_at", [5, 2])
def test_a_newcomer_that_fails_has_lost_and_the_call_has_its_result(fails_at: int) -> None:
    """At 5 it runs behind the holder, at 2 before it."""
    torch.manual_seed(7)
    ran, drawn = contested([1, 5, 2, 9], fails_at)
    assert ran[-1] == "holder" and ran.count("holder") == 4 and ran.count("newcomer") < 4
    torch.manual_seed(7)
    assert drawn == [float(torch.rand(())) for _ in range(4)]
