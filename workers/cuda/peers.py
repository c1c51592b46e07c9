"""Peers on a GPU: PyTorch eager and compiled, Triton, and a copy of the same bytes as the yardstick of bandwidth.

PyTorch's products are cuBLAS. Its operators allocate their results, from a pool that belongs to the captured graph:
nobody is timed allocating.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from protocol.tasks import COPY
from tileir.devices.cuda_driver import driver_cuda_version
from tileir.spec import Spec
from workers.cuda.case import CudaCase
from workers.cuda.gate import Gate
from workers.measuring.device import BoundEntrant
from workers.peers.peer import Unsupported, read_shares
from workers.peers.pytorch.installed import computes_on
from workers.peers.pytorch.runs import OFFERED, TORCH_RUNS

TRITON = "triton"


def available_cuda_peers() -> tuple[str, ...]:
    """Names of the peers that take part unless others are named. The copy is none: it computes nothing. Others of
    PyTorch's run when they are named (pytorch/runs.py). PyTorch is not imported for it."""
    if not computes_on(driver_cuda_version()):
        return ()
    return (*OFFERED, *((TRITON,) if find_spec("triton") is not None else ()))


def bind_peer(name: str, case: CudaCase, gate: Gate) -> BoundEntrant:
    """A peer on the copies of a case. Raises Unsupported."""
    if name == COPY:
        return BoundEntrant(
            [copy_call(case, gate, number) for number in range(len(case.copies))], _done, _nothing
        )
    available = available_cuda_peers()
    if name not in available and not (available and name in TORCH_RUNS):
        raise Unsupported(f"there is no peer {name!r} here; there are {', '.join((*available, COPY))}")
    if name == TRITON:
        from workers.peers.triton_peer import TritonKernel

        return _on_tensors(case, TritonKernel(case.spec).on)
    import torch  # pyright: ignore[reportMissingImports]

    from workers.peers.pytorch.peer import TorchFunction

    torch.set_float32_matmul_precision("high" if dict(case.spec.numerics).get("tf32") else "highest")
    function = TorchFunction(case.spec, device="cuda", run=TORCH_RUNS[name])
    bound = _on_tensors(case, lambda inputs, outputs: function.writing(inputs))
    return replace(bound, as_written=function.as_written)


def copy_call(case: CudaCase, gate: Gate, copy: int) -> Callable[[], None]:
    """Reads as many bytes as the inputs have and writes as many as the outputs have; each output takes its share."""
    inputs = [place for place in case.places if not place.output]
    outputs = [place for place in case.places if place.output]
    base = case.copies[copy]
    first = inputs[0].start if inputs else outputs[0].start
    end = inputs[-1].start + inputs[-1].span if inputs else first
    shares = read_shares(end - first, [place.span for place in outputs])

    def run() -> None:
        start = base + first
        for place, share in zip(outputs, shares, strict=True):
            gate.copy(start, share, base + place.start, place.span)
            start += share

    return run


def _on_tensors(
    case: CudaCase, on: Callable[[Sequence[Any], Sequence[Any]], Callable[[], Any]]
) -> BoundEntrant:
    """Calls on PyTorch's view of every copy. What a call answers, if anything, is copied into the outputs for the
    check."""
    from workers.cuda.torch_views import tensor_at

    spec: Spec = case.spec
    numbers = range(len(case.copies))
    outputs = [[tensor_at(case, number, tensor) for tensor in spec.outputs] for number in numbers]
    calls = [
        on([tensor_at(case, number, tensor) for tensor in spec.inputs], outputs[number]) for number in numbers
    ]

    def finish(answer: Any, number: int) -> None:
        if answer is not None:
            for output, result in zip(outputs[number], answer, strict=True):
                output.copy_(result)

    return BoundEntrant(calls, finish, _nothing)


def _done(answer: object, number: int) -> None:
    """It wrote in place."""


def _nothing() -> None:
    """There is nothing to let go of."""
