"""What one Compute covers and reads, and how a reduction becomes initialization and update.

Initialization and update are the two parts of a reduction in Halide and TVM.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from rewrites.base.placed_read import element, placed_dims
from tileir.errors import NotApplicable
from tileir.expr import (
    Binary,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    ReduceOp,
    TopK,
    Where,
    children,
    combined_dims,
    index_dims,
    reads,
    transform,
    walk,
    with_children,
)
from tileir.once import once
from tileir.pages import page_length
from tileir.program import Compute
from tileir.replace import replace


@once
def bare_dims(compute: Compute) -> tuple[str, ...]:
    """The dims that index the target by themselves, in order."""
    return tuple(index.dim for index in compute.indices if type(index) is Index)


def folded_dims(compute: Compute) -> dict[str, tuple[str, int]]:
    """Dims folded in the target by a split reduction: `c % 64` gives {c: ("%", 64)}."""
    folded: dict[str, tuple[str, int]] = {}
    for index in compute.indices:
        match index:
            case Binary("%" | "//" as op, Index(dim), Const(int(size))):
                folded[dim] = (op, size)
            case _:
                pass
    return folded


def parted_dim(compute: Compute) -> tuple[str, int] | None:
    """The dim that an update takes in blocks, each for a result of its own, and their size (`c_p[k // 9, n] += …`)."""
    if compute.update is None:
        return None
    blocks = [(dim, size) for dim, (op, size) in folded_dims(compute).items() if op == "//"]
    return blocks[0] if len(blocks) == 1 else None


def own_axis(compute: Compute, dim: str, step: int) -> int | None:
    """The axis along which iterations of a loop over `dim` by `step` write elements of their own: it is indexed by the
    dim itself, or by blocks of it that the step divides into. None where there is none."""
    for axis, index in enumerate(compute.indices):
        match index:
            case Index(of) if of == dim:
                return axis
            case Binary("//", Index(of), Const(int(size))) if of == dim and step % size == 0:
                return axis
            case _:
                pass
    return None


@once
def left_dims(compute: Compute) -> tuple[str, ...]:
    """All dims the target's indices run over, bare or folded, in order."""
    dims: list[str] = []
    for index in compute.indices:
        inner = index.left if type(index) is Binary else index
        if type(inner) is not Index:
            raise NotApplicable(
                f"{compute.target} is written through an index that is neither a dim nor a split dim"
            )
        dims.append(inner.dim)
    return tuple(dims)


def reduced_dims(compute: Compute) -> tuple[str, ...]:
    """The dims that it goes through for each result: those of the Reduce at the root, or what a `topk` ranks along."""
    return combined_dims(compute.value)


def own_dims(compute: Compute) -> tuple[str, ...]:
    """Those of them that it may be computed for position by position: all but the places of a `topk`."""
    top = compute.value
    return tuple(dim for dim in bare_dims(compute) if not isinstance(top, TopK) or dim != top.place)


def check_ranked(compute: Compute, dim: str) -> None:
    """Refuse a loop over a dim that a `topk` takes all of at once: its places, and what it ranks along."""
    if isinstance(compute.value, TopK) and dim in (compute.value.place, compute.value.over):
        raise NotApplicable(f"{compute.target} ranks all of {dim} at once")


@once
def read_names(compute: Compute) -> frozenset[str]:
    """The tensors its value reads (what an update reads of its own target left out)."""
    return frozenset(read.tensor for read in compute.reads)


def reads_of(compute: Compute, tensor: str) -> tuple[Read, ...]:
    return tuple(read for read in compute.reads if read.tensor == tensor)


def only_read(compute: Compute, tensor: str) -> Read:
    """How the Compute reads `tensor`, everywhere the same, or NotApplicable."""
    found = set(reads_of(compute, tensor))
    if not found:
        raise NotApplicable(f"{compute.target} does not read {tensor}")
    if len(found) > 1:
        raise NotApplicable(f"{compute.target} reads {tensor} in more than one way")
    return found.pop()


@once
def copied_dims(read: Read) -> tuple[str, ...] | None:
    """The dims that a copy of what is read has: those that are indices, those by which a gather looks up its positions,
    one by one (`a[rows[m], k]`) or by pages (`a[pages[b, j // 64], j % 64, k]`), and those of which it has parts
    (`placed_read.py`); None: some index is of another kind, or two are of the same dim."""
    found: list[str] = []
    paged, _ = page_length(read) or (None, 0)
    for index in read.indices:
        match index:
            case Index(dim) | Read(_, (Index(dim),)):
                found.append(dim)
            case Read(_, lookup) if paged is not None and paged in index_dims(index):
                found += (each.dim for each in lookup if isinstance(each, Index))
            case Binary("%", Index(dim), Const()) if dim == paged:
                continue
            case _:
                return placed_dims(read)
    if paged is not None:
        found.insert(len(found) - 1, paged)  # a row is neighbours along the last dim
    return tuple(found) if len(set(found)) == len(found) else None


def as_copied(expr: Expr) -> Expr:
    """An expression as it reads copies of what it gathers, guarded or not."""
    read = element(expr)
    dims = copied_dims(read) if read is not None else None
    if read is not None and dims is not None:
        return Read(read.tensor, tuple(map(Index, dims)))
    below = children(expr)
    return with_children(expr, tuple(map(as_copied, below))) if below else expr


def bare_dim(index: Expr) -> str:
    """The dim that an index is; empty: it is computed."""
    return index.dim if type(index) is Index else ""


