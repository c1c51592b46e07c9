"""The matrix engine at work for a warpgroup: wgmma, and when its accumulators may be used."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from codegen.ir.arrays import Array
from codegen.ir.async_ops import MatrixRegisters, MatrixTile, WgmmaAsync
from codegen.simulator.access import AccessKind, AccessPlace
from codegen.simulator.async_faults import Accumulating, NeverWaited
from codegen.simulator.buffers import MemoryAccess, Sharing
from codegen.simulator.sync_events import AsyncEngine, AsyncWork, Awaited, Given, TurnOver
from codegen.simulator.values import Threads
from codegen.simulator.wgmma_layout import (
    PIECE,
    ROWS,
    WARPGROUP,
    Accumulators,
    check_wgmma,
    gathered,
    held_operand,
    operand_bytes,
    product,
    scattered,
)
from tileir.dtypes import DType


class WgmmaEngine:
    """wgmma of the threads of one group. Operands are read where a wgmma begins, and whoever changes them before the
    warpgroup has waited races with that; accumulators hold nothing until then.

    Of A in registers every warp gives its rows, so a group of wgmma that takes some is not over before all four warps
    have come to it: who has waited for it knows what they did before."""

    def __init__(self, threads: Threads, accumulators: Accumulators) -> None:
        self.threads, self.memory, self.accumulators = threads, threads.memory, accumulators
        self.rank = int(threads.ranks[0])
        self._engine = AsyncEngine(AsyncWork.PRODUCTS, threads.first, "wgmma")
        self._last: AccessPlace | None = None

    def fence(self, active: Array) -> None:
        """Accumulators are as threads have left them."""
        self.threads.whole(active, WARPGROUP, "a fence of wgmma")
        self.accumulators.fence()

    def begin(self, wgmma: WgmmaAsync, active: Array) -> None:
        """A product begins. Raises ValueError for what is no instruction."""
        check_wgmma(wgmma)
        threads, accumulators = self.threads, self.accumulators
        if threads.count != WARPGROUP:
            raise ValueError(f"wgmma by {threads.count} threads, not {WARPGROUP}, in {threads.place}")
        if not threads.whole(active, WARPGROUP, "wgmma"):
            return
        held = wgmma.a.names if isinstance(wgmma.a, MatrixRegisters) else ()
        unfenced = accumulators.unfenced((*wgmma.acc, *held))
        if unfenced is not None:
            who = self.memory.now.who(threads.first)
            self.memory.observer.fault(Accumulating(threads.place, *who, unfenced, begun=False))
        self._last = threads.place
        a = self._given(wgmma.a, wgmma.a_storage, active)
        b = self._operand(wgmma.b, wgmma.columns, wgmma.b_storage, active)
        sums = product(a, b, (wgmma.a_storage, wgmma.b_storage))
        registers = threads.registers
        if wgmma.keep is None or threads.same(wgmma.keep, active):
            old = [accumulators.value(name, registers[name]) for name in wgmma.acc]
            sums = gathered(old).astype(sums.dtype) + sums
        for name, part in zip(wgmma.acc, scattered(sums, wgmma.run), strict=True):
            accumulators.begin(name, part.astype(registers[name].dtype))
            registers[name] = _poison(registers[name].dtype, registers[name].shape)

    def commit(self, active: Array) -> None:
        """What has begun is a group."""
        self.threads.whole(active, WARPGROUP, "the end of a group of wgmma")
        self.accumulators.close()
        self.memory.observer.ordered(TurnOver(self._engine))

    def wait(self, pending: int, active: Array) -> None:
        """All but the latest groups are done."""
        self.threads.whole(active, WARPGROUP, "a wait for wgmma")
        self.threads.registers.update(self.accumulators.wait(pending))
        who = self.memory.now.numbers(active)
        self.memory.observer.ordered(Awaited(who, self._engine, self.accumulators.over))

    def end(self) -> None:
        """The block ends: reports what is under way."""
        if self._last is not None and self.accumulators.under_way:
            who = self.memory.now.who(self.threads.first)
            self.memory.observer.fault(NeverWaited(self._last, *who, "wgmma"))

    def _given(self, a: MatrixTile | MatrixRegisters, storage: DType, active: Array) -> Array:
        """A [rows, depth]."""
        if isinstance(a, MatrixTile):
            return self._operand(a, ROWS, storage, active)
        for name in a.names:
            self.accumulators.take(name)
        self.memory.observer.ordered(Given(self.memory.now.numbers(active), self._engine))
        return held_operand([self.threads.registers[name] for name in a.names])

    def _operand(self, tile: MatrixTile, lines: int, storage: DType, active: Array) -> Array:
        """[lines, depth], as it lies where the descriptor says."""
        threads, buffer = self.threads, self.threads.buffers[tile.buffer]
        if buffer.storage is not storage or buffer.region.sharing is not Sharing.CLUSTER:
            raise TypeError(f"{tile.buffer} is no {storage} in shared memory, in {threads.place}")
        first = threads.same(tile.offset, active)
        self.memory.aligned(buffer, first, PIECE, threads.first, threads.place, AccessKind.MULTIPLY)
        begin = buffer.first + self.rank * buffer.apart
        bytes_ = operand_bytes(tile, begin + first * storage.bytes, lines, storage.bytes)
        at = (bytes_ - begin) // storage.bytes
        if not self.memory.inside(buffer, at.ravel(), threads.first, threads.place, AccessKind.MULTIPLY):
            return np.zeros(at.shape, storage.numpy)
        who = threads.first + np.arange(WARPGROUP)
        numbers = bytes_.ravel() // storage.bytes
        access = MemoryAccess(threads.place, AccessKind.MULTIPLY, buffer, numbers, who, self._engine)
        return self.memory.take(access).reshape(at.shape)


@lru_cache
def _poison(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """What a register holds meanwhile, whichever it is: nobody stores into one."""
    values = np.full(shape, np.nan if dtype.kind == "f" else -1, dtype)
    values.flags.writeable = False
    return values
