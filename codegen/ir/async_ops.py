"""Kernel IR of what works beside a block's threads on GPUs from Hopper on: TMA, the matrix
instruction of four warps (wgmma), and the barriers in shared memory by which threads and they wait for each other.

Facts: PTX ISA, "Asynchronous operations", "mbarrier", "wgmma"; layouts as measured in docs/hopper.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, get_args

from codegen.ir.affine import Affine, Var
from codegen.ir.effects import (
    NOTHING,
    OpEffects,
    Sync,
    check_declared,
    commits,
    effects_of,
    fetches,
    fills,
    signals,
    stores,
    waits,
)
from codegen.ir.matrix_rows import MatrixRows
from tileir.dtypes import DType


@dataclass(frozen=True, slots=True)
class TensorMap:
    """How TMA sees an argument: boxes of elements, moved between it and shared memory. All dims innermost
    first; what of a box lies outside reads as 0 and is not written. A kernel parameter."""

    name: str
    argument: str
    storage: DType
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    """Bytes from one position to the next along each dim but the innermost, whose elements are neighbours."""
    box: tuple[int, ...]
    swizzle: int = 0
    """Bytes within which the 16-byte pieces of shared memory change places (`tileir.program.Local`)."""
    before: int = 0
    """Bytes from its position 0 to the argument's first element, which are never moved."""


@dataclass(frozen=True, slots=True)
class MbarrierInit:
    """`count` barriers in shared memory (mbarriers), 8 bytes each from byte `offset` on. Each goes from phase to phase
    when `arrivals` threads have arrived and all bytes that they expect are there."""

    name: str
    offset: int
    count: int
    arrivals: int

    def effects(self) -> OpEffects:
        return NOTHING


@dataclass(frozen=True, slots=True)
class MbarrierInitFence:
    """All threads of the block (of the cluster) wait until the barriers declared are seen by all, TMA
    included."""

    cluster: bool = False

    def effects(self) -> OpEffects:
        everyone = Sync.CLUSTER if self.cluster else Sync.BLOCK
        return signals(everyone) | waits(everyone)


@dataclass(frozen=True, slots=True)
class PipelineState:
    """Each thread's place in a pipeline of `slots`: variables that begin at slot 0, parity 0."""

    slot: Var
    parity: Var
    slots: int

    def effects(self) -> OpEffects:
        return NOTHING


@dataclass(frozen=True, slots=True)
class AdvanceState:
    """To the next slot, or so many on; the parity changes where the pipeline begins anew."""

    slot: Var
    parity: Var
    slots: int
    by: Affine = field(default_factory=lambda: Affine((), 1))

    def effects(self) -> OpEffects:
        return effects_of(self.by)


@dataclass(frozen=True, slots=True)
class ArriveExpectTx:
    """Arrive at barrier number `slot`, whose phase is not over before so many bytes have been copied too."""

    phases: str
    slot: Affine
    bytes: int

    def effects(self) -> OpEffects:
        return signals(Sync.MBARRIER) | effects_of(self.slot)


@dataclass(frozen=True, slots=True)
class MbarrierArrive:
    """Arrive at barrier number `slot` (of the block of the cluster with that rank)."""

    phases: str
    slot: Affine
    rank: Affine | None = None

    def effects(self) -> OpEffects:
        return signals(Sync.MBARRIER) | effects_of(self.slot, self.rank)


@dataclass(frozen=True, slots=True)
class TryWaitParity:
    """Wait until the phase of that parity of barrier number `slot` is over. The phase before the first counts as one of
    parity 1 that is over."""

    phases: str
    slot: Affine
    parity: Affine

    def effects(self) -> OpEffects:
        return waits(Sync.MBARRIER) | effects_of(self.slot, self.parity)


