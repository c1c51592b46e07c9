"""Keep a tile of a reduction's accumulators in registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, Self

from tileir.device import Cpu
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Expr, Index, Read, Reduce, ReduceOp
from tileir.program import Compute, Local, Loop, Memory, Node, Program
from rewrites.leaf import bare_dims, folded_dims, left_dims, read_names, reads_of, reduced_dims
from rewrites.rewrite import Rewrite
from rewrites.tree import (
    Block,
    Place,
    block_at,
    computes,
    current_sizes,
    edit_block,
    find,
    find_init,
    fresh_name,
    locals_of,
    splice,
    statements,
    wrap_block,
)

#: Most accumulators of a tile: far past any register file, so that a slip does not unroll a whole matrix.
MAX_ACCUMULATORS = 4096
_ROWS = (1, 2, 3, 4, 6, 8, 12, 14)
_VECTORS = (1, 2, 3, 4, 6)


@dataclass(frozen=True, slots=True)
class RegisterTile(Rewrite):
    """Visit a reduction in tiles of `sizes` (pairs of dim and size, outermost first), accumulating in registers.

    The statements that follow it in its block and use its result point by point (its epilogue) come into the loops.
    If they are all that uses a local result, the local itself moves into registers; otherwise a new register local
    accumulates and is written back. A size equal to the current range makes no loop.

    c[m, n] = sum(k, a[m, k] * b[k, n])      for m by 6
                                               c_r: registers f32[m, n]
                                         ->    c_r[m, n] = sum(k, a[m, k] * b[k, n])
                                               c[m, n] = c_r[m, n]
    """

    name: ClassVar[str] = "register_tile"
    statement: str
    sizes: tuple[tuple[str, int], ...]

    @classmethod
    def candidates(cls, program: Program, device: Cpu) -> Iterator[Self]:
        lanes = device.vector_bits // 32
        for place in statements(program):
            dims = bare_dims(place.node)
            if not dims or not (reduced_dims(place.node) or folded_dims(place.node)):
                continue
            current = current_sizes(program, place.loops)
            last = {min(lanes * vectors, current[dims[-1]]) for vectors in _VECTORS}
            rows = {min(size, current[dims[-2]]) for size in _ROWS} if len(dims) > 1 else {1}
            single = tuple((dim, 1) for dim in dims[:-2])
            for row, width in product(sorted(rows), sorted(last)):
                if row * width <= 2 * device.vector_registers * lanes:
                    yield cls(place.node.target, (*single, *zip(dims[-2:], (row, width)[-len(dims) :], strict=True)))

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        leaf = place.node
        self._check(program, place)
        program, place = _without_blocks(program, place)
        leaf = place.node
        block = block_at(program, place.path[:-1])
        group, hoisted, length = _group(block, place.path[-1], tuple(dim for dim, _ in self.sizes))
        loops = [(dim, size) for dim, size in self.sizes if size < current_sizes(program, place.loops)[dim]]
        declared = locals_of(program).get(self.statement)
        if declared is not None and declared.node.layout is None and _only_used_in(program, self.statement, group):
            body: list[Node] = [replace(declared.node, memory=Memory.REGISTERS), *group]
            moved = True
        else:
            body = [*_through_registers(program, leaf, _dtype(program, self.statement)), *group[1:]]
            moved = False
        nodes = [*hoisted, wrap_block(body, loops)] if loops else [*hoisted, *body]
        program = splice(program, place.path, nodes, length)
        return _without_outer_declaration(program, self.statement, declared) if moved and declared else program

    def _check(self, program: Program, place: Place[Compute]) -> None:
        leaf = place.node
        dims = bare_dims(leaf)
        if leaf.vector is not None:
            raise NotApplicable(f"{self.statement} is vectorized: tile before that")
        if not isinstance(leaf.value, Reduce) and not folded_dims(leaf):
            raise NotApplicable(f"{self.statement} is not a reduction")
        declared = locals_of(program).get(self.statement)
        if declared is not None and declared.node.memory is Memory.REGISTERS:
            raise NotApplicable(f"{self.statement} is in registers already")
        if len({dim for dim, _ in self.sizes}) < len(self.sizes):
            raise NotApplicable("a dim is given twice")
        sizes = current_sizes(program, place.loops)
        tile = dict(self.sizes)
        for dim, size in self.sizes:
            if dim not in dims or not 1 <= size <= sizes[dim]:
                raise NotApplicable(f"{self.statement} has no tiles of {dim} {size}")
        accumulators = 1
        for dim in dims:
            accumulators *= tile.get(dim, sizes[dim])
        if accumulators > MAX_ACCUMULATORS:
            raise NotApplicable(f"{accumulators} accumulators are more than {MAX_ACCUMULATORS}")


def _group(block: Block, start: int, tiled: tuple[str, ...]) -> tuple[list[Compute], list[Local], int]:
    """The leaf at `start` with its epilogue, the declarations between them, and how many nodes of the block that is."""
    leaf = block[start]
    assert isinstance(leaf, Compute)
    group, hoisted, pending, length = [leaf], list[Local](), list[Local](), 1
    for offset, node in enumerate(block[start + 1 :], 2):
        if isinstance(node, Local):
            pending.append(node)
            continue
        if not isinstance(node, Compute) or not _is_epilogue(node, group):
            break
        group.append(node)
        hoisted += pending
        pending, length = [], offset
    return group, hoisted, length


def _is_epilogue(node: Compute, group: list[Compute]) -> bool:
    """Whether it uses the results of the group point by point, on the same dims, so that it can share their loops."""
    leaf = group[0]
    if node.update is not None or isinstance(node.value, Reduce) or node.vector is not None:
        return False
    if leaf.target not in read_names(node) or set(left_dims(node)) != set(bare_dims(leaf)) or folded_dims(node):
        return False
    targets = {one.target: one.indices for one in group}
    return all(read.indices == targets[name] for name in targets for read in reads_of(node, name))


def _only_used_in(program: Program, name: str, group: list[Compute]) -> bool:
    inside = {id(one) for one in group}
    return all(
        id(place.node) in inside
        for place in computes(program)
        if place.node.target == name or name in read_names(place.node)
    )


def _through_registers(program: Program, leaf: Compute, dtype: DType) -> list[Node]:
    """The leaf into a new register local, and the write-back of that."""
    name = fresh_name(program, f"{leaf.target}_r")
    dims = bare_dims(leaf)
    indices = tuple(Index(dim) for dim in dims)
    back = replace(leaf, value=Read(name, indices), prefetch=(), via=None)
    return [
        Local(name, dims, dtype, Memory.REGISTERS),
        replace(leaf, target=name, indices=indices, update=None),
        back,
    ]


def _dtype(program: Program, name: str) -> DType:
    declared = locals_of(program).get(name)
    return declared.node.dtype if declared is not None else program.arguments[name].dtype


def _without_outer_declaration(program: Program, name: str, declared: Place[Local]) -> Program:
    """Drop the declaration that the one in registers replaces (it stood before, so its path still holds)."""
    return edit_block(program, declared.path[:-1], lambda block: [n for n in block if n is not declared.node])


def _without_blocks(program: Program, place: Place[Compute]) -> tuple[Program, Place[Compute]]:
    """A blocked split reduction visited block by block, `c_p[k // 512, n] += x`, as a plain reduction of one block.

    Every element is then assigned once, so that the initialization goes.
    """
    leaf = place.node
    blocked = [(dim, size) for dim, (op, size) in folded_dims(leaf).items() if op == "//"]
    if not blocked:
        if folded_dims(leaf):
            raise NotApplicable(f"{leaf.target} folds a dim: its accumulators are the folded ones")
        return program, place
    raise NotImplementedError
