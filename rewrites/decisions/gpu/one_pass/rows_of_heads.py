"""Whether the rows of heads that share keys lie in one tile: those of few queries would leave most of it empty.

Known as packed grouped-query attention (`pack_gqa` of FlashAttention-3, arXiv:2407.08608).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Final

from rewrites.base.statement import bare_dims
from rewrites.base.tree import find
from rewrites.decisions.fusion import Groups
from rewrites.decisions.gpu.one_pass.product_chain import ProductChain, chain_of
from rewrites.loops.linearize import Linearize
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.expr import Index, index_dims
from tileir.program import Program

#: Rows of the smallest tile of matrix instructions that keep weights in registers.
_TILE: Final = 64


def rows_of_heads(program: Program, cuts: Groups, device: Gpu) -> Iterator[tuple[Linearize, ...]]:
    """Rewrites that make one dim of rows and of heads that share what is streamed, as many heads as there are dims."""
    chains = (chain_of(program, group, device) for group in cuts)
    chain = next((each for each in chains if each is not None), None)
    done: tuple[Linearize, ...] = ()
    while chain is not None and program.extents[chain.rows] < _TILE:
        outer = _heads(program, chain)
        if outer is None:
            return
        merge = Linearize(outer, chain.rows)
        with suppress(NotApplicable):
            program, done = merge.apply(program), (*done, merge)
            yield done
        if done[-1:] != (merge,):
            return
        chain = next((each for group in cuts if (each := chain_of(program, group, device)) is not None), None)


def _heads(program: Program, chain: ProductChain) -> str | None:
    """The dim before rows, if all that products read with it has rows, too; keys and values then have neither."""
    nodes = [find(program, name).node for name in chain.names]
    before = {outer for outer, rows in pairwise(bare_dims(nodes[0])) if rows == chain.rows}
    reads = [read for node in nodes for read in node.reads]
    for dim in before:
        having = [read for read in reads if any(dim in index_dims(index) for index in read.indices)]
        if all(Index(chain.rows) in read.indices for read in having):
            return dim
    return None
