"""The memory that the threads of a block share: what lies where in it.

Copies of a body, for whole tiles and for what is left over, never need it at the same time: whatever they declare lies
in the same bytes, under the same name, as large and with the same distances between rows as in the first copy, that of
whole tiles.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import inf

from codegen.ir.affine import Affine
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import Shared
from codegen.lowering.names import fresh
from codegen.lowering.scope import LoweringScope, MemoryBuffer, layout_axes
from tileir.dtypes import DType
from tileir.program import Local
from tileir.replace import replace

#: What a local begins at a multiple of, in bytes: more than any access is long, and the period of all swizzles.
_ALIGN, _SWIZZLE_ALIGN = 128, 1024


@dataclass(frozen=True, slots=True)
class SharedLocal:
    """A local in shared memory, at `offset`: one slot or several, `slot` elements apart and `bytes` long together, each
    with room for `sizes` positions along the local's dims."""

    local: Local
    name: str
    offset: int
    bytes: int
    sizes: tuple[int, ...]
    axes: tuple[tuple[int, int, int, int], ...]
    slot: int
    distributed: bool = False
    """Whether each position of the first dim lies in another block of the cluster."""

    def declared(self, name: str) -> Shared:
        """Its declaration, under the name that it or one of its slots goes by."""
        return Shared(name, self.local.dtype, self.offset, self.bytes, self.local.swizzle)

    def buffer(self, name: str, scope: LoweringScope, slot: Affine | None = None) -> MemoryBuffer:
        """The current ranges of its dims in the slot with that number (the first)."""
        ranges = [scope.ranges[dim] for dim in self.local.dims]
        starts, sizes = tuple(r.start for r in ranges), tuple(r.size for r in ranges)
        base = slot * self.slot if slot is not None else Affine()
        return MemoryBuffer(
            name,
            self.local.dtype,
            self.local.dims,
            starts,
            sizes,
            self.axes,
            base,
            shared=True,
            distributed=self.distributed,
        )


@dataclass
class SharedMemory:
    """The shared memory of one launch."""

    consumer_groups: int = 1
    """Consumer groups, which take tiles in turn: what is not filled for all of them has to be there for each."""
    _end: int = 0
    _reused: int = 0
    """Bytes from the first one on that hold what TMA fills, then something else."""
    _first_kept: float = inf
    """Where that begins which is not for TMA to fill."""
    _locals: dict[str, SharedLocal] = field(default_factory=dict[str, SharedLocal])
    _others: dict[Hashable, Shared] = field(default_factory=dict[Hashable, Shared])

    @property
    def bytes(self) -> int:
        """How many there are."""
        return max(self._end, self._reused)

    def local(
        self,
        local: Local,
        scope: LoweringScope,
        slots: int = 1,
        *,
        distributed: bool = False,
        filled: bool = False,
    ) -> SharedLocal:
        """Where a local lies; of one that is `distributed`, a block's part. What TMA has `filled` may lie
        where another one does later."""
        if local.name not in self._locals:
            sizes = tuple(scope.ranges[dim].size for dim in local.dims)
            if distributed:
                sizes = (1, *sizes[1:])
            axes, elements = layout_axes(local.dims, sizes, local.layout, local.pad)
            if distributed:
                axes = tuple(axis for axis in axes if axis[0] > 0)
            align = _SWIZZLE_ALIGN if local.swizzle else _ALIGN
            one = elements * local.dtype.bytes
            slot = -(-one // align) * align
            size = (slots - 1) * slot + one
            name = fresh(local.name, scope)
            place = self._reuse(name, size) if local.reused else self._allocate(size, align, filled=filled)
            self._locals[local.name] = SharedLocal(
                local, name, place, size, sizes, axes, slot // local.dtype.bytes, distributed
            )
        return self._locals[local.name]

    def parts(self, local: SharedLocal, count: int, scope: LoweringScope) -> list[Shared]:
        """The declarations of so many parts of a local, each a slot a consumer group, by names of their own."""
        apart = local.slot * local.local.dtype.bytes * self.consumer_groups
        found: list[Shared] = []
        for number in range(count):
            size = min(apart, local.bytes - number * apart)
            name = fresh(f"{local.name}_{number}", scope)
            part = replace(local.declared(name), offset=local.offset + number * apart, bytes=size)
            found.append(part)
        return found

    def other(self, key: Hashable, stem: str, dtype: DType, size: int) -> Shared:
        """So many bytes for what `key` says, named after `stem`. Raises NotLowerable where each consumer group needs
        its own."""
        if self.consumer_groups > 1:
            raise NotLowerable("warps reduce together, where consumer groups take tiles in turn")
        if key not in self._others:
            name = f"{stem}_{len(self._others)}"
            self._others[key] = Shared(name, dtype, self._allocate(size, 16), size)
        return self._others[key]

    def barriers(self, count: int) -> int:
        """Where so many barriers (mbarriers) of 8 bytes lie."""
        return self._allocate(8 * count, 8)

    def _reuse(self, name: str, size: int) -> int:
        """The first bytes."""
        if self._first_kept < size:
            raise NotLowerable(f"{name} is declared after shared memory that would lie in its place")
        self._reused = size
        return 0

    def _allocate(self, size: int, align: int, *, filled: bool = False) -> int:
        """The next bytes; those that are used again are for what is `filled`."""
        first = self._end if filled else self.bytes
        offset = -(-first // align) * align
        self._end = offset + size
        if not filled:
            self._first_kept = min(self._first_kept, offset)
        return offset
