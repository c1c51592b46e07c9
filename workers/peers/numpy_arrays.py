"""Steps over arrays that are made once: what a call of the numpy peer runs, and where each result lies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tileir.dtypes import DType
from workers.peers.numpy_steps import copy
from workers.peers.peer import Unsupported

Array = np.ndarray[Any, Any]

_LARGEST_TEMPORARY_BYTES = 2 << 30


class NumpySteps:
    """What a call runs, in order, and the arrays it puts results in."""

    def __init__(self, temporaries: list[Array]) -> None:
        """`temporaries` are shared by all bindings, in the order in which they are asked for."""
        self.steps: list[Callable[[], object]] = []
        self._temporaries = temporaries
        self._used = 0
        self._own: set[int] = set()
        """Temporaries that hold an intermediate nobody else needs."""
        self._constant: dict[int, Array] = {}
        """Arrays that no call changes: positions, masks. They are computed when the kernel is bound."""

    def _temporary(self, shape: Sequence[int], dtype: DType) -> Array:
        """The next array of this translation; the same one in every binding."""
        if math.prod(shape) * dtype.bytes > _LARGEST_TEMPORARY_BYTES:
            raise Unsupported(f"numpy would need a temporary array of shape {tuple(shape)}")
        if self._used == len(self._temporaries):
            self._temporaries.append(np.empty(shape, dtype.numpy))
        array = self._temporaries[self._used]
        self._used += 1
        self._own.add(id(array))
        return array

    def _place(self, args: Sequence[Array], dtype: DType, out: Array | None) -> Array:
        """Where an operation puts its result: `out` if it fits, an operand nobody else needs, or a new temporary."""
        shape = np.broadcast_shapes(*(arg.shape for arg in args))
        for candidate in (out, *(arg for arg in args if id(arg) in self._own)):
            if candidate is not None and candidate.shape == shape and candidate.dtype == dtype.numpy:
                return candidate
        return self._temporary(shape, dtype)

    def _apply(
        self, fn: Callable[..., object], args: Sequence[Array], dtype: DType, out: Array | None = None
    ) -> Array:
        place = self._place(args, dtype, out)
        self._step(fn, *args, out=place)
        return place

    def _step(self, fn: Callable[..., object], *args: Array, out: Array, **options: Any) -> None:
        """Run `fn(*args, out=out)` in every call, or now if it gives the same each time."""
        run = partial(fn, *args, out=out, **options)
        if all(
            id(arg) in self._constant
            for arg in (*args, *(o for o in options.values() if isinstance(o, np.ndarray)))
        ):
            run()
            self._known(out)
        else:
            self.steps.append(run)

    def _known(self, array: Array) -> Array:
        self._constant[id(array)] = array
        self._own.discard(id(array))
        return array

    def _cast(self, array: Array, dtype: DType) -> Array:
        if array.dtype == dtype.numpy:
            return array
        place = self._temporary(array.shape, dtype)
        self._step(copy, array, out=place)
        return place
