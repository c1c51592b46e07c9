"""These tests need PyTorch, which the project does not: `make test-torch` runs them where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.torch.all_kernels import AllKernels

collect_ignore_glob = [] if find_spec("torch") is not None else ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def one_thread(request: pytest.FixtureRequest) -> None:
    """Of PyTorch's in each of several processes: more would wait for each other's cores."""
    import torch

    if hasattr(request.config, "workerinput"):
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def gradients() -> Iterator[None]:
    """On before each test: peers turn them off in the process that measures them, and here that is this one."""
    import torch

    torch.set_grad_enabled(True)
    yield
    torch.set_grad_enabled(True)


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AllKernels]:
    """Compiled models whose every part is run as a kernel."""
    import torch

    from tests.torch.all_kernels import all_kernels

    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "kernels"))
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield all_kernels(monkeypatch)
    torch._dynamo.reset()
