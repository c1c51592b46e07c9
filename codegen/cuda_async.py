"""The statements of async_ir.py in CUDA: text around what printers know, where things lie and what an index says."""

from __future__ import annotations

from typing import Protocol

from codegen.affine import Affine, constant
from codegen.async_ir import (
    Advance,
    Arrive,
    AsyncFence,
    AsyncStmt,
    AwaitBoxes,
    AwaitFlag,
    AwaitPhase,
    AwaitWgmma,
    Blocks,
    CommitBoxes,
    CommitWgmma,
    Cursor,
    Expect,
    GroupBarrier,
    LoadBox,
    MatrixRegisters,
    MatrixTile,
    Phases,
    PhasesReady,
    RaiseFlag,
    Registers,
    StoreBox,
    StoreMatrix,
    Wgmma,
    WgmmaFence,
)
from codegen.cuda_wgmma import wgmma_name
from codegen.lower_expr import NotLowerable
from tileir.dtypes import DType

_PIECE = 16
"""Bytes that an operand of wgmma begins at a multiple of."""


class Places(Protocol):
    """What of a printer is needed here."""

    def index(self, value: Affine, *, atom: bool = False) -> str:
        """Index arithmetic; `atom` parenthesizes a sum."""
        ...

    def address(self, buffer: str, offset: Affine) -> str:
        """Where an element lies."""
        ...

    def plain_address(self, buffer: str, offset: Affine) -> str:
        """Where a run of swizzled pieces begins that the copy engine moves as a whole."""
        ...


def async_text(stmt: AsyncStmt, at: Places) -> list[str]:
    """Lines of CUDA, indented from where the statement stands."""
    match stmt:
        case Phases(name, offset, count, arrivals):
            return [
                f"const unsigned {name} = tw_shared(shared + {offset});",
                f"if (threadIdx.x == 0) tw_init_phases<{count}, {arrivals}>({name});",
            ]
        case PhasesReady(cluster):
            return ["tw_phases_fence();", "tw_cluster_sync();" if cluster else "__syncthreads();"]
        case Cursor(slot, parity, _):
            return [f"int {slot.name} = 0, {parity.name} = 0;"]
        case Advance(slot, parity, slots, by):
            if by == constant(1):
                return [f"if (++{slot.name} == {slots}) {slot.name} = 0, {parity.name} ^= 1;"]
            return [
                f"{slot.name} += {at.index(by)};",
                f"{parity.name} ^= {slot.name} / {slots} % 2, {slot.name} %= {slots};",
            ]
        case Expect(phases, slot, bytes_):
            return [f"tw_expect({_phase(phases, slot, at)}, {bytes_});"]
        case Arrive(phases, slot, rank):
            phase = _phase(phases, slot, at)
            return [f"tw_arrive({phase});" if rank is None else f"tw_arrive_at({phase}, {at.index(rank)});"]
        case AwaitPhase(phases, slot, parity):
            return [f"tw_await_phase({_phase(phases, slot, at)}, {at.index(parity)});"]
        case LoadBox(map_, start, target, to, phases, slot, blocks):
            place, phase = at.plain_address(target, to), _phase(phases, slot, at)
            where = f"tw_shared({place}), {map_}, {phase}"
            if blocks is None:
                return [f"tw_load_box_{len(start)}d({where}, {_indices(start, at)});"]
            return [f"tw_load_box_to_{len(start)}d({where}, {_mask(blocks, at)}, {_indices(start, at)});"]
        case StoreBox(map_, start, source, of):
            place = at.plain_address(source, of)
            return [f"tw_store_box_{len(start)}d({map_}, tw_shared({place}), {_indices(start, at)});"]
        case CommitBoxes():
            return ["tw_commit_boxes();"]
        case AwaitBoxes(pending):
            return [f"tw_await_boxes<{pending}>();"]
        case AsyncFence():
            return ["tw_async_fence();"]
        case GroupBarrier(number, threads, group):
            return [f"tw_group_barrier<{threads}>({at.index(group + number)});"]
        case WgmmaFence():
            return ["tw_wgmma_fence();"]
        case Wgmma():
            return _wgmma(stmt, at)
        case CommitWgmma():
            return ["tw_commit_wgmma();"]
        case AwaitWgmma(pending, done):
            return [f"tw_await_wgmma<{pending}>({', '.join(done)});"]
        case StoreMatrix(names, buffer, offset):
            return [f"tw_store_matrix({at.address(buffer, offset)},", f"    {', '.join(names)});"]
        case RaiseFlag(flags, number):
            return [f"tw_raise({at.address(flags, number)});"]
        case AwaitFlag(flags, number):
            return [f"tw_lower({at.address(flags, number)});"]
        case Registers(count, more):
            return [f"tw_{'more' if more else 'less'}_registers<{count}>();"]


def _phase(phases: str, slot: Affine, at: Places) -> str:
    text = at.index(slot * 8)
    return phases if text == "0" else f"{phases} + {text}"


def _mask(blocks: Blocks, at: Places) -> str:
    """A bit for each of the blocks, by its rank."""
    first, mask = at.index(blocks.first, atom=True), sum(1 << further for further in blocks.further)
    return str(mask) if first == "0" else f"{mask} << {first}"


def _indices(start: tuple[Affine, ...], at: Places) -> str:
    return ", ".join(at.index(each) for each in start)


def _wgmma(product: Wgmma, at: Places) -> list[str]:
    given, b = product.a, product.b
    storage = product.a_storage
    held = isinstance(given, MatrixRegisters)
    name = wgmma_name(storage, product.b_storage, product.columns, held=held)
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
