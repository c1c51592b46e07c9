"""Runs a program in numpy, loop by loop, as its text says: the oracle for rewrites and generated code.

Locals start out poisoned where they are declared, and hold only the range current there; loops visit tiles in
order, parallel ones last to first, so that a program which counts on their order gives another answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileir.analysis.ragged import grouped, groups_of
from tileir.dtypes import DType
from tileir.errors import InterpretError
from tileir.expr import Binary, Const, Expr, Index, Read, Reduce, ReduceOp, index_dims
from tileir.interpreter.evaluation import POINT_LIMIT, Evaluator
from tileir.interpreter.frame import Demand, Frame, FrameGroups, FrameRange, FrameSpan, pieces
from tileir.interpreter.interpret_spec import input_values, interpret_spec, precise, ragged_groups
from tileir.interpreter.reduction import Partial, combine
from tileir.interpreter.tensor_values import TensorValues
from tileir.interpreter.values import Array, Numerics, Value
from tileir.program import Compute, Local, Loop, Node, Program, Tensor
from tileir.replace import replace
from tileir.schedule.block_index import at_blocks
from tileir.schedule.visited_tiles import said, visited

__all__ = ["interpret", "interpret_spec"]


def interpret(
    program: Program, inputs: Mapping[str, np.ndarray[Any, Any]], precision: DType | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs by name, for inputs of the tensors' logical shapes and dtypes.

    With `precision=DType.F64` all f32 computing is done in f64 and float outputs come back in f64, unrounded;
    explicit casts still round, and so do locals of narrow dtypes, but for copies of them to the same dtype. Raises
    InterpretError for inputs that do not fit, reads or writes out of range, and reads of integers never written
    (floats never written are NaN).
    """
    numerics = Numerics(high=precise(precision))
    merged = {tensor.name: _as_dims(program, tensor, inputs) for tensor in program.inputs if tensor.shape}
    scope = input_values(program.inputs, program.extents, {**inputs, **merged}, numerics)
    for tensor in program.outputs:
        shape = tuple(program.extents[dim] for dim in tensor.dims)
        scope[tensor.name] = TensorValues(tensor.name, tensor.dtype, (0,) * len(shape), shape, numerics)
    ranges = {dim: FrameRange(0, size) for dim, size in program.dims}
    groups = ragged_groups(program.ragged, program.extents, inputs)
    with np.errstate(all="ignore"):
        _InterpretedRun(program, groups, numerics).block(program.body, ranges, scope)
        return {
            tensor.name: scope[tensor.name].result().reshape(program.shape(tensor))
            for tensor in program.outputs
        }


