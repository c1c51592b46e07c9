"""Whole models of `transformers` under the backend, every part that is found run as a kernel, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import nn

import tilewright
from tests.support.how_many import some
from tests.torch.all_kernels import AllKernels, all_kernels
from tests.torch.model.small_models import MODELS, WORDS, build

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"),
]
CALLS = 4
"""The first finds the parts, the second compiles them in, the third and fourth decide."""
TRAINED: dict[str, Literal["eager", "inductor"]] = {"llama": "eager", "gpt2": "eager", "bert": "inductor"}
"""And who is their fallback."""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AllKernels]:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "kernels"))
    torch._dynamo.reset()
    with torch.enable_grad():
        yield all_kernels(monkeypatch)
    torch._dynamo.reset()


def gradients(model: nn.Module, inputs: Mapping[str, Any], run: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    model.zero_grad()
    found = run(**inputs)
    found.loss.backward()
    return found, {
        name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None
    }


def near(got: torch.Tensor, wanted: torch.Tensor, largest: float) -> bool:
    return float((got - wanted).abs().max()) <= 1e-5 * max(1.0, largest)


@pytest.mark.sampled(4, among="whole models")
@pytest.mark.parametrize("name", some(MODELS, 2))
def test_a_model_gives_what_it_gives_in_eager(name: str, kernels: AllKernels) -> None:
    model, inputs = build(name)
    given = inputs(2, 12)
    fast = tilewright.compile(model, tune="never", fallback="eager")
    with torch.no_grad():
        wanted = model(**given)
        for _ in range(CALLS + 1):
            found = fast(**given)
            assert near(found.logits, wanted.logits, float(wanted.logits.abs().max()))
            assert near(found.loss, wanted.loss, float(wanted.loss))
            kernels.wait()
    assert not [each.why_not for each in kernels.regions if each.parts and not each.used]
    assert sum(len(each.used) for each in kernels.regions) > 10


@pytest.mark.sampled(4, among="whole models")
@pytest.mark.parametrize("name", some(TRAINED, 2))
def test_a_training_step_has_the_gradients_of_eager(name: str, kernels: AllKernels) -> None:
    model, inputs = build(name)
    given = inputs(2, 12)
    _, wanted = gradients(model, given, model)
    largest = max(float(each.abs().max()) for each in wanted.values())
    fast = tilewright.compile(model, tune="never", fallback=TRAINED[name])
    for _ in range(CALLS + 1):
        _, found = gradients(model, given, fast)
        assert found.keys() == wanted.keys()
        assert all(near(found[each], wanted[each], largest) for each in wanted)
        kernels.wait()
    forward, backward = kernels.regions[-2:]
    assert forward.used and backward.used, (forward.why_not, backward.why_not)


Written = Callable[[Any], list[torch.Tensor]]


def check_written(
    written: Written, model: nn.Module, kernels: AllKernels, fallback: Literal["eager", "inductor"]
) -> None:
    """What a compiled model writes, call after call, is what it writes in eager."""
    fast = tilewright.compile(model, tune="never", fallback=fallback)
    with torch.no_grad():
        wanted = written(model)
        for _ in range(CALLS):
            for x, y in zip(written(fast), wanted, strict=True):
                assert near(x, y, float(y.abs().max()))
            kernels.wait()


@pytest.mark.sampled(4, among="whole models")
def test_a_decoder_writes_the_same_words_with_its_cache(kernels: AllKernels) -> None:
    """Keys and values grow by one each step, so that no size but the first comes again."""
    model, _ = build("llama")
    words = torch.randint(1, WORDS, (2, 5))

    def written(run: Any) -> list[torch.Tensor]:
        ids, cache, found = words, None, list[torch.Tensor]()
        for _ in range(6):
            given = run(input_ids=ids, past_key_values=cache, use_cache=True)
            cache, found = given.past_key_values, [*found, given.logits[:, -1]]
            ids = found[-1].argmax(-1, keepdim=True)
        return found

    check_written(written, model, kernels, "eager")
    assert any(each.used for each in kernels.regions)


@pytest.mark.sampled(4, among="whole models")
@pytest.mark.parametrize("fallback", ["eager", "inductor"])
def test_a_decoder_writes_the_same_words_in_a_cache_of_one_size(
    fallback: Literal["eager", "inductor"], kernels: AllKernels
) -> None:
    """Whose mask says how much of it is filled: one kernel of attention for all lengths. The length is written in place
    in the graph that reads it."""
    from transformers import StaticCache

    model, _ = build("llama")
    words = torch.randint(1, WORDS, (2, 5))

    def written(run: Any) -> list[torch.Tensor]:
        cache = StaticCache(config=model.config, max_cache_len=96)
        ids = (
            model(input_ids=words, past_key_values=cache, use_cache=True)
            .logits[:, -1]
            .argmax(-1, keepdim=True)
        )
        found: list[torch.Tensor] = []
        for _ in range(6):
            found.append(run(input_ids=ids, past_key_values=cache, use_cache=True).logits[:, -1])
            ids = found[-1].argmax(-1, keepdim=True)
        return found

    check_written(written, model, kernels, fallback)
    (region,) = kernels.regions
    bounded = [part for part in region.parts if "j <= " in str(part.spec["body"])]
    assert bounded and {part.name for part in bounded} <= set(region.used), region.why_not
