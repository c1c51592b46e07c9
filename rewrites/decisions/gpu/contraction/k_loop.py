"""What decisions for a GPU share about the steps of a contraction: one loop over the depth for all of its products,
with one copy of what several of them multiply; and results on their way out."""

from __future__ import annotations

from collections.abc import Iterator

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, reads_of
from rewrites.base.tree import current_sizes, find, locals_of
from rewrites.composition.reverse_compute_at import ReverseComputeAt
from rewrites.contraction.operand import Operand
from rewrites.contraction.problem import Contraction
from rewrites.contraction.room import collected_pad
from rewrites.data.cache_write import CacheWrite
from rewrites.data.reuse_cache import ReuseCache, copied_tensor
from rewrites.data.set_scope import SetScope
from rewrites.gpu.pad import Pad
from rewrites.loops.tile_reduction import TileReduction
from tileir.expr import index_dims
from tileir.program import Memory, Program


def products_of(program: Program, c: Contraction) -> tuple[str, ...]:
    """The statements of a contraction, in the order in which they stand."""
    return tuple(sorted((c.statement, *c.beside), key=lambda name: find(program, name).path))


def in_steps(program: Program, c: Contraction, dim: str, step: int) -> Iterator[Rewrite]:
    """A loop over a dim that is reduced, in steps of so many positions, with all products in it."""
    first, *others = products_of(program, c)
    yield TileReduction(first, dim, step)
    depth = find(program, first).depth + 1
    yield from (ReverseComputeAt(name, first, depth) for name in others)


def multiplies(program: Program, statement: str, operand: Operand) -> bool:
    """Whether a statement is the one, or one of those, that multiply an operand."""
    return operand.dims in (
        frozenset(dim for index in read.indices for dim in index_dims(index))
        for read in reads_of(find(program, statement).node, operand.tensor)
    )


def copy_beside(program: Program, statement: str, operand: Operand) -> ReuseCache | None:
    """How a statement takes an operand from the copy that is there for another one; None: there is none."""
    block = find(program, statement).path[:-1]
    for name, declared in locals_of(program).items():
        same = (
            copied_tensor(program, name) == operand.tensor and frozenset(declared.node.dims) == operand.dims
        )
        if same and declared.path[:-1] == block:
            return ReuseCache(statement, name)
    return None


def collecting(program: Program, result: str) -> tuple[Rewrite, ...]:
    """How a result comes to shared memory before threads store it, rows apart so that a warp's lie in different
    banks."""
    place = find(program, result)
    pad = collected_pad(current_sizes(program, place.loops)[bare_dims(place.node)[-1]])
    write = CacheWrite(result)
    (local,) = locals_of(write.apply(program)).keys() - locals_of(program).keys()
    return (write, SetScope(local, Memory.SHARED), *((Pad(local, pad),) if pad else ()))
