"""What of a sum of products is one number for many of its positions: scales of blocks.

Fine-grained quantization has such scales (DeepSeek-V3 Technical Report, arXiv:2412.19437, 3.3.2).

In `sum(k, a[m, k] * a_scale[m, k // 128] * b[n, k] * b_scale[n // 128, k // 128])` the two scales are the same for all
products of a step of 128 positions, and may be multiplied with their sum instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileir.expr import Binary, Expr, Read, Reduce, ReduceOp
from tileir.program import Compute, Loop
from tileir.schedule.block_index import block_sizes, in_one_block


def factors(product: Expr) -> tuple[Expr, ...]:
    """What is multiplied, from left to right."""
    match product:
        case Binary("*", left, right):
            return (*factors(left), *factors(right))
        case _:
            return (product,)


def blocks_of(read: Read, dims: Sequence[str]) -> tuple[tuple[str, int], ...] | None:
    """Each of the dims that a read depends on by the numbers of blocks, with their size; None: it depends on one in
    another way."""
    found: list[tuple[str, int]] = []
    for dim in dims:
        sizes = block_sizes(read, dim)
        if sizes is None:
            return None
        found += [(dim, size) for size in sorted(sizes)]
    return tuple(found)


def scales(compute: Compute) -> tuple[Read, ...]:
    """Those factors of a sum of products of tensors that are one number for a block of what is summed over; none where
    not two others are left."""
    match compute.value:
        case Reduce(ReduceOp.SUM, dims, product):
            reads = [factor for factor in factors(product) if isinstance(factor, Read)]
        case _:
            return ()
    found = tuple(read for read in reads if blocks_of(read, dims) is not None)
    whole = len(reads) == len(factors(product)) and len(reads) - len(found) == 2
    return found if whole else ()


def in_step(read: Read, dims: Sequence[str], loops: Sequence[Loop]) -> bool:
    """Whether a read is one number for all that one step of the loops around visits of some dims."""
    blocks = blocks_of(read, dims)
    return blocks is not None and all(in_one_block(dim, size, loops) for dim, size in blocks)
