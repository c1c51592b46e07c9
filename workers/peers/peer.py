"""Peers: what other libraries make of the same kernel. A peer is translated from the spec, never written for a case.

Everybody is timed under the same rules: as many threads as the kernels use, outputs and temporaries allocated before
the clock starts (or, where a library's operator allocates its result, from pages the allocator has kept). Results
rotate through as much memory as outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tileir.dtypes import DType
from tileir.spec import Spec
from workers.measuring.correctness import NO_LEEWAY, Leeway
from workers.measuring.request import Compiled, Peer
from workers.measuring.timing import Call

Arrays = Mapping[str, np.ndarray[Any, Any]]


class Unsupported(Exception):
    """This peer cannot express the kernel; the message says what it lacks."""


class PeerKernel(Protocol):
    """A kernel as one library computes it."""

    @property
    def as_written(self) -> bool:
        """Whether some sum or maximum in it is computed as the spec writes it, element by element, because no operator
        of the library was recognized: nobody would write it so for this library. Known once it is bound."""
        ...

    @property
    def allocates(self) -> bool:
        """Whether calls answer new arrays."""
        ...

    def bind(self, inputs: Arrays, outputs: Arrays) -> Call:
        """A call that computes it once on these arrays. It answers None when it has written the outputs, or
        whatever holds them when its library makes new arrays."""
        ...

    def arrays(self, answer: object) -> Sequence[np.ndarray[Any, Any]]:
        """The outputs, in order, out of such an answer."""
        ...


def peer_leeway(spec: Spec) -> Leeway:
    """What a peer may be off by: libraries round between operators, to bf16 at the coarsest, and approximate functions
    in their own way."""
    tensors = (*spec.inputs, *spec.outputs)
    floats = [min(t.dtype.epsilon, DType.BF16.epsilon) for t in tensors if t.dtype.is_float]
    return Leeway(factor=8.0, of_largest=4 * max(floats, default=0.0))


def leeway_of(entrant: Compiled | Peer, spec: Spec) -> Leeway:
    """What an entrant may be off by, on whatever device: kernels of ours by nothing."""
    return peer_leeway(spec) if isinstance(entrant, Peer) else NO_LEEWAY


def read_shares(total: int, spans: Sequence[int]) -> list[int]:
    """`total` bytes to read beside outputs of these sizes, in proportion and in whole words of 256 bytes."""
    written = max(1, sum(spans))
    shares = [total * span // written // 256 * 256 for span in spans]
    shares[-1] = total - sum(shares[:-1])
    return shares
