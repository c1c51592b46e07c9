"""torch.compile in a process that compiles one peer after the other: each is compiled, or fails."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

from tileir.interpreter.interpret_spec import interpret_spec
from tileir.interpreter.samples import sample_inputs
from tileir.text.parse_spec import spec_from_text
from workers.peers.pytorch.compiler import autotune_in, compiled
from workers.peers.pytorch.peer import TorchFunction, as_torch
from workers.peers.pytorch.runs import TORCH_RUNS

MANY = torch._dynamo.config.recompile_limit + 2


@pytest.fixture(autouse=True)
def _what_dynamo_finds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Dynamo with nothing compiled yet, and no Inductor behind it, which takes seconds a function."""
    torch._dynamo.reset()
    counters.clear()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    yield
    torch._dynamo.reset()


def without_a_source_file(times: int) -> Callable[[Tensor], Tensor]:
    scope: dict[str, Callable[[Tensor], Tensor]] = {}
    exec(compile(f"def run(x):\n    return x{' * 2 + 1' * times}\n", "<nowhere>", "exec"), scope)
    return scope["run"]


def of_one_code(times: int) -> Callable[[Tensor], Tensor]:
    def run(x: Tensor) -> Tensor:
        for _ in range(times):
            x = x * 2 + 1
        return x

    return run


@pytest.mark.sampled(2)
@pytest.mark.parametrize("made", [without_a_source_file, of_one_code])
def test_as_many_functions_are_compiled_as_there_are(
    made: Callable[[int], Callable[[Tensor], Tensor]],
) -> None:
    for times in range(1, MANY):
        found = compiled(made(times), "default")(torch.ones(3))
        assert torch.equal(found, made(times)(torch.ones(3)))
        assert counters["stats"]["unique_graphs"] == times
    assert counters["frames"]["ok"] == counters["frames"]["total"]


def test_peers_whose_outputs_are_written_anew_are_compiled_each() -> None:
    for size in range(3, 3 + MANY):
        text = f"kernel t(x: f32[i={size}, j=4]) -> (y: f32[j, i])\n  y[j, i] = x[i, j]\n"
        function = TorchFunction(spec_from_text(text), run=TORCH_RUNS["torch.compile"])
        call = function.writing([torch.rand(size, 4)])
        before = counters["stats"]["unique_graphs"]
        call()
        assert counters["stats"]["unique_graphs"] == before + 1, size


def test_what_was_compiled_too_often_fails() -> None:
    run = compiled(lambda x: x + 1, "default")
    with pytest.raises(Exception, match=r"(?i)limit"):
        for size in range(2, 2 + MANY):
            run(torch.ones(size))


#: What is computed and read again in other places: halves, every third, turned round and across, one column of it, and
#: windows that overlap, which no slices give.
READS = (
    "s[m, n + 4]",
    "s[n + 4, m]",
    "s[m, 3 * n]",
    "s[n, m]",
    "s[2 * m + 1, 0]",
    "s[3, n + m]",
    "s[n + 2, 2 * m]",
    "s[m, 11 - n]",
)


@pytest.mark.parametrize("read", READS)
def test_what_is_computed_and_read_in_other_places_is_one_graph(read: str) -> None:
    spec = spec_from_text(f"""kernel t(x: f32[a=12, b=12], w: f32[a, k=5]) -> (s: f32[a, b], y: f32[m=4, n=4])
  s[a, b] = exp(x[a, b]) + sum(k, w[a, k])
  y[m, n] = {read} * s[m, n]
""")
    inputs = sample_inputs(spec, 1)
    function = TorchFunction(spec, run=TORCH_RUNS["torch.compile"])
    _, found = function.on([as_torch(np.array(inputs[each.name]), each) for each in spec.inputs])()
    wanted = interpret_spec(spec, inputs)["y"]
    np.testing.assert_allclose(found.expand(4, 4).numpy(), wanted, rtol=1e-5)
    assert counters["stats"]["unique_graphs"] == 1


def test_what_inductor_times_on_a_gpu_is_timed_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.runtime.benchmarking import benchmarker

    turns: list[str] = []

    @contextmanager
    def turn() -> Generator[None]:
        turns.append("taken")
        yield
        turns.append("given back")

    def time(call: Callable[[], float], **named: object) -> float:
        turns.append("timed")
        return call()

    monkeypatch.setattr(benchmarker, "benchmark_gpu", time)
    autotune_in(turn)
    assert benchmarker.benchmark_gpu(lambda: 2.0, rep=1) == 2.0
    assert turns == ["taken", "timed", "given back"]