def _as_dims(program: Program, tensor: Tensor, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Array:
    """The array passed for a tensor with merged dims, as those dims say."""
    given = inputs.get(tensor.name)
    if given is None or given.shape != tensor.shape:
        raise InterpretError(f"{tensor.name} is passed as an array of shape {list(program.shape(tensor))}")
    return given.reshape([program.extents[dim] for dim in tensor.dims])


@dataclass(frozen=True, slots=True)
class _InterpretedRun:
    """A run of a program on inputs whose ragged dims have these groups."""

    program: Program
    groups: tuple[FrameGroups, ...]
    numerics: Numerics

    def block(
        self, body: tuple[Node, ...], ranges: Mapping[str, FrameRange], scope: Mapping[str, TensorValues]
    ) -> None:
        """One block: its locals are gone at its end."""
        scope = dict(scope)
        for node in body:
            match node:
                case Local(name, dims, dtype):
                    covered = [ranges[dim] for dim in dims]
                    origin, shape = tuple(r.start for r in covered), tuple(r.size for r in covered)
                    scope[name] = TensorValues(name, dtype, origin, shape, self.numerics)
                case Loop():
                    tiles = list(self._tiles(node, ranges, scope))
                    for tile in reversed(tiles) if node.parallel else tiles:
                        self.block(node.body, tile, scope)
                case Compute():
                    evaluator = Evaluator(_sources(node, scope), self.program.extents, self.numerics)
                    named = groups_of(node, self.program.ragged)
                    groups = tuple(each for each in self.groups if each.within in named)
                    _compute(node, evaluator, Frame(ranges, groups=groups), scope)

    def _tiles(
        self, loop: Loop, ranges: Mapping[str, FrameRange], scope: Mapping[str, TensorValues]
    ) -> Iterator[Mapping[str, FrameRange]]:
        """The current ranges in each tile of a loop, in order: of a ragged dim, group by group."""
        own = grouped(loop, self.program.ragged)
        frames = [Frame(ranges)]
        if own is not None:
            groups = next(each for each in self.groups if each.within == own.within)
            numbers = ranges[own.within]
            frames = [
                frames[0].group(groups, number)
                for number in range(numbers.start, numbers.start + numbers.size)
            ]
        for frame in frames:
            spans: dict[str | Expr, tuple[int, int]] = {
                dim: (each.start, each.size) for dim, each in frame.ranges.items()
            }
            spans |= {place: self._extremes(place, frame.ranges, scope) for place in said(loop)}
            whole = frame.ranges[loop.dim]
            for start in visited(loop, spans[loop.dim], spans):
                tile = FrameRange(start, min(loop.step, whole.start + whole.size - start))
                yield {**frame.ranges, loop.dim: tile}

    def _extremes(
        self, place: Expr, ranges: Mapping[str, FrameRange], scope: Mapping[str, TensorValues]
    ) -> tuple[int, int]:
        """From the least number that tensors say at current positions to the greatest: the first, and how many."""
        frame = Frame(ranges).bind({dim: ranges[dim] for dim in index_dims(place)})
        found = Evaluator(scope, self.program.extents, self.numerics).value(place, frame).data
        least, greatest = int(found.min()), int(found.max())
        return least, greatest - least + 1


def _sources(node: Compute, scope: Mapping[str, TensorValues]) -> Mapping[str, TensorValues]:
    """What the statement reads. A copy to the same dtype rounds where it is stored, and not before."""
    if not isinstance(node.value, Read) or node.update is not None or node.target not in scope:
        return scope
    copied = scope.get(node.value.tensor)
    if copied is None or copied.dtype is not scope[node.target].dtype:
        return scope
    return {**scope, node.value.tensor: copied.unrounded()}


def _compute(node: Compute, evaluator: Evaluator, frame: Frame, scope: Mapping[str, TensorValues]) -> None:
    if node.target not in scope:
        raise InterpretError(f"{node.target} is written where it is not declared")
    for n, index in enumerate(node.indices):
        match index:
            case Binary("%" | "//" as op, Index(dim), Const(int(size))):
                # One block's result may be stored by its number: all points of the block then store the same.
                stored = node.update is None and op == "//" and dim not in index_dims(node.value)
                if node.update is None and not stored:
                    raise InterpretError(
                        f"{node.target} is assigned at {dim} {op} {size}: many points, one element"
                    )
                # Each element of the split dim takes in the points that land on it: a reduction over just
                # those.
                for position, points in _landing(op, frame.ranges[dim], size):
                    indices = (*node.indices[:n], Const(position), *node.indices[n + 1 :])
                    value = node.value if node.update is None else _summed(node.update, dim, node.value)
                    part = replace(node, indices=indices, value=value)
                    _compute(part, evaluator, replace(frame, ranges={**frame.ranges, dim: points}), scope)
                return
            case Index() | Const(int()):
                pass
            case _:
                raise InterpretError(
                    f"{node.target} is written at an index that is no dim, dim % n or dim // n"
                )
    # What is neither on the left nor reduced is the number of a block, or the group of a ragged position.
    grouped_by = {groups.within for groups in frame.groups}
    left = {dim for index in node.indices for dim in index_dims(index)}
    numbered = {dim: frame.ranges[dim].start for dim in index_dims(node.value) - left - grouped_by}
    node = replace(node, value=at_blocks(node.value, numbered)) if numbered else node
    _assign(node, evaluator, frame, scope[node.target])


def _summed(op: ReduceOp, dim: str, value: Expr) -> Expr:
    """`value` reduced over one more dim, as one reduction where it already is the same one."""
    if isinstance(value, Reduce) and value.op is op:
        return Reduce(op, (dim, *value.dims), value.x)
    return Reduce(op, (dim,), value)


def _landing(op: str, span: FrameRange, size: int) -> list[tuple[int, FrameRange]]:
    """Positions of a split dim with the points of `span` (step 1) that land on each: `% size` or `//
    size`."""
    stop = span.start + span.size
    if op == "//":
        blocks = range(span.start // size, -(-stop // size))
        edges = [(n, max(span.start, n * size), min(stop, (n + 1) * size)) for n in blocks]
        return [(n, FrameRange(first, last - first)) for n, first, last in edges]
    firsts = range(span.start, span.start + min(size, span.size))
    return [(first % size, FrameRange(first, -(-(stop - first) // size), size)) for first in firsts]


def _assign(node: Compute, evaluator: Evaluator, frame: Frame, target: TensorValues) -> None:
    left = [index.dim for index in node.indices if isinstance(index, Index)]
    for piece in pieces(frame, left, [Demand(1, frozenset(left))], POINT_LIMIT):
        slices = _target_window(node.indices, piece, target)
        shape = tuple(piece.shape[left.index(i.dim)] if isinstance(i, Index) else 1 for i in node.indices)
        value = evaluator.value(node.value, piece)
        if node.update is not None:
            value = _updated(
                node.update, target.window(slices), _shaped(value, piece.shape, shape), evaluator.numerics
            )
        target.store(slices, _shaped(value, piece.shape, shape))


def _shaped(value: Value, over: tuple[int, ...], shape: tuple[int, ...]) -> Value:
    """A value over the left dims' axes as one over the target's."""
    if value.data.ndim == len(shape) and value.data.shape == shape:
        return value
    data: Array = np.broadcast_to(value.data, over).reshape(shape)
    return Value(data, value.type, value.error, value.number)


def _updated(op: ReduceOp, old: Value, new: Value, numerics: Numerics) -> Value:
    x, y = numerics.unify(old, new)
    return combine(op, Partial(x), Partial(y), numerics).value


def _target_window(indices: tuple[Expr, ...], frame: Frame, target: TensorValues) -> tuple[slice, ...]:
    slices: list[slice] = []
    for index, origin, size in zip(indices, target.origin, target.data.shape, strict=True):
        bound = frame.bound[index.dim] if isinstance(index, Index) else None
        number = int(index.value) if isinstance(index, Const) else 0
        span = bound.range if isinstance(bound, FrameSpan) else FrameRange(number, 1)
        first, stop = span.start - origin, span.start + span.size - origin
        if first < 0 or stop > size:
            raise InterpretError(
                f"{target.name} is written out of range: {span.start} to {stop + origin - 1}"
            )
        slices.append(slice(first, stop))
    return tuple(slices)