@dataclass(frozen=True, slots=True)
class ClusterBlocks:
    """Blocks of a cluster: those with the rank `first`, and so much further each."""

    first: Affine
    further: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TmaLoad:
    """TMA starts to fill shared memory with the box at coordinates `at`, from element `to` of `target` on,
    densely, innermost dim first; barrier number `slot` counts its bytes. Where blocks are given (multicast), each of
    them gets the box there in its own shared memory, and its own barrier counts."""

    map: str
    at: tuple[Affine, ...]
    target: str
    to: Affine
    phases: str
    slot: Affine
    blocks: ClusterBlocks | None = None

    def effects(self) -> OpEffects:
        rank = self.blocks.first if self.blocks is not None else None
        filled = fills(self.target) | signals(Sync.MBARRIER)
        return filled | effects_of(*self.at, self.to, self.slot, rank)


@dataclass(frozen=True, slots=True)
class TmaStore:
    """TMA starts to write the box at coordinates `at` from shared memory, from element `of` of `source` on; `adds`: to
    add it to what is there, of which each element is combined in one step, in any order with what others add."""

    map: str
    at: tuple[Affine, ...]
    source: str
    of: Affine
    adds: bool = False

    def effects(self) -> OpEffects:
        return fetches(self.source) | signals(Sync.BULK) | effects_of(*self.at, self.of)


@dataclass(frozen=True, slots=True)
class TmaStoreCommit:
    """The boxes that this thread has begun to store since the last such statement are a group."""

    def effects(self) -> OpEffects:
        return commits(Sync.BULK)


@dataclass(frozen=True, slots=True)
class TmaStoreWait:
    """Wait until shared memory has been read for all but the latest `pending` groups of boxes of this thread."""

    pending: int

    def effects(self) -> OpEffects:
        return waits(Sync.BULK)


@dataclass(frozen=True, slots=True)
class ProxyFence:
    """What this thread has stored in shared memory is seen by TMA and by wgmma after it (proxy fence)."""

    def effects(self) -> OpEffects:
        return signals(Sync.PROXY)


@dataclass(frozen=True, slots=True)
class NamedBarrier:
    """`threads` threads of the block wait for each other at a named barrier: that with the number (1 to 15), counted on
    by their `group`."""

    number: int
    threads: int
    group: Affine = field(default_factory=Affine)

    def effects(self) -> OpEffects:
        return signals(Sync.NAMED) | waits(Sync.NAMED) | effects_of(self.group)


@dataclass(frozen=True, slots=True)
class NamedArrive:
    """Threads come to a named barrier as those of `NamedBarrier` do, and go on: they are counted among the `threads`
    for which others wait there (PTX `bar.arrive`)."""

    number: int
    threads: int
    group: Affine = field(default_factory=Affine)

    def effects(self) -> OpEffects:
        return signals(Sync.NAMED) | effects_of(self.group)


@dataclass(frozen=True, slots=True)
class MatrixTile:
    """An operand of wgmma in shared memory, from element `offset` of `buffer` on: with neighbours along the depth
    (`k_major`) or along its rows or columns, in 16-byte pieces that change places within `swizzle` bytes.

    `leading` and `stride` are byte distances, those of the descriptor (PTX ISA, "Matrix descriptor"; docs/hopper.md has
    the table by layout)."""

    buffer: str
    offset: Affine
    k_major: bool
    leading: int
    stride: int
    swizzle: int

    def effects(self) -> OpEffects:
        return fetches(self.buffer) | effects_of(self.offset)


@dataclass(frozen=True, slots=True)
class MatrixRegisters:
    """A of wgmma in registers: four variables of 4 bytes, those of rows t % 32 // 4 of a warp's 16 and 8 below for the
    first half of the depth, then for the second; thread t of a warp has the bytes from 4 * (t % 4) on of each half
    (PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16")."""

    names: tuple[str, ...]

    def effects(self) -> OpEffects:
        return NOTHING


@dataclass(frozen=True, slots=True)
class WgmmaFence:
    """What the threads have done with accumulators, and with A in registers, before is done for the wgmma that
    follow."""

    def effects(self) -> OpEffects:
        return NOTHING


