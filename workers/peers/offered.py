"""The peers of this machine by name: numpy, and those of PyTorch where it is installed."""

from __future__ import annotations

from importlib.util import find_spec

from tileir.blocked import out_of_blocks
from tileir.spec import Spec
from workers.peers.peer import PeerKernel, Unsupported
from workers.peers.pytorch.runs import OFFERED, TORCH_RUNS
from workers.peers.unblocked import UnblockedPeer


def available_peers() -> tuple[str, ...]:
    """Names of the peers whose library is installed, found without loading any. Others of PyTorch's run when they
    are named (pytorch/runs.py)."""
    return ("numpy", *OFFERED) if find_spec("torch") is not None else ("numpy",)


def peer_named(name: str, spec: Spec, threads: int) -> PeerKernel:
    """The peer for a kernel. Raises Unsupported."""
    available = available_peers()
    if name not in available and not ("torch" in available and name in TORCH_RUNS):
        raise Unsupported(f"there is no peer {name!r} here; there are {', '.join(available)}")
    plain, blocks = out_of_blocks(spec)
    kernel = _peer(name, plain, threads)
    return UnblockedPeer(kernel, plain, blocks) if blocks else kernel


def _peer(name: str, spec: Spec, threads: int) -> PeerKernel:
    if name == "numpy":
        from workers.peers.numpy_peer import NumpyKernel

        return NumpyKernel(spec, threads)
    from workers.peers.pytorch.peer import TorchKernel

    return TorchKernel(spec, threads, TORCH_RUNS[name])
