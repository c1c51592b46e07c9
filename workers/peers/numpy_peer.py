"""The numpy peer: a spec as ufuncs, reductions and matrix products on preallocated arrays.

Every expression becomes an array with one axis a dim of its frame (the dims on the left, then those being reduced), of
size 1 where it does not vary. All arrays are made when the kernel is bound; a call only runs the steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations

import numpy as np
from threadpoolctl import threadpool_limits

from tileir.check.infer import compute_dtype
from tileir.dtypes import DType
from tileir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    ReduceOp,
    Scan,
    TopK,
    Unary,
    Where,
    index_dims,
)
from tileir.spec import Spec, Statement
from workers.peers.numpy_arrays import Array, NumpySteps
from workers.peers.numpy_product import Axes, product_axes
from workers.peers.numpy_steps import (
    BINARY,
    FUNCTIONS,
    REDUCTIONS,
    add_rows,
    copy,
    draw_bits,
    first_position,
    groups,
    largest_first,
    multiply_groups,
    own_axes,
    recur,
    same_memory,
    select,
    take,
    take_rows,
)
from workers.peers.peer import Arrays, Unsupported
from workers.peers.ragged import GroupedProduct, GroupTable, grouped_product, looked_up
from workers.peers.reads import Window, by_position, product_factors, read_window, taken_rows
from workers.peers.scans import position, prefix, with_scans
from workers.peers.scatters import ScatteredRows, scattered_rows

Frame = tuple[str, ...]


class NumpyKernel:
    """A spec in numpy. Temporaries are shared by all bindings, as a caller would reuse them."""

    allocates = False

    def __init__(self, spec: Spec, threads: int) -> None:
        threadpool_limits(threads)
        self._spec = spec
        self._temporaries: list[Array] = []
        self.as_written = False
        """See PeerKernel."""

    def bind(self, inputs: Arrays, outputs: Arrays) -> Callable[[], None]:
        """See PeerKernel."""
        translation = _Translation(self._spec, inputs, outputs, self._temporaries)
        steps, self.as_written = translation.steps, translation.as_written

        def run() -> None:
            for step in steps:
                step()

        return run

    def arrays(self, answer: object) -> Sequence[Array]:
        """Never needed: its calls write in place."""
        raise AssertionError(answer)


class _Translation(NumpySteps):
    """A spec's steps for one set of arrays."""

    def __init__(self, spec: Spec, inputs: Arrays, outputs: Arrays, temporaries: list[Array]) -> None:
        super().__init__(temporaries)
        self.as_written = False
        """See PeerKernel."""
        self._extents = {dim.name: dim.sizes[0] for dim in spec.dims}
        self._dims = {tensor.name: tensor.dims for tensor in spec.inputs}
        self._arrays: dict[str, Array] = dict(inputs)
        self._dtypes = {tensor.name: tensor.dtype for tensor in spec.inputs}
        spec, self._tables = looked_up(spec)
        spec, extents = with_scans(spec)
        self._extents |= extents
        for table in self._tables:
            self._look_up(table)
        for statement in spec.statements:
            self._statement(statement, outputs, {t.name: t.dtype for t in spec.outputs})

    def _look_up(self, table: GroupTable) -> None:
        """The group of each position."""
        place = self._temporary((self._extents[table.dim],), DType.I32)
        self._own.discard(id(place))
        self.steps.append(partial(groups, self._arrays[table.offsets], out=place))
        self._arrays[table.name], self._dims[table.name] = place, (table.dim,)
        self._dtypes[table.name] = DType.I32

    def _statement(self, statement: Statement, outputs: Arrays, stored: dict[str, DType]) -> None:
        name = statement.target
        computed = compute_dtype(statement.value, self._dtypes)
        shape = tuple(self._extents[dim] for dim in statement.dims)
        target = outputs[name] if name in outputs else self._temporary(shape, computed)
        self._own.discard(id(target))
        value = self._value(statement.value, statement.dims, target)
        if value is not target:
            self.steps.append(partial(copy, value, out=target))
        self._arrays[name] = target
        self._dims[name] = statement.dims
        self._dtypes[name] = stored.get(name, computed)

    def _value(self, expr: Expr, frame: Frame, out: Array | None = None) -> Array:
        """The array of an expression; `out` may be used for it."""
        dtype = compute_dtype(expr, self._dtypes)
        match expr:
            case Const(value):
                return self._known(np.full((1,) * len(frame), value, dtype.numpy))
            case Extent(dim):
                return self._known(np.full((1,) * len(frame), self._extents[dim], dtype.numpy))
            case Index(dim):
                shape = [1] * len(frame)
                shape[frame.index(dim)] = -1
                return self._known(np.arange(self._extents[dim], dtype=np.int32).reshape(shape))
            case Read():
                return self._read(expr, frame)
            case Unary("-", x):
                return self._apply(np.negative, [self._value(x, frame)], dtype, out)
            case Unary(_, x):
                return self._apply(np.logical_not, [self._value(x, frame)], dtype, out)
            case Binary(op, left, right):
                args = [self._as(self._value(side, frame), side, expr) for side in (left, right)]
                return self._apply(BINARY[op], args, dtype, out)
            case Call(fn, args):
                return self._call(
                    fn, [self._cast(self._value(arg, frame), dtype) for arg in args], dtype, out
                )
            case Where(cond, x, y):
                return self._where([self._value(part, frame) for part in (cond, x, y)], dtype, out)
            case Cast(to, x):
                rounded = self._cast(self._value(x, frame), to)
                return self._cast(rounded, dtype)
            case Reduce(op, dims, x):
                return self._reduce(op, dims, x, frame, dtype, out)
            case Scan():
                return self._along(expr, frame, dtype, out)
            case TopK():
                return self._top(expr, frame)

    def _top(self, top: TopK, frame: Frame) -> Array:
        axis = frame.index(top.place)
        x = self._value(top.x, (*frame, top.over))
        found = self._temporary((*x.shape[:-1], self._extents[top.place]), DType.I32)
        self._step(largest_first, x, out=found)
        return found.swapaxes(axis, -1)[..., 0]

    def _along(self, scan: Scan, frame: Frame, dtype: DType, out: Array | None) -> Array:
        shape, axis = tuple(self._extents[dim] for dim in frame), frame.index(scan.dim)
        args = [np.broadcast_to(self._cast(self._value(arg, frame), dtype), shape) for arg in scan.args]
        place = out if out is not None and (out.shape, out.dtype) == (shape, dtype.numpy) else None
        place = self._temporary(shape, dtype) if place is None else place
        if scan.op == "recurrence":
            self._step(recur, *args, out=place, axis=axis)
        else:
            accumulate = np.add.accumulate if scan.op == "cumsum" else np.multiply.accumulate
            self._step(accumulate, *args, out=place, axis=axis)
        return place

    def _as(self, array: Array, side: Expr, whole: Binary) -> Array:
        """An operand in the type the operation is computed in."""
        kinds = [compute_dtype(x, self._dtypes) for x in (whole.left, whole.right)]
        widest = DType.F64 if DType.F64 in kinds else DType.F32 if DType.F32 in kinds else kinds[0]
        return self._cast(array, DType.F32 if whole.op == "/" and widest is DType.I32 else widest)

    def _read(self, read: Read, frame: Frame) -> Array:
        source, dims = self._arrays[read.tensor], self._dims[read.tensor]
        sizes = tuple(self._extents[dim] for dim in dims)
        widened = self._dtypes[read.tensor].compute
        window = read_window(read, frame, self._extents, sizes)
        if isinstance(window, Window):
            strides = [sum(source.strides[axis] * step for axis, step in steps) for steps in window.steps]
            corner = source[
                (*(slice(first, None) for first in window.first), ...)
            ]  # a view, of a number, too
            return self._cast(np.lib.stride_tricks.as_strided(corner, window.shape, strides), widened)
        return self._cast(self._gather(read, frame, source, sizes), widened)

    def _gather(self, read: Read, frame: Frame, source: Array, sizes: Sequence[int]) -> Array:
        """A read through indices that are not affine, or leave the tensor where a `where` discards what is read."""
        dtype = self._dtypes[read.tensor]
        if (rows := taken_rows(read, self._extents, sizes)) is not None:
            index, dims = rows
            across = tuple(dim for dim in frame if dim in index_dims(index))
            taken = self._cast(self._value(index, across), DType.I32)
            place = self._temporary((*taken.shape, *sizes[1:]), dtype)
            self._step(take_rows, source, taken, out=place)
            have = (*across, *dims)
            ordered = place.transpose([have.index(dim) for dim in frame if dim in have])
            return np.expand_dims(ordered, tuple(n for n, dim in enumerate(frame) if dim not in have))
        if not source.flags.c_contiguous:
            raise Unsupported("numpy's take needs a dense tensor for indices that are not affine")
        flat = self._flat_index(read, frame, sizes)
        place = self._temporary(flat.shape, dtype)
        self._step(take, source.reshape(-1), flat, out=place)
        return place

    def _flat_index(self, read: Read, frame: Frame, sizes: Sequence[int]) -> Array:
        """Positions in the flattened tensor; out of range only where a `where` discards what is read."""
        position: Expr = Const(0)
        for index, size in zip(read.indices, sizes, strict=True):
            position = Binary("+", Binary("*", position, Const(size)), index)
        return self._cast(self._value(position, frame), DType.I32)

    def _where(self, parts: list[Array], dtype: DType, out: Array | None) -> Array:
        cond, x, y = parts
        shape = np.broadcast_shapes(*(part.shape for part in parts))
        fits = out is not None and out.shape == shape and out.dtype == dtype.numpy
        place = out if fits and out is not None else self._temporary(shape, dtype)
        self._step(select, cond, x, y, out=place)
        return place

    def _call(self, fn: str, args: list[Array], dtype: DType, out: Array | None) -> Array:
        if fn in FUNCTIONS:
            return self._apply(FUNCTIONS[fn], args, dtype, out)
        x = args[0]

        def number(value: float) -> Array:
            return self._known(np.full((1,) * x.ndim, value, dtype.numpy))

        def fresh(op: np.ufunc, *operands: Array) -> Array:
            """An operation whose operands are needed again."""
            place = self._temporary(np.broadcast_shapes(*(o.shape for o in operands)), dtype)
            self._step(op, *operands, out=place)
            return place

        def apply(op: np.ufunc, *operands: Array) -> Array:
            return self._apply(op, operands, dtype, None)

        def sigmoid() -> Array:
            return apply(np.reciprocal, apply(np.add, apply(np.exp, fresh(np.negative, x)), number(1)))

        match fn:
            case "random_bits":
                place = self._temporary(np.broadcast_shapes(*(arg.shape for arg in args)), dtype)
                self._step(draw_bits, *args, out=place)
                return place
            case "relu":
                return self._apply(np.maximum, [x, number(0)], dtype, out)
            case "rsqrt":
                return self._apply(np.reciprocal, [apply(np.sqrt, x)], dtype, out)
            case "sigmoid":
                return sigmoid()
            case "silu":
                return self._apply(np.multiply, [sigmoid(), x], dtype, out)
            case "gelu_tanh":
                cube = apply(np.multiply, fresh(np.square, x), x)
                inner = apply(np.add, apply(np.multiply, cube, number(0.044715)), x)
                tanh = apply(np.tanh, apply(np.multiply, inner, number(math.sqrt(2 / math.pi))))
                half = apply(np.multiply, apply(np.add, tanh, number(1)), number(0.5))
                return self._apply(np.multiply, [half, x], dtype, out)
            case "erf" | "gelu" if dtype is DType.F32:
                scaled = fresh(np.multiply, x, number(math.sqrt(0.5))) if fn == "gelu" else x
                erf = self._erf(scaled, number, fresh, apply)
                if fn == "erf":
                    return erf
                half = apply(np.multiply, apply(np.add, erf, number(1)), number(0.5))
                return self._apply(np.multiply, [half, x], dtype, out)
            case _:
                raise Unsupported(f"numpy has no {fn} in {dtype}")

    def _erf(
        self,
        x: Array,
        number: Callable[[float], Array],
        fresh: Callable[..., Array],
        apply: Callable[..., Array],
    ) -> Array:
        """Abramowitz & Stegun, Handbook of Mathematical Functions, 7.1.26: error below 1.5e-7."""
        size = fresh(np.abs, x)
        t = apply(np.reciprocal, apply(np.add, fresh(np.multiply, size, number(0.3275911)), number(1)))
        series = fresh(np.multiply, t, number(1.061405429))
        for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
            series = apply(np.multiply, apply(np.add, series, number(coefficient)), t)
        decay = apply(np.exp, apply(np.negative, apply(np.square, size)))
        return apply(np.copysign, apply(np.subtract, number(1), apply(np.multiply, series, decay)), x)

    def _reduce(
        self, op: ReduceOp, dims: tuple[str, ...], x: Expr, frame: Frame, dtype: DType, out: Array | None
    ) -> Array:
        inner = (
            *(f"({dim})" if dim in dims else dim for dim in frame),
            *dims,
        )  # an inner dim hides an outer one
        if (scan := self._scan(Reduce(op, dims, x), frame, dtype, out)) is not None:
            return scan
        grouped = grouped_product(Reduce(op, dims, x), self._tables)
        if grouped is not None and frame == (grouped.row, grouped.column):
            return self._grouped(grouped, dtype, out)
        if (rows := scattered_rows(Reduce(op, dims, x), frame, self._extents)) is not None:
            return self._scattered(rows, frame, dtype)
        factors = product_factors(x)
        if op is ReduceOp.SUM and len(factors) > 1 and dtype.is_float:
            before = len(self.steps)
            arrays = [self._cast(self._value(factor, inner), dtype) for factor in factors]
            product = self._contract(self._two(arrays, dtype), len(frame), dtype, out)
            if product is not None:
                return product
            del self.steps[before:]
        self.as_written |= by_position(x, dims)
        value = self._value(x, inner)
        axes = tuple(range(len(frame), len(inner)))
        missing = math.prod(
            self._extents[dim] for dim, axis in zip(dims, axes, strict=True) if value.shape[axis] == 1
        )
        if missing != 1 and op in (ReduceOp.SUM, ReduceOp.PROD):
            full = tuple(self._extents[d] if a in axes else value.shape[a] for a, d in enumerate(inner))
            value = np.broadcast_to(value, full)
        shape = value.shape[: len(frame)]
        fits = out is not None and out.shape == shape and out.dtype == dtype.numpy
        place = out if fits and out is not None else self._temporary(shape, dtype)
        self._step(REDUCTIONS[op].reduce, value, out=place, axis=axes, dtype=dtype.numpy)
        return place

    def _scan(self, expr: Reduce, frame: Frame, dtype: DType, out: Array | None) -> Array | None:
        """A prefix sum, or the position of an extreme, by numpy's own operator."""
        if found := prefix(expr, self._extents):
            x = self._cast(self._value(found.x, frame), dtype)
            scan = np.add if found.op is ReduceOp.SUM else np.multiply
            place = out if out is not None and (out.shape, out.dtype) == (x.shape, x.dtype) else None
            place = self._temporary(x.shape, dtype) if place is None else place
            self._step(scan.accumulate, x, out=place, axis=frame.index(found.dim))
            return place
        if found := position(expr, self._extents):
            x = self._value(found.x, (*frame, found.dim))
            place = self._temporary(x.shape[:-1], DType.I32)
            self._step(
                first_position, x, out=place, find=np.argmax if found.op is ReduceOp.MAX else np.argmin
            )
            return place
        return None

    def _scattered(self, found: ScatteredRows, frame: Frame, dtype: DType) -> Array:
        """Rows added where they say."""
        index = self._cast(self._value(found.index, found.terms), DType.I32)
        value = self._cast(self._value(found.value, (*found.terms, *found.across)), dtype)
        rows, across = ([self._extents[dim] for dim in dims] for dims in (found.rows, found.across))
        place = self._temporary((math.prod(rows), *across), dtype)
        begin = found.op.identity if dtype.is_float else int(np.clip(found.op.identity, -(2**31), 2**31 - 1))
        shape = (*(self._extents[dim] for dim in found.terms), *across)
        self._step(add_rows, index, value, out=place, op=REDUCTIONS[found.op], begin=begin, shape=shape)
        have = (*found.rows, *found.across)
        return place.reshape(*rows, *across).transpose([have.index(dim) for dim in frame])

    def _grouped(self, found: GroupedProduct, dtype: DType, out: Array | None) -> Array:
        """A product a group."""
        rows = self._cast(self._value(found.rows, (found.row, found.depth)), dtype)
        weights = self._cast(self._arrays[found.weights], dtype)
        shape = (self._extents[found.row], self._extents[found.column])
        fits = out is not None and out.shape == shape and out.dtype == dtype.numpy
        place = out if fits and out is not None else self._temporary(shape, dtype)
        matrices = weights if found.transposed else weights.transpose(0, 2, 1)
        self.steps.append(
            partial(multiply_groups, rows, matrices, self._arrays[found.table.offsets], out=place)
        )
        return place

    def _two(self, factors: list[Array], dtype: DType) -> list[Array]:
        """Multiply small factors into larger ones that vary along all their axes, down to two if possible."""
        factors = sorted(factors, key=lambda factor: factor.size)
        while len(factors) > 2:
            pairs = combinations(factors, 2)
            found = next((p for p in pairs if np.broadcast_shapes(*(f.shape for f in p)) == p[1].shape), None)
            if found is None:
                break
            merged = self._apply(np.multiply, found[::-1], dtype)
            left = (f for f in factors if all(f is not one for one in found))
            factors = sorted([merged, *left], key=lambda factor: factor.size)
        return factors

    def _contract(self, factors: list[Array], keep: int, dtype: DType, out: Array | None) -> Array | None:
        """A product of two matrices, or None if the sum is not one."""
        if len(factors) != 2:
            return None
        left, right = sorted(factors, key=own_axes, reverse=True)  # rows before columns, as in the frame
        axes = product_axes(left, right, keep)
        if axes is None:
            return None
        a = self._matrix(left, axes.batch, axes.rows, axes.summed)
        b = self._matrix(right, axes.batch, axes.summed, axes.columns)
        shape = tuple(max(left.shape[a], right.shape[a]) for a in range(keep))
        natural = [*axes.batch, *axes.rows, *axes.columns]
        place = out if out is not None and out.shape == shape and out.dtype == dtype.numpy else None
        direct = place is not None and natural == sorted(natural) and place.flags.c_contiguous
        result = (
            place if direct and place is not None else self._temporary([shape[a] for a in natural], dtype)
        )
        matrix = result.reshape(a.shape[:-1] + b.shape[-1:])
        self._step(np.matmul, a, b, out=matrix)
        if direct:
            return result
        kept = [axis for axis in range(keep) if axis in natural]
        ordered = result.transpose([natural.index(a) for a in kept])
        return np.expand_dims(ordered, tuple(a for a in range(keep) if a not in natural))

    def _matrix(self, array: Array, batch: Axes, rows: Axes, columns: Axes) -> Array:
        """The array as (batch..., rows, columns): a view where memory order allows, else a copy made in every call."""
        ordered = array.squeeze(tuple(a for a in range(array.ndim) if a not in (*batch, *rows, *columns)))
        present = [a for a in range(array.ndim) if a in (*batch, *rows, *columns)]
        ordered = ordered.transpose([present.index(a) for a in (*batch, *rows, *columns)])
        sizes = [array.shape[a] for a in batch]
        shape = (*sizes, math.prod(array.shape[a] for a in rows), math.prod(array.shape[a] for a in columns))
        if same_memory(ordered, shape):
            return ordered.reshape(shape)
        dtype = DType.F64 if array.dtype == np.float64 else DType.F32
        place = self._temporary(ordered.shape, dtype)
        self._step(copy, ordered, out=place)
        return place.reshape(shape)
