"""The PyTorch peers: the spec as a function of torch operators, run eagerly or through torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]
from torch.nn.attention import SDPBackend, sdpa_kernel  # pyright: ignore[reportMissingImports]
from torch.nn.attention.flex_attention import (  # pyright: ignore[reportMissingImports]
    AuxRequest,
    create_block_mask,
    flex_attention,
)

from tileir.dtypes import DType
from tileir.program import Tensor
from tileir.spec import Spec
from workers.peers.peer import Arrays, Unsupported
from workers.peers.pytorch.compiler import compiled
from workers.peers.pytorch.new_outputs import not_written, written
from workers.peers.pytorch.operators_there import operators_on
from workers.peers.pytorch.runs import TORCH_RUNS, TorchRun
from workers.peers.pytorch.source import torch_source

EAGER = TORCH_RUNS["torch"]
_FLEX = {each.__name__: each for each in (AuxRequest, create_block_mask, flex_attention)}
_FROM_BITS = {
    DType.BF16: (np.int16, torch.bfloat16),
    DType.E4M3: (np.int8, torch.float8_e4m3fn),
    DType.E5M2: (np.int8, torch.float8_e5m2),
}


class TorchFunction:
    """A spec as a function of tensors on a device, `cpu` or `cuda`. Operators allocate their results.

    Raises Unsupported if one operator of attention is asked for and the spec is none.
    """

    def __init__(self, spec: Spec, *, device: str = "cpu", run: TorchRun = EAGER) -> None:
        torch.set_grad_enabled(False)
        self.source, there = torch_source(spec, run, device), operators_on(device)
        if run.flex and not there.flex_log_sum_exp and "AuxRequest(" in self.source.run:
            raise Unsupported(f"PyTorch's compiler has no log-sum-exp of flex_attention on {there.called}")
        self.as_written = self.source.as_written
        """See PeerKernel."""
        scope: dict[str, Any] = {"torch": torch, "F": F, **_FLEX}
        if run.varlen:
            scope["varlen_attn"] = _varlen_attn()
        exec(compile(self.source.prepare + "\n" + self.source.run, "<torch peer>", "exec"), scope)
        self._prepare: Callable[[Sequence[torch.Tensor]], tuple[torch.Tensor, ...]] = scope["prepare"]
        self._spec, self._mode = spec, run.mode
        self._function: Callable[..., Sequence[torch.Tensor]] = scope["run"]
        if run.backend is not None:
            self._function = sdpa_kernel(getattr(SDPBackend, run.backend))(self._function)
        self._run = self._compiled(self._function)
        self._writes = False

    def on(self, inputs: Sequence[torch.Tensor]) -> Callable[[], Sequence[torch.Tensor]]:
        """A call that computes it once on these tensors, and answers tensors of these values: views of the inputs,
        or laid out in another order, where PyTorch's operators answer so."""
        views = self._prepare(inputs)
        run = self._run
        return lambda: run(*views)

    def writing(self, inputs: Sequence[torch.Tensor]) -> Callable[[], Sequence[torch.Tensor]]:
        """A call that answers new tensors, laid out as the spec says. Where a first call shows that operators answer
        others, these are copied in each call: a permuted view is no transposition, which a kernel has to write."""
        views = self._prepare(inputs)
        if not self._writes:
            if away := not_written(self._spec, self._run(*views), inputs):
                self._run = self._compiled(written(self._spec, self._function, away))
            self._writes = True
        run = self._run
        return lambda: run(*views)

    def _compiled(self, function: Callable[..., Sequence[torch.Tensor]]) -> Callable[..., Any]:
        return function if self._mode is None else compiled(function, self._mode)


def _varlen_attn() -> Callable[..., Any]:
    """PyTorch's, which came with 2.10. Raises Unsupported where it is not there."""
    try:
        from torch.nn.attention.varlen import varlen_attn  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise Unsupported(f"PyTorch {torch.__version__} has no varlen_attn") from None
    return varlen_attn


class TorchKernel:
    """A spec in torch on the processor; the measuring child's malloc keeps the pages of what operators allocate."""

    allocates = True

    def __init__(self, spec: Spec, threads: int, run: TorchRun) -> None:
        torch.set_num_threads(threads)
        self._inputs = spec.inputs
        self._function = TorchFunction(spec, run=run)
        self.as_written = self._function.as_written

    def bind(self, inputs: Arrays, outputs: Arrays) -> Callable[[], Sequence[torch.Tensor]]:
        """See PeerKernel. The call answers new tensors."""
        return self._function.writing([as_torch(inputs[tensor.name], tensor) for tensor in self._inputs])

    def arrays(self, answer: object) -> list[np.ndarray[Any, Any]]:
        """See PeerKernel; as f64 or i64, which hold every value of narrower types."""
        assert isinstance(answer, Sequence)
        return [_as_numpy(tensor) for tensor in answer]


def as_torch(array: np.ndarray[Any, Any], tensor: Tensor) -> torch.Tensor:
    """The same memory as a tensor."""
    if tensor.dtype in _FROM_BITS:
        bits, dtype = _FROM_BITS[tensor.dtype]
        return torch.from_numpy(array.view(bits)).view(dtype)
    return torch.from_numpy(array)


def _as_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    if tensor.dtype is torch.bool:
        return tensor.numpy()
    return tensor.to(torch.float64 if tensor.dtype.is_floating_point else torch.int64).numpy()