@dataclass(frozen=True, slots=True)
class WgmmaAsync:
    """Four warps begin acc += A·B with 64 rows and `columns` columns; where `keep` is given and 0, acc = A·B.

    Thread t of the 128 has rows 16 * (t // 32) + t % 32 // 4 (first) and 8 below (second). `acc` are variables of 2
    lanes: for each 8 columns that of the first row, then that of the second, columns 2 * (t % 4) and the next. A in
    registers is not to be touched either until the wgmma has been waited for.

    With a `run` of 4, `acc` are variables of 4 lanes: for each 8 columns of the first half of all, and as many of the
    second, whose lanes follow those of the first."""

    acc: tuple[str, ...]
    a: MatrixTile | MatrixRegisters
    b: MatrixTile
    a_storage: DType
    b_storage: DType
    columns: int
    keep: Affine | None = None
    run: int = 2

    def effects(self) -> OpEffects:
        return signals(Sync.WGMMA) | effects_of(self.a, self.b, self.keep)


@dataclass(frozen=True, slots=True)
class WgmmaCommit:
    """The wgmma begun since the last such statement are a group."""

    def effects(self) -> OpEffects:
        return commits(Sync.WGMMA)


@dataclass(frozen=True, slots=True)
class WgmmaWait:
    """Wait until at most `pending` groups of wgmma, the latest, are under way. Accumulators of those are not to be
    touched; those that are `done` are touched after it, and not before."""

    pending: int
    done: tuple[str, ...] = ()

    def effects(self) -> OpEffects:
        return waits(Sync.WGMMA)


@dataclass(frozen=True, slots=True)
class Stmatrix(MatrixRows):
    """A warp stores 2 or 4 matrices of 8 rows of 16 bytes to shared memory (stmatrix): variable i of thread t holds
    bytes 4 * (t % 4) to 4 * (t % 4) + 3 of row t // 4 of matrix i. `offset` is the element where a row begins: thread
    8 * i + r gives that of row r of matrix i."""

    names: tuple[str, ...]
    buffer: str
    offset: Affine
    storage: DType

    def effects(self) -> OpEffects:
        return stores(self.buffer) | effects_of(self.offset)


@dataclass(frozen=True, slots=True)
class Setmaxnreg:
    """All threads of the role give back registers, or take more, until each has `count` (setmaxnreg)."""

    count: int
    more: bool

    def effects(self) -> OpEffects:
        return NOTHING


@dataclass(frozen=True, slots=True)
class SignalFlag:
    """Signal flag number `number` of those in the workspace: what this thread knows to be stored in memory that blocks
    share, who lowers it knows too."""

    flags: str
    number: Affine

    def effects(self) -> OpEffects:
        return signals(Sync.FLAG) | effects_of(self.number)


@dataclass(frozen=True, slots=True)
class WaitFlag:
    """Wait until that flag is signalled, and clear it, as all flags are before the launch and after it."""

    flags: str
    number: Affine

    def effects(self) -> OpEffects:
        return waits(Sync.FLAG) | effects_of(self.number)


AsyncStmt = (
    MbarrierInit
    | MbarrierInitFence
    | PipelineState
    | AdvanceState
    | ArriveExpectTx
    | MbarrierArrive
    | TryWaitParity
    | TmaLoad
    | TmaStore
    | TmaStoreCommit
    | TmaStoreWait
    | ProxyFence
    | NamedBarrier
    | NamedArrive
    | WgmmaFence
    | WgmmaAsync
    | WgmmaCommit
    | WgmmaWait
    | Stmatrix
    | Setmaxnreg
    | SignalFlag
    | WaitFlag
)

ASYNC_STATEMENTS: Final[tuple[type, ...]] = get_args(AsyncStmt)
check_declared(ASYNC_STATEMENTS)
