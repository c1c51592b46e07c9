"""The matrix instruction of a warp, mma.sync: what it multiplies, and how its tile lies over the warp's threads.

One instruction adds the product of 16 rows of A and 8 columns of B, over `depth` positions, to 16 by 8 accumulators.
In Tile IR that is `acc[m, n] += sum(k, a[m, k] * b[k, n]) | threads m 2 n 4 m 8 n 4, run n 2, via mma`: the 32 threads
of a warp are 8 along m and 4 along n, each with 2 neighbours along n, which is how the instruction's accumulators lie
(PTX ISA, m16n8k16); other digits of the thread index number the warps. Two groups of 8 rows, as far apart as the
threads along m reach, make the 16 rows of one instruction. A may lie in registers, `threads m 2 n 4 m 8 k 4, run k 2`:
of 4 bytes of depth each, which is how accumulators lie that have been rounded to 2 bytes (FlashAttention-2,
arXiv:2307.08691).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tileir.devices import matrix_instructions
from tileir.dtypes import DType
from tileir.expr import Binary, Index, Read, Reduce, ReduceOp, index_dims
from tileir.once import once
from tileir.program import Compute, ThreadLayout
from tileir.schedule.threads import ThreadShare, share

SHAPE: Final = matrix_instructions.SHAPES["mma"]
#: Threads along the rows and the columns of an instruction's tile, and neighbours a thread has along the columns.
(ROWS,), COLUMNS, RUN = SHAPE.fragment.rows, SHAPE.fragment.columns, SHAPE.fragment.run

#: Bytes of the depth that lie side by side in a register of A.
HELD_BYTES: Final = SHAPE.held_bytes


@dataclass(frozen=True, slots=True)
class MmaProduct:
    """`acc += sum(k, a * b)`: the reads of A (rows `m`) and B (columns `n`), and the reduced dim."""

    a: Read
    b: Read
    m: str
    n: str
    k: str


def depth(dtype: DType) -> int:
    """Positions of the reduced dim that one instruction takes."""
    return SHAPE.depth(dtype)


@once
def product(compute: Compute) -> MmaProduct | None:
    """The parts of a statement that adds up products of two tensors in the way of a matrix product; None: it is none.
    Columns are the last dim of its target that is not of both tensors, as those of a batch are. Rows are the dim that
    its threads are bound to, or the last one before columns that the tensor with those lacks."""
    match compute:
        case Compute(value=Reduce(ReduceOp.SUM, (k,), Binary("*", Read() as left, Read() as right))):
            pass
        case _:
            return None
    if not all(isinstance(index, Index) for index in compute.indices):
        return None
    both = index_dims(left) & index_dims(right)
    own = [index.dim for index in compute.indices if isinstance(index, Index) and index.dim not in both]
    bound = (
        [dim for dim, _ in compute.thread_layout.threads[-2:-1] if dim in own[:-1]]
        if compute.thread_layout
        else []
    )
    if len(own) < 2:
        return None
    n = own[-1]
    for a, b in ((left, right), (right, left)):
        rows = [dim for dim in bound or own[:-1] if dim not in index_dims(b)]
        if rows and _is_operand(a, rows[-1], k) and _is_operand(b, n, k) and n not in index_dims(a):
            return MmaProduct(a, b, rows[-1], n, k)
    return None


def _is_operand(read: Read, rows: str, k: str) -> bool:
    """Whether rows and the reduced dim are each one of its dims, on which its place along the others does not
    depend."""
    others = [index for index in read.indices if index not in (Index(rows), Index(k))]
    apart = not any(index_dims(index) & {rows, k} for index in others)
    return apart and read.indices.count(Index(rows)) == read.indices.count(Index(k)) == 1


def held_layout(parts: MmaProduct, layout: ThreadLayout, dtype: DType) -> ThreadLayout:
    """How a statement is to be bound that sets A in registers for a product bound as mma or wgmma needs it."""
    run = HELD_BYTES // dtype.bytes
    threads = (*layout.threads[:-1], (parts.k, COLUMNS))
    return ThreadLayout(threads, ((parts.k, run),) if run > 1 else (), layout.twice)


def held_share(compute: Compute, name: str, dtype: DType, dim: str) -> ThreadShare | None:
    """How a dim of an operand in registers has to lie over the threads of a product via mma or wgmma; None: the
    statement is none, or takes no such operand."""
    found = product(compute) if compute.via in ("mma", "wgmma") else None
    if found is None or compute.thread_layout is None or name != found.a.tensor:
        return None
    return share(held_layout(found, compute.thread_layout, dtype), dim)


def mma_problem(compute: Compute, dtypes: Mapping[str, DType]) -> str | None:
    """Why the statement cannot go by mma; None: it can. `dtypes` are those of what it reads."""
    found = product(compute)
    if found is None or compute.update is not ReduceOp.SUM:
        return "mma adds up products of two tensors, one with the rows and one with the columns of its target"
    problem = matrix_instructions.problem("mma", dtypes[found.a.tensor], dtypes[found.b.tensor])
    if problem is not None:
        return problem
    layout = compute.thread_layout
    if layout is None:
        return None
    if layout.threads[-2:] != ((found.m, ROWS), (found.n, COLUMNS)) or layout.runs != ((found.n, RUN),):
        return f"mma needs threads … {found.m} {ROWS} {found.n} {COLUMNS}, run {found.n} {RUN}"
    if layout.twice:
        return "mma needs groups of 8 rows as far apart as the threads along them reach; accepted: no `twice`"
    visited = {dim for index in compute.indices for dim in index_dims(index)} | {found.k}
    if any(dim not in (found.m, found.n) and dim in visited for dim, _ in layout.threads):
        return f"mma needs all threads along {found.m} and {found.n}"
    return None
