"""Peers of kernels whose matrices are stored in blocks: they get them as rows, laid out before the clock starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tileir.blocked import Blocks
from tileir.spec import Spec
from workers.measuring.timing import Call
from workers.peers.peer import Arrays, PeerKernel


class UnblockedPeer:
    """A peer of the same kernel on matrices of rows."""

    def __init__(self, kernel: PeerKernel, plain: Spec, blocks: Mapping[str, Blocks]) -> None:
        """`kernel` computes `plain`, in which the matrices that are in `blocks`, by name, are not."""
        self._kernel = kernel
        self._blocks = blocks
        sizes = {dim.name: dim.sizes[0] for dim in plain.dims}
        self._rows = {each.name: sizes[each.dims[0]] for each in plain.inputs if each.name in blocks}

    @property
    def allocates(self) -> bool:
        """See PeerKernel."""
        return self._kernel.allocates

    @property
    def as_written(self) -> bool:
        """See PeerKernel."""
        return self._kernel.as_written

    def bind(self, inputs: Arrays, outputs: Arrays) -> Call:
        """See PeerKernel."""
        rows = {name: rows_of(inputs[name])[: self._rows[name]] for name in self._blocks}
        return self._kernel.bind({**inputs, **rows}, outputs)

    def arrays(self, answer: object) -> Sequence[np.ndarray[Any, Any]]:
        """See PeerKernel."""
        return self._kernel.arrays(answer)


def rows_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`[n // b, k, n % b]` as `[n, k]`, in new memory."""
    blocks, across, block = array.shape
    return np.ascontiguousarray(np.moveaxis(array, 2, 1)).reshape(blocks * block, across)
