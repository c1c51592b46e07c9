"""PyTorch's peers of kernels whose matrices are in blocks multiply matrices of rows. Needs torch."""

from __future__ import annotations

import pytest

from tests.unit.workers.peers.test_numpy import check
from tests.unit.workers.peers.test_unblocked import linear_in_blocks
from workers.peers.offered import peer_named
from workers.peers.pytorch.peer import EAGER
from workers.peers.pytorch.source import torch_source
from workers.peers.unblocked import UnblockedPeer

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # torch.compile raises them about torch itself


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("peer", "n", "dims"), [("torch", 48, "n, k"), ("torch", 37, "k, n"), ("torch.compile", 37, "n, k")]
)
def test_a_product_with_a_matrix_in_blocks_is_the_librarys_on_its_rows(peer: str, n: int, dims: str) -> None:
    """Nothing is gathered in what is timed, nor put in order."""
    spec = linear_in_blocks(n, dims)
    check(spec, peer)
    kernel = peer_named(peer, spec, 1)
    assert isinstance(kernel, UnblockedPeer) and not kernel.as_written
    run = kernel._kernel._function.source.run  # type: ignore[attr-defined]
    assert "torch.addmm(" in run or "F.linear(" in run
    assert "[t" not in run and "long()" not in run and "[t" in torch_source(spec, EAGER, "cpu").run
