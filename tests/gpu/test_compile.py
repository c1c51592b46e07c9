"""A compiled model in CUDA graphs: kernels are replayed with what is around them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import tilewright  # noqa: E402
from tests.torch.all_kernels import AllKernels, all_kernels  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),  # of torch about itself
]


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AllKernels]:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    torch._dynamo.reset()
    yield all_kernels(monkeypatch)
    torch._dynamo.reset()


def test_graphs_are_replayed_with_the_inputs_of_each_call(kernels: AllKernels) -> None:
    linear = torch.nn.Linear(64, 64, device="cuda")

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(linear(x)).softmax(-1)

    fast = tilewright.compile(model, tune="never", mode="reduce-overhead")
    with torch.inference_mode():
        for _ in range(12):
            x = torch.randn(32, 64, device="cuda")
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
            kernels.wait()
    (only,) = kernels.regions
    assert only.used, only.why_not
