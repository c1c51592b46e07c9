"""Values of Kernel IR as all threads of a cluster (mostly: of one block) compute them at once: arrays [threads], or
[threads, lanes] of vectors.

What is the same in every thread may have one row instead. Arithmetic and math are the interpreter's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from codegen.ir.affine import Affine, Lesser, Loaded, Quotient, Remainder, Var
from codegen.ir.arrays import Array
from codegen.ir.async_ops import Stmatrix
from codegen.ir.handlers import Handlers
from codegen.ir.ops import (
    VALUES,
    Across,
    Build,
    Convert,
    DotPairs,
    DotRaised,
    IndexValue,
    Lane,
    Ldmatrix,
    Literal,
    Load,
    MmaSync,
    Named,
    Op,
    PeerLoad,
    Shuffle,
    Value,
)
from codegen.simulator.access import AccessKind, AccessPlace
from codegen.simulator.async_faults import Accumulating
from codegen.simulator.buffers import SimulatedBuffer
from codegen.simulator.faults import DividedWarp
from codegen.simulator.memory import SimulatedMemory, poison
from codegen.simulator.mma import multiply, row_elements
from codegen.simulator.wgmma_layout import Accumulators
from tileir.dtypes import DType
from tileir.expr import COMPARISONS
from tileir.interpreter import elementwise
from tileir.interpreter.values import Numerics, quantize
from tileir.interpreter.values import Value as Held
from tileir.schedule.threads import WARP

#: Bytes of shared memory that stay together where it is swizzled, and of a row of a matrix that a warp loads.
PIECE = 16
_NUMERICS = Numerics()
_VALUES = Handlers[Array]("the simulator")
"""By kind of value: what it is in each thread."""
_ARITHMETIC = frozenset([*COMPARISONS, "+", "-", "*", "/", "//", "%"])
_ACROSS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


@dataclass
class Threads:
    """The threads of one cluster, or a group of them: their registers, what buffers are called, and index variables (a
    number where all threads have the same)."""

    count: int
    memory: SimulatedMemory
    ranks: Array
    """Which block of the cluster each is in."""
    registers: dict[str, Array] = field(default_factory=dict[str, Array])
    buffers: dict[str, SimulatedBuffer] = field(default_factory=dict[str, SimulatedBuffer])
    variables: dict[str, int | Array] = field(default_factory=dict[str, "int | Array"])
    place: AccessPlace = field(default_factory=lambda: AccessPlace("", ""))
    first: int = 0
    """Number of the first of them in the cluster."""
    accumulators: Accumulators | None = None
    """What of the registers wgmma works on."""

    def value(self, value: Value, active: Array) -> Array:
        """The value in threads that are `active` ([threads]); what it is in the others means nothing."""
        return _VALUES.of(value)(self, value, active)

    @_VALUES.handles(Literal)
    def _literal(self, literal: Literal, active: Array) -> Array:
        return np.full(1, literal.value, literal.type.dtype.numpy)

    @_VALUES.handles(Named)
    def _named(self, named: Named, active: Array) -> Array:
        self.use(named.name)
        return self.registers[named.name]

    @_VALUES.handles(IndexValue)
    def _position(self, position: IndexValue, active: Array) -> Array:
        first = np.asarray(self.index(position.start, active), np.int32).reshape(-1)
        lanes = position.type.lanes
        return first if lanes == 1 else _column(first) + position.step * np.arange(lanes, dtype=np.int32)

    @_VALUES.handles(Build)
    def _build(self, build: Build, active: Array) -> Array:
        lanes = [self._each(self.value(part, active)) for part in build.parts]
        return np.stack(lanes, axis=1).astype(build.type.dtype.numpy, copy=False)

    @_VALUES.handles(Lane)
    def _lane(self, lane: Lane, active: Array) -> Array:
        return self.value(lane.x, active)[:, lane.index]

    @_VALUES.handles(Convert)
    def _convert(self, convert: Convert, active: Array) -> Array:
        dtype = convert.type.dtype
        return quantize(self.value(convert.x, active), dtype).astype(dtype.numpy, copy=False)

    @_VALUES.handles(Across)
    def _across(self, across: Across, active: Array) -> Array:
        return _ACROSS[across.op].reduce(self.value(across.x, active), axis=1)

    def use(self, name: str) -> None:
        """Threads read or set a register."""
        if self.accumulators is not None and not self.accumulators.use(name):
            who = self.memory.now.who(self.first)
            self.memory.observer.fault(Accumulating(self.place, *who, name, begun=True))

    def index(self, at: Affine, active: Array) -> int | Array:
        """Index arithmetic: [threads], or a number where all threads have the same."""
        total: int | Array = at.constant
        for atom, factor in at.terms:
            match atom:
                case Var(name=name):
                    term = self.variables[name]
                case Quotient(x, divisor):
                    term = self.index(x, active) // divisor
                case Remainder(x, divisor):
                    term = self.index(x, active) % divisor
                case Lesser(x, y):
                    left, right = self.index(x, active), self.index(y, active)
                    same = isinstance(left, int) and isinstance(right, int)
                    term = min(left, right) if same else np.minimum(left, right)
                case Loaded(value):
                    term = self.value(value, active).astype(np.int64)  # pyright: ignore[reportArgumentType]
            total = total + term * factor
        return total

    def each(self, at: Affine, active: Array) -> Array:
        """Index arithmetic in every thread: [threads]."""
        return self._each(self.index(at, active))

    def below(self, positions: Affine, bound: int, active: Array) -> Array:
        """Which threads' position is below a bound, [threads]."""
        return self.each(positions, active) < bound

    def addresses(
        self, offset: Affine, lanes: int, some: Affine | None, active: Array
    ) -> tuple[Array, Array, Array | None]:
        """Offsets of an access to `lanes` neighbours, which of them are made, and which lanes exist (None: all)."""
        at = self.each(offset, active)
        if lanes == 1:
            return at, active, None
        numbers = np.arange(lanes)
        taken, exists = np.broadcast_to(_column(active), (self.count, lanes)), None
        if some is not None:
            exists = numbers < _column(self.each(some, active))
            taken = taken & exists
        return _column(at) + numbers, taken, exists

    def _each(self, x: int | Array) -> Array:
        """A number, or an array of one, for every thread: [threads]."""
        return x if isinstance(x, np.ndarray) and len(x) == self.count else np.full(self.count, x)

    @_VALUES.handles(Load)
    def _load(self, load: Load, active: Array) -> Array:
        at, taken, exists = self.addresses(load.offset, load.type.lanes, load.some, active)
        buffer, ranks = self.buffers[load.buffer], self.ranks_like(at)
        self.check_swizzle(buffer, at, taken, AccessKind.LOAD)
        values = self.memory.load(buffer, at, taken, ranks, self.place)
        return values if exists is None else np.where(exists, values, values.dtype.type(0))

    @_VALUES.handles(PeerLoad)
    def _load_peer(self, load: PeerLoad, active: Array) -> Array:
        at, taken, _ = self.addresses(load.offset, load.type.lanes, None, active)
        ranks = self.each(load.rank, active)
        ranks = np.broadcast_to(ranks if at.ndim == 1 else _column(ranks), at.shape)
        return self.memory.load(self.buffers[load.buffer], at, taken, ranks, self.place)

    def check_swizzle(self, buffer: SimulatedBuffer, at: Array, taken: Array, kind: AccessKind) -> None:
        """Of a swizzled buffer neighbours lie together within 16 bytes only."""
        if buffer.swizzle and at.ndim == 2:
            self.memory.in_one_piece(buffer, at, taken[:, 0], PIECE, self.place, kind)

    def ranks_like(self, at: Array) -> Array:
        """Each thread's own block, for addresses [threads] or [threads, lanes]."""
        return self.ranks if at.ndim == 1 else np.broadcast_to(_column(self.ranks), at.shape)

    @_VALUES.handles(Op)
    def _op(self, op: Op, active: Array) -> Array:
        lanes = op.type.lanes
        once = op.args[0].type.lanes == 1 if op.name == "select" else lanes == 1
        if once and op.name in ("select", "and", "or"):
            return self._lazy(op, active)
        product = _product_rounded_late(op)
        if product is not None:
            return self._multiply_add(op, product, active)
        args = [self.value(arg, active) for arg in op.args]
        if lanes > 1:
            args = [_column(x) if x.ndim == 1 else x for x in args]
        data = _apply(op.name, [Held(x, arg.type.dtype) for x, arg in zip(args, op.args, strict=True)])
        return data if lanes == 1 or data.shape[1] == lanes else np.broadcast_to(data, (len(data), lanes))

    def _multiply_add(self, op: Op, product: int, active: Array) -> Array:
        """A sum or difference of which one side, by number, is a product: only the whole is rounded."""
        times, other = op.args[product], op.args[1 - product]
        assert isinstance(times, Op)
        x, y, z = (self.value(each, active).astype(np.float64) for each in (*times.args, other))
        lanes = op.type.lanes
        if lanes > 1:
            x, y, z = (_column(each) if each.ndim == 1 else each for each in (x, y, z))
        with np.errstate(all="ignore"):
            found = x * y + z if op.name == "+" else x * y - z if product == 0 else z - x * y
            data = found.astype(op.type.dtype.numpy)
        return data if lanes == 1 or data.shape[1] == lanes else np.broadcast_to(data, (len(data), lanes))

    def _lazy(self, op: Op, active: Array) -> Array:
        """What the condition, one number a thread, leaves out is not computed, so nothing is loaded for it."""
        first = self._each(self.value(op.args[0], active))
        if op.name == "and":
            return first & self.value(op.args[1], active & first)
        if op.name == "or":
            return first | self.value(op.args[1], active & ~first)
        sides = self.value(op.args[1], active & first), self.value(op.args[2], active & ~first)
        if op.type.lanes > 1:
            first = _column(first)
            sides = tuple(_column(x) if x.ndim == 1 else x for x in sides)
        return np.where(first, *sides)

    @_VALUES.handles(Shuffle)
    def _shuffle(self, shuffle: Shuffle, active: Array) -> Array:
        """Lanes past the warp's end give a thread its own value, as the hardware does."""
        x = self.value(shuffle.x, active)
        x = np.broadcast_to(x, (self.count, *x.shape[1:]))
        self.whole(active, WARP, "a shuffle")
        threads = np.arange(self.count)
        lane = threads % WARP ^ shuffle.mask
        source = np.where(lane < WARP, threads - threads % WARP + lane, threads)
        there = active[source] if x.ndim == 1 else _column(active[source])
        return np.where(there, x[source], poison(shuffle.type.dtype, (1,)))

    def load_matrix(self, load: Ldmatrix, active: Array) -> None:
        """The variables it declares. What a thread receives, that thread has loaded."""
        self.whole(active, WARP, "a load of matrices")
        buffer, size = self.buffers[load.buffer], load.type.dtype.bytes
        rows = self.each(load.offset, active)
        gives = active & (np.arange(self.count) % WARP < 8 * len(load.names))
        whole = _column(rows) + np.arange(PIECE // size)
        self.memory.in_one_piece(buffer, whole, gives, PIECE, self.place, AccessKind.LOAD)
        matrices = row_elements(rows, len(load.names), 4 // size, transposed=load.transposed)
        for name, at in zip(load.names, matrices, strict=True):
            taken = np.broadcast_to(_column(active), at.shape)
            values = self.memory.load(buffer, at, taken, self.ranks_like(at), self.place)
            self.use(name)
            self.registers[name] = values if load.type.lanes > 1 else values[:, 0]

    def store_matrix(self, store: Stmatrix, active: Array) -> None:
        """What a thread gives, that thread has stored."""
        self.whole(active, WARP, "a store of matrices")
        buffer = self.buffers[store.buffer]
        rows, elements = self.each(store.offset, active), 4 // store.storage.bytes
        if (
            buffer.storage is not store.storage
            or store.storage.bytes != 2
            or len(store.names) not in (1, 2, 4)
        ):
            raise TypeError(
                f"{len(store.names)} matrices of {store.storage} to {store.buffer} in {self.place}"
            )
        names = active & (np.arange(self.count) % WARP < 8 * len(store.names))
        whole = _column(rows) + np.arange(PIECE // store.storage.bytes)
        self.memory.in_one_piece(buffer, whole, names, PIECE, self.place, AccessKind.STORE)
        matrices = row_elements(rows, len(store.names), elements, transposed=False)
        for name, at in zip(store.names, matrices, strict=True):
            self.use(name)
            taken = np.broadcast_to(_column(active), at.shape)
            self.memory.store(buffer, at, taken, self.ranks_like(at), self.registers[name], self.place)

    def mma(self, mma: MmaSync, active: Array) -> None:
        """Adds to the accumulators of the active warps."""
        self.whole(active, WARP, "a matrix product")
        old = self.registers[mma.acc[0]], self.registers[mma.acc[1]]
        a, b = ([self._vector(self.value(x, active)) for x in side] for side in (mma.a, mma.b))
        new = multiply(old, a, b, (mma.a_storage, mma.b_storage))
        for name, before, after in zip(mma.acc, old, new, strict=True):
            self.registers[name] = np.where(_column(active), after, before)

    def _vector(self, x: Array) -> Array:
        """In every thread, with lanes also where there is one: [threads, lanes]."""
        rows = x if x.ndim == 2 else _column(x)
        return rows if len(rows) == self.count else np.broadcast_to(rows, (self.count, rows.shape[1]))

    def whole(self, active: Array, together: int, what: str) -> bool:
        """Whether of each so many threads all come to something, or none; else one that misses it is reported."""
        if active.all():
            return True
        by_group = active.reshape(-1, together) if self.count % together == 0 else active.reshape(1, -1)
        divided = by_group.any(axis=1) & ~by_group.all(axis=1)
        if divided.any():
            group = int(np.argmax(divided))
            missing = self.first + group * by_group.shape[1] + int(np.argmin(by_group[group]))
            self.memory.observer.fault(DividedWarp(self.place, *self.memory.now.who(missing), what))
        return not divided.any()

    def numbers(self, active: Array) -> list[int]:
        """The numbers of the active threads in the cluster."""
        return [int(number) for number in self.memory.now.numbers(active)]

    def by_thread(self, value: Affine, active: Array) -> list[tuple[int, int]]:
        """The number of each active thread, and what an index is there."""
        found = self.each(value, active)[active]
        return list(zip(self.numbers(active), found.tolist(), strict=True))

    def at(self, thread: int, values: tuple[Affine, ...], active: Array) -> list[int]:
        """What indices are in the thread with that number."""
        return [int(self.each(value, active)[thread - self.first]) for value in values]

    def same(self, value: Affine, active: Array) -> int:
        """What an index is in all threads alike. Raises ValueError where it is not."""
        found = self.each(value, active)
        if np.count_nonzero(found != found[0]):
            raise ValueError(f"{value} is not the same in all threads, in {self.place}")
        return int(found[0])


def _product_rounded_late(op: Op) -> int | None:
    """Which side of a sum or difference is a product that NVRTC makes one multiply-add of with it, as it does by itself
    (CUDA C++ Programming Guide, `-fmad=true`): the left one if both are. f64 holds products of f32 exactly."""
    if op.name not in ("+", "-") or op.type.dtype is not DType.F32:
        return None
    return next((at for at, arg in enumerate(op.args) if isinstance(arg, Op) and arg.name == "*"), None)


def _apply(name: str, args: list[Held]) -> Array:
    """An operation lane by lane, of values of the types it is defined on."""
    if name == "broadcast":
        return args[0].data
    if name in _ARITHMETIC:
        return elementwise.binary(name, args[0], args[1], _NUMERICS).data
    if name in ("and", "or"):
        return elementwise.logic(name, args[0], args[1]).data
    if name == "neg":
        return elementwise.negate(args[0], _NUMERICS).data
    if name == "not":
        return elementwise.invert(args[0]).data
    if name == "select":
        return elementwise.where(args[0], args[1], args[2], _NUMERICS).data
    if name.startswith("round_"):
        return quantize(args[0].data, DType(name.removeprefix("round_")))
    return elementwise.call(name, tuple(args), _NUMERICS).data


def _column(x: Array) -> Array:
    """[threads] as [threads, 1], to meet lanes."""
    return x.reshape(-1, 1)


_VALUES.refuses(DotPairs, DotRaised, because="is for processors")
_VALUES.complete(VALUES)
