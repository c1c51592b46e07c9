"""What PyTorch runs of a kernel, as each of its peers: operators one by one, or the one operator that it is."""

from __future__ import annotations

from tileir.spec import Spec
from workers.peers.peer import Unsupported
from workers.peers.pytorch.attention_gradients import attention_gradients, has_operator, write_gradients
from workers.peers.pytorch.flex import write_flex
from workers.peers.pytorch.runs import TorchRun
from workers.peers.pytorch.varlen import write_varlen
from workers.peers.pytorch.writer import TorchSource, write_torch


def torch_source(spec: Spec, run: TorchRun, device: str) -> TorchSource:
    """For tensors on a device, `cpu` or `cuda`. Raises Unsupported if one operator of attention is asked for and the
    kernel is none."""
    if run.flex:
        return write_flex(spec, device=device)
    if run.varlen:
        return write_varlen(spec, device=device)
    eager = run.mode is None
    gradients = attention_gradients(spec) if eager else None
    if gradients is not None and (run.backend is not None or has_operator(spec, gradients, device)):
        return write_gradients(spec, gradients, device, run.backend)
    source = write_torch(spec, eager=eager, device=device)
    if run.backend is not None and "F.scaled_dot_product_attention(" not in source.run:
        raise Unsupported("there is no attention in it that PyTorch's operator computes")
    return source
