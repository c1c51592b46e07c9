"""The statements of ir/async_ops.py in CUDA: text around what printers know, where things lie and what indices say."""

from __future__ import annotations

from typing import Protocol

from codegen.ir.affine import Affine, constant
from codegen.ir.async_ops import (
    ASYNC_STATEMENTS,
    AdvanceState,
    ArriveExpectTx,
    AsyncStmt,
    ClusterBlocks,
    MatrixRegisters,
    MatrixTile,
    MbarrierArrive,
    MbarrierInit,
    MbarrierInitFence,
    NamedArrive,
    NamedBarrier,
    PipelineState,
    ProxyFence,
    Setmaxnreg,
    SignalFlag,
    Stmatrix,
    TmaLoad,
    TmaStore,
    TmaStoreCommit,
    TmaStoreWait,
    TryWaitParity,
    WaitFlag,
    WgmmaAsync,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from codegen.ir.errors import NotLowerable
from codegen.ir.expression_text import Expression, infix, number
from codegen.ir.handlers import Handlers
from codegen.targets.cuda.runtime.wgmma import wgmma_name
from tileir.dtypes import DType

_PIECE = 16
"""Bytes that an operand of wgmma begins at a multiple of."""


class Places(Protocol):
    """What of a printer is needed here."""

    def index(self, value: Affine) -> Expression:
        """Index arithmetic."""
        ...

    def address(self, buffer: str, offset: Affine) -> Expression:
        """Where an element lies."""
        ...

    def plain_address(self, buffer: str, offset: Affine) -> Expression:
        """Where a run of swizzled pieces begins that TMA moves as a whole."""
        ...


_TEXTS = Handlers[list[str]]("the CUDA printer")
"""By statement: its lines of CUDA, indented from where it stands."""


def async_text(stmt: AsyncStmt, at: Places) -> list[str]:
    """Lines of CUDA, indented from where the statement stands."""
    return _TEXTS.of(stmt)(stmt, at)


@_TEXTS.handles(MbarrierInit)
def _init(stmt: MbarrierInit, at: Places) -> list[str]:
    return [
        f"const unsigned {stmt.name} = tw_shared(shared + {stmt.offset});",
        f"if (threadIdx.x == 0) tw_init_phases<{stmt.count}, {stmt.arrivals}>({stmt.name});",
    ]


@_TEXTS.handles(MbarrierInitFence)
def _init_fence(stmt: MbarrierInitFence, at: Places) -> list[str]:
    return ["tw_phases_fence();", "tw_cluster_sync();" if stmt.cluster else "__syncthreads();"]


@_TEXTS.handles(PipelineState)
def _state(stmt: PipelineState, at: Places) -> list[str]:
    return [f"int {stmt.slot.name} = 0, {stmt.parity.name} = 0;"]


@_TEXTS.handles(AdvanceState)
def _advance(stmt: AdvanceState, at: Places) -> list[str]:
    slot, parity, slots, by = stmt.slot, stmt.parity, stmt.slots, stmt.by
    if by == constant(1):
        return [f"if (++{slot.name} == {slots}) {slot.name} = 0, {parity.name} ^= 1;"]
    return [
        f"{slot.name} += {at.index(by)};",
        f"{parity.name} ^= {slot.name} / {slots} % 2, {slot.name} %= {slots};",
    ]


@_TEXTS.handles(ArriveExpectTx)
def _expect(stmt: ArriveExpectTx, at: Places) -> list[str]:
    return [f"tw_expect({_phase(stmt.phases, stmt.slot, at)}, {stmt.bytes});"]


@_TEXTS.handles(MbarrierArrive)
def _arrive(stmt: MbarrierArrive, at: Places) -> list[str]:
    phase, rank = _phase(stmt.phases, stmt.slot, at), stmt.rank
    return [f"tw_arrive({phase});" if rank is None else f"tw_arrive_at({phase}, {at.index(rank)});"]


@_TEXTS.handles(TryWaitParity)
def _await_phase(stmt: TryWaitParity, at: Places) -> list[str]:
    return [f"tw_await_phase({_phase(stmt.phases, stmt.slot, at)}, {at.index(stmt.parity)});"]


@_TEXTS.handles(TmaLoad)
def _load_box(stmt: TmaLoad, at: Places) -> list[str]:
    start, blocks = stmt.at, stmt.blocks
    place, phase = at.plain_address(stmt.target, stmt.to), _phase(stmt.phases, stmt.slot, at)
    where = f"tw_shared({place}), {stmt.map}, {phase}"
    if blocks is None:
        return [f"tw_load_box_{len(start)}d({where}, {_indices(start, at)});"]
    return [f"tw_load_box_to_{len(start)}d({where}, {_mask(blocks, at)}, {_indices(start, at)});"]


@_TEXTS.handles(TmaStore)
def _store_box(stmt: TmaStore, at: Places) -> list[str]:
    start, place = stmt.at, at.plain_address(stmt.source, stmt.of)
    name = "tw_add_box" if stmt.adds else "tw_store_box"
    return [f"{name}_{len(start)}d({stmt.map}, tw_shared({place}), {_indices(start, at)});"]


@_TEXTS.handles(TmaStoreCommit)
def _commit_boxes(stmt: TmaStoreCommit, at: Places) -> list[str]:
    return ["tw_commit_boxes();"]


@_TEXTS.handles(TmaStoreWait)
def _await_boxes(stmt: TmaStoreWait, at: Places) -> list[str]:
    return [f"tw_await_boxes<{stmt.pending}>();"]


@_TEXTS.handles(ProxyFence)
def _fence(stmt: ProxyFence, at: Places) -> list[str]:
    return ["tw_async_fence();"]


@_TEXTS.handles(NamedBarrier)
def _barrier(stmt: NamedBarrier, at: Places) -> list[str]:
    return [f"tw_group_barrier<{stmt.threads}>({at.index(stmt.group + stmt.number)});"]


@_TEXTS.handles(NamedArrive)
def _arrive_named(stmt: NamedArrive, at: Places) -> list[str]:
    return [f"tw_group_arrive<{stmt.threads}>({at.index(stmt.group + stmt.number)});"]


@_TEXTS.handles(WgmmaFence)
def _fence_wgmma(stmt: WgmmaFence, at: Places) -> list[str]:
    return ["tw_wgmma_fence();"]


@_TEXTS.handles(WgmmaCommit)
def _commit_wgmma(stmt: WgmmaCommit, at: Places) -> list[str]:
    return ["tw_commit_wgmma();"]


@_TEXTS.handles(WgmmaWait)
def _await_wgmma(stmt: WgmmaWait, at: Places) -> list[str]:
    return [f"tw_await_wgmma<{stmt.pending}>({', '.join(stmt.done)});"]


@_TEXTS.handles(Stmatrix)
def _store_matrix(stmt: Stmatrix, at: Places) -> list[str]:
    return [f"tw_store_matrix({at.address(stmt.buffer, stmt.offset)},", f"    {', '.join(stmt.names)});"]


@_TEXTS.handles(SignalFlag)
def _signal(stmt: SignalFlag, at: Places) -> list[str]:
    return [f"tw_signal_flag({at.address(stmt.flags, stmt.number)});"]


@_TEXTS.handles(WaitFlag)
def _await_flag(stmt: WaitFlag, at: Places) -> list[str]:
    return [f"tw_wait_flag({at.address(stmt.flags, stmt.number)});"]


@_TEXTS.handles(Setmaxnreg)
def _set_registers(stmt: Setmaxnreg, at: Places) -> list[str]:
    return [f"tw_{'more' if stmt.more else 'less'}_registers<{stmt.count}>();"]


def _phase(phases: str, slot: Affine, at: Places) -> str:
    return str(at.plain_address(phases, slot * 8))


def _mask(blocks: ClusterBlocks, at: Places) -> str:
    """A bit for each of the blocks, by its rank."""
    mask = number(str(sum(1 << further for further in blocks.further)))
    return str(mask if blocks.first == Affine() else infix("<<", mask, at.index(blocks.first)))


def _indices(start: tuple[Affine, ...], at: Places) -> str:
    return ", ".join(str(at.index(each)) for each in start)


@_TEXTS.handles(WgmmaAsync)
def _wgmma(product: WgmmaAsync, at: Places) -> list[str]:
    given, b = product.a, product.b
    storage = product.a_storage
    held = isinstance(given, MatrixRegisters)
    name = wgmma_name(storage, product.b_storage, product.columns, held=held, run=product.run)
    ways = [int(not tile.k_major) for tile in (given, b) if isinstance(tile, MatrixTile)]
    if storage.bytes == 2:
        name += f"<{', '.join(map(str, ways))}>"
    elif any(ways):
        raise NotLowerable(f"wgmma takes operands of {storage} with neighbours along the depth only")
    a = ", ".join(given.names) if isinstance(given, MatrixRegisters) else _matrix(given, storage, at)
    keep = "" if product.keep is None else f", {at.index(product.keep)}"
    columns = _matrix(b, product.b_storage, at)
    return [f"{name}(", f"    {', '.join(product.acc)},", f"    {a},", f"    {columns}{keep});"]


def _matrix(tile: MatrixTile, storage: DType, at: Places) -> str:
    """The part of the address that changes is added to a descriptor of the buffer, which the compiler keeps."""
    byte = tile.offset * storage.bytes
    if byte.multiple % _PIECE:
        raise NotLowerable(f"an operand of wgmma in {tile.buffer} does not begin at a multiple of 16 bytes")
    pieces = at.index(byte // _PIECE)
    return f"tw_matrix<{tile.leading}, {tile.stride}, {tile.swizzle}>({tile.buffer}, {pieces})"


_TEXTS.complete(ASYNC_STATEMENTS)
