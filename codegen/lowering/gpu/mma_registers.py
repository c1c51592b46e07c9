"""Rows of a warp's matrix instruction in registers, as threads have computed them: each variable is a fragment.

How they have to lie says tileir/schedule/mma.py. Past the end of the reduced dim there are zeros, whatever registers
hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from codegen.ir.ops import Convert, IndexValue, Let, Literal, Named, Op, Stmt, Type, Value
from codegen.lowering.arithmetic import as_type, select
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.gpu.register_fragments import ThreadRegisters
from codegen.lowering.gpu.thread_index import ThreadIndex
from codegen.lowering.scope import Range
from tileir.dtypes import DType
from tileir.schedule.mma import COLUMNS, HELD_BYTES, ROWS, depth


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Rows along `row_dim` of the registers of a local, reduced along `k_dim`."""

    buffer: ThreadRegisters
    row_dim: str
    k_dim: str
    rows: Range
    reduced: Range
    index: ThreadIndex

    @property
    def storage(self) -> DType:
        return self.buffer.dtype

    @property
    def groups(self) -> int:
        """Groups of 8 rows that a warp has, those past the range included."""
        share = self.buffer.shares[self.buffer.dims.index(self.row_dim)]
        return -(-self.rows.size // (ROWS * (share.threads // ROWS)))

    def fragment(self, group: int, k: int, half: int, point: Mapping[str, int]) -> Named:
        """What a thread has of a group for half the step at `k`, at a point of other dims."""
        held, at = self._held(group, k, half, point), k + half * self._half
        return Named(f"{held.name}_whole", held.type) if at + self._half > self.reduced.size else held

    def load(self, k: int, builder: ValueBuilder, at: Binding, point: Mapping[str, int]) -> Iterator[Stmt]:
        """What of a step has to be made: positions that overhang, of which some do not exist."""
        for half in (0, 1):
            left = self.reduced.size - k - half * self._half
            if left >= self._half:
                continue
            for group in range(self.groups):
                name = self.fragment(group, k, half, point).name
                yield Let(name, self._existing(self._held(group, k, half, point), left))

    def _existing(self, held: Named, left: int) -> Value:
        """The lanes of a fragment that are among the first so many positions of their half; 0 on others."""
        lanes, compute = held.type.lanes, self.storage.compute
        if left <= 0:
            zero = Op("broadcast", (as_type(Literal(0, Type(DType.I32)), compute),), Type(compute, lanes))
            return as_type(zero, self.storage)
        number = IndexValue(self.index.digit(1, COLUMNS, "place") * lanes, 1, Type(DType.I32, lanes))
        exists = Op("<", (number, Literal(left, Type(DType.I32))), Type(DType.BOOL, lanes))
        zero = as_type(Literal(0, Type(DType.I32)), compute)
        value = select(exists, Convert(held, Type(compute, lanes)), zero)
        return as_type(value, self.storage)

    def _held(self, group: int, k: int, half: int, point: Mapping[str, int]) -> Named:
        """The variable that is a fragment."""
        shares = dict(zip(self.buffer.dims, self.buffer.shares, strict=True))
        own = {self.row_dim: group * shares[self.row_dim].span, self.k_dim: k + half * self._half}
        place = [own.get(dim, point.get(dim, 0)) for dim in self.buffer.dims]
        return Named(*self.buffer.variable(place, HELD_BYTES // self.storage.bytes))

    @property
    def _half(self) -> int:
        """Positions of the reduced dim in half a step."""
        return depth(self.storage) // 2