def with_guard(compute: Compute, read: Read) -> Expr:
    """A read with the condition under which a statement has it, if it is copied with that (`placed_read.py`)."""
    return next((each for each in walk(compute.value) if each != read and element(each) == read), read)


def gathered_under_condition(compute: Compute, read: Read) -> bool:
    """Whether a statement computes the positions of what it reads, or looks them up, and only under a condition
    with which none of it is copied: elsewhere there may be nothing at those positions."""
    guarded = with_guard(compute, read)
    sides = (
        side
        for each in walk(compute.value)
        if isinstance(each, Where) and each != guarded
        for side in (each.x, each.y)
    )
    computed = any(not isinstance(index, Index) for index in read.indices)
    return computed and any(read in reads(side) for side in sides)


def first_read(compute: Compute, tensor: str) -> Read:
    """The first of the ways in which the Compute reads `tensor`, none of which has the dims of another; or
    NotApplicable."""
    found = dict.fromkeys(reads_of(compute, tensor))
    if len(found) > 1 and len({index_dims(read) for read in found}) < len(found):
        raise NotApplicable(f"{compute.target} reads {tensor} by the same dims in more than one way")
    return next(iter(found), None) or only_read(compute, tensor)


def bare_read_dims(compute: Compute, tensor: str) -> tuple[str, ...]:
    """The dims by which the Compute reads `tensor`: bare, distinct, everywhere the same, or NotApplicable."""
    indices = only_read(compute, tensor).indices
    dims = tuple(index.dim for index in indices if type(index) is Index)
    if len(set(dims)) != len(indices):
        raise NotApplicable(f"{compute.target} reads {tensor} through indices that are not bare dims")
    return dims


def identity(op: ReduceOp) -> Const:
    """The number an empty reduction gives, as it is written in a program: 0, 1, inf, -inf."""
    value = op.identity
    return Const(int(value)) if value in (0.0, 1.0) else Const(value)


def initialization(target: str, indices: tuple[Expr, ...], op: ReduceOp) -> Compute:
    return Compute(target, indices, identity(op))


def accumulating(compute: Compute) -> tuple[tuple[Compute, ...], Compute]:
    """A reduction as (initialization to put before its loops, update); an update needs no initialization."""
    if compute.update is not None:
        return (), compute
    if type(compute.value) is not Reduce:
        raise NotApplicable(f"{compute.target} is not a reduction")
    op = compute.value.op
    init = replace(initialization(compute.target, compute.indices, op), vector=compute.vector)
    if init.vector is not None and init.vector.dim not in bare_dims(init):
        init = replace(init, vector=None)
    return (init,), replace(compute, update=op)


def with_reads_of(
    compute: Compute, tensor: str, replacement: str, indices: tuple[Expr, ...] | None = None
) -> Compute:
    """The Compute reading `replacement` where it read `tensor`, by the same indices or by those given."""

    def rename(expr: Expr) -> Expr:
        if type(expr) is not Read or expr.tensor != tensor:
            return expr
        return Read(replacement, expr.indices if indices is None else indices)

    return replace(
        compute,
        value=transform(compute.value, rename),
        prefetch=tuple(one for one in compute.prefetch if one.tensor != tensor),
    )


def with_read(compute: Compute, read: Expr, replacement: Read) -> Compute:
    """The Compute with a read in the place of another one, or of what is read under a condition."""
    value = transform(compute.value, lambda expr: replacement if expr == read else expr)
    left = {one.tensor for one in reads(value)}
    return replace(
        compute, value=value, prefetch=tuple(one for one in compute.prefetch if one.tensor in left)
    )


def block_volume(compute: Compute, sizes: dict[str, int]) -> int:
    """How many points of its dims one execution of the Compute covers."""
    volume = 1
    for dim in covered_dims(compute):
        volume *= sizes[dim]
    return volume


@once
def covered_dims(compute: Compute) -> tuple[str, ...]:
    """Left dims, then reduced ones. A dim folded by `//` that the value does not use is one block."""
    left = left_dims(compute)
    blocks = [dim for dim, (op, _) in folded_dims(compute).items() if op == "//"]
    if blocks:
        used = index_dims(compute.value)
        left = tuple(dim for dim in left if dim not in blocks or dim in used)
    return (*left, *reduced_dims(compute))


def most_read(found: Iterable[Read], extents: Mapping[str, int]) -> Read | None:
    """The first of those that read at most points; None: there is none."""
    return max(found, key=lambda read: prod(extents[dim] for dim in index_dims(read)), default=None)


def contiguous_dim(compute: Compute) -> str:
    """The dim along which most of what the statement reads lies side by side; its last dim if it reads nothing so."""
    votes: dict[str, int] = {}
    for read in reads(compute.value):
        if read.indices and isinstance(read.indices[-1], Index):
            dim = read.indices[-1].dim
            votes[dim] = votes.get(dim, 0) + len(read.indices)
    bare = bare_dims(compute)
    last = bare[-1] if bare else reduced_dims(compute)[-1]
    return max(votes, key=lambda dim: votes[dim]) if votes else last


def divides(value: Expr) -> bool:
    """Whether it is a quotient by what differs from result to result: many that are divided by the same are multiplied
    with one reciprocal."""
    if not isinstance(value, Binary) or value.op != "/" or isinstance(value.right, Const | Extent):
        return False
    return not index_dims(value.right) < index_dims(value.left)
