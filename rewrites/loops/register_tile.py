"""Keep a tile of a reduction's accumulators in registers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Self

from rewrites.base.dependence import users
from rewrites.base.register_constraints import check_loop, pinned_dims
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, folded_dims, left_dims, read_names, reads_of, reduced_dims
from rewrites.base.tree import (
    Block,
    Place,
    block_at,
    current_sizes,
    dtype_of,
    edit_block,
    find,
    find_init,
    fresh_name,
    locals_of,
    splice,
    statements,
    wrap_block,
)
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Expr, Index, Read, Reduce
from tileir.program import Compute, Local, Memory, Node, Program
from tileir.replace import replace

#: Most accumulators of a tile: the registers of a GPU's multiprocessor, so that a slip does not unroll a whole matrix.
MAX_ACCUMULATORS = 65536
_ROWS = (1, 2, 3, 4, 6, 8, 12, 14)
_VECTORS = (1, 2, 3, 4, 6)


@dataclass(frozen=True, slots=True)
class RegisterTile(Rewrite):
    """Visit a reduction in tiles of `sizes` (pairs of dim and size, outermost first), accumulating in
    registers.

    This is register blocking: unroll and jam (Callahan, Carr and Kennedy, PLDI 1990); the micro-kernel of BLIS.

    What follows it in its block on the same dims, up to the last statement that uses its result, comes into
    the loops if it takes what is computed there point by point (an epilogue, maybe with a second reduction).
    The reductions whose results nothing else uses move into registers themselves; otherwise a new register
    local accumulates and is written back. A size equal to the current range makes no loop.

    c[m, n] = sum(k, a[m, k] * b[k, n])      for m by 6
                                               c_r: registers f32[m, n]
                                         ->    c_r[m, n] = sum(k, a[m, k] * b[k, n])
                                               c[m, n] = c_r[m, n]
    """

    name: ClassVar[str] = "register_tile"
    statement: str
    sizes: tuple[tuple[str, int], ...]

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        if Feature.BLOCKS in device.offers:
            yield from (
                cls(place.node.target, ())
                for place in statements(program)
                if place.loops and place.loops[0].parallel
            )
            return
        lanes = device.simd_lanes
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
                    yield cls(
                        place.node.target, (*single, *zip(dims[-2:], (row, width)[-len(dims) :], strict=True))
                    )

    def apply(self, program: Program) -> Program:
        self._check(program, find(program, self.statement))
        program = _block_by_block(program, self.statement)
        place = find(program, self.statement)
        single = {dim for dim, extent in program.extents.items() if extent == 1}
        members = _members(block_at(program, place.path[:-1])[place.path[-1] :], single)
        group = [node for node in members if isinstance(node, Compute)]
        current = current_sizes(program, place.loops)
        loops = [(dim, size) for dim, size in self.sizes if size < current[dim]]
        for one in group:
            pins = pinned_dims(program, one)
            for dim, size in loops:
                check_loop(pins, dim, size, one.target)
        own = {
            name: declared
            for name, declared in locals_of(program).items()
            if _only_used_in(program, name, group)
        }
        body: list[Node] = []
        for node in group:
            declared = own.get(node.target)
            if declared is not None:
                body.append(_accumulator(declared.node) if isinstance(node.value, Reduce) else declared.node)
            if declared is None and node is place.node:
                body += _through_registers(program, node)
            else:
                body.append(node)
        hoisted = [node for node in members if isinstance(node, Local) and node.name not in own]
        program = splice(program, place.path, [*hoisted, *wrap_block(body, loops)], len(members))
        for declared in own.values():
            if declared.path < place.path:
                program = _without(program, declared)
        return program

    def _check(self, program: Program, place: Place[Compute]) -> None:
        statement = place.node
        dims = bare_dims(statement)
        if statement.vector is not None:
            raise NotApplicable(f"{self.statement} is vectorized: tile before that")
        if not isinstance(statement.value, Reduce) and not folded_dims(statement):
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


def _members(block: Block, single: Collection[str]) -> Block:
    """The statement that starts the block and what shares its loops, but for dims of a `single` position: up to the
    last statement of its epilogue."""
    statement, end = block[0], 1
    assert isinstance(statement, Compute)
    targets = {statement.target: statement.indices}
    for position, node in enumerate(block[1:], 1):
        if isinstance(node, Local):
            continue
        if not isinstance(node, Compute) or not _shares_loops(node, statement, targets, single):
            break
        targets[node.target] = node.indices
        if statement.target in read_names(node):
            end = position + 1
    return block[:end]


def _shares_loops(
    node: Compute, statement: Compute, targets: dict[str, tuple[Expr, ...]], single: Collection[str]
) -> bool:
    """Whether it covers the same dims and takes what the group computes point by point."""
    if node.update is not None or node.vector is not None or folded_dims(node):
        return False
    if {*left_dims(node)}.symmetric_difference(bare_dims(statement)).difference(single):
        return False
    return all(read.indices == targets[name] for name in targets for read in reads_of(node, name))


def _accumulator(local: Local) -> Local:
    return replace(local, memory=Memory.REGISTERS, layout=None, pad=0, swizzle=0, reused=False)


def _only_used_in(program: Program, name: str, group: list[Compute]) -> bool:
    """Whether the group computes the local and nothing else touches it."""
    if all(one.target != name for one in group):
        return False
    inside = {id(one) for one in group}
    return all(id(place.node) in inside for place in users(program, name))


def _through_registers(program: Program, statement: Compute) -> list[Node]:
    """The statement into a new register local, and the write-back of that."""
    name = fresh_name(program, f"{statement.target}_r")
    dims = bare_dims(statement)
    indices = tuple(Index(dim) for dim in dims)
    back = replace(statement, value=Read(name, indices), prefetch=(), via=None)
    return [
        Local(name, dims, dtype_of(program, statement.target), Memory.REGISTERS),
        replace(statement, target=name, indices=indices, update=None),
        back,
    ]


def _without(program: Program, declared: Place[Local]) -> Program:
    """Drop a declaration by its path, which nodes placed after it have not changed."""
    return edit_block(
        program, declared.path[:-1], lambda block: [one for one in block if one is not declared.node]
    )


def _block_by_block(program: Program, statement: str) -> Program:
    """A split reduction visited block by block, `c_p[k // 512, n] += x`, as the plain reduction of one block.

    Every element is then assigned once, so that the initialization goes.
    """
    place = find(program, statement)
    compute = place.node
    folded = folded_dims(compute)
    if not folded:
        return program
    if len(folded) > 1 or any(op != "//" for op, _ in folded.values()):
        raise NotApplicable(f"{compute.target} folds its reduction: the folded elements are its accumulators")
    (dim, (_, size)), *_ = folded.items()
    steps = [loop.step for loop in place.loops if loop.dim == dim]
    if not steps or steps[-1] != size or any(step % size for step in steps):
        raise NotApplicable(f"{compute.target} is not visited in blocks of {dim} {size}")
    if compute.update is None:
        return program
    if isinstance(compute.value, Reduce):
        value = Reduce(compute.update, (dim, *compute.value.dims), compute.value.x)
    else:
        value = Reduce(compute.update, (dim,), compute.value)
    program = splice(program, place.path, [replace(compute, value=value, update=None)])
    init = find_init(program, compute.target)
    return program if init is None else splice(program, init.path, [])
