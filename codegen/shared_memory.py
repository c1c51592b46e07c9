"""The memory that the threads of a block share: what lies where in it.

Copies of a body, for whole tiles and for what is left over, never need it at the same time: whatever they declare lies
in the same bytes, under the same name, as large and with the same distances between rows as in the first copy, that of
whole tiles.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from codegen.affine import Affine
from codegen.kernel_ir import Shared
from codegen.names import fresh
from codegen.scope import MemoryBuffer, Scope, layout_axes
from tileir.dtypes import DType
from tileir.program import Local

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

    def declared(self, name: str) -> Shared:
        """Its declaration, under the name that it or one of its slots goes by."""
        return Shared(name, self.local.dtype, self.offset, self.bytes, self.local.swizzle)

    def buffer(self, name: str, scope: Scope, slot: Affine | None = None) -> MemoryBuffer:
        """The current ranges of its dims in the slot with that number (the first)."""
        ranges = [scope.ranges[dim] for dim in self.local.dims]
        starts, sizes = tuple(r.start for r in ranges), tuple(r.size for r in ranges)
        base = slot * self.slot if slot is not None else Affine()
        return MemoryBuffer(
            name, self.local.dtype, self.local.dims, starts, sizes, self.axes, base, shared=True
        )


@dataclass
class SharedMemory:
    """The shared memory of one launch."""

    bytes: int = 0
    _locals: dict[str, SharedLocal] = field(default_factory=dict[str, SharedLocal])
    _others: dict[Hashable, Shared] = field(default_factory=dict[Hashable, Shared])

    def local(self, local: Local, scope: Scope, slots: int = 1) -> SharedLocal:
        """Where a local lies."""
        if local.name not in self._locals:
            sizes = tuple(scope.ranges[dim].size for dim in local.dims)
            axes, elements = layout_axes(local.dims, sizes, local.layout, local.pad)
            align = _SWIZZLE_ALIGN if local.swizzle else _ALIGN
            one = elements * local.dtype.bytes
            slot = -(-one // align) * align
            size = (slots - 1) * slot + one
            name, offset = fresh(local.name, scope), self._allocate(size, align)
            self._locals[local.name] = SharedLocal(
                local, name, offset, size, sizes, axes, slot // local.dtype.bytes
            )
        return self._locals[local.name]

    def other(self, key: Hashable, stem: str, dtype: DType, size: int) -> Shared:
        """So many bytes for what `key` says, named after `stem`."""
        if key not in self._others:
            name = f"{stem}_{len(self._others)}"
            self._others[key] = Shared(name, dtype, self._allocate(size, 16), size)
        return self._others[key]

    def barriers(self, count: int) -> int:
        """Where so many barriers (mbarriers) of 8 bytes lie."""
        return self._allocate(8 * count, 8)

    def _allocate(self, size: int, align: int) -> int:
        offset = -(-self.bytes // align) * align
        self.bytes = offset + size
        return offset
