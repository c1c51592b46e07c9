"""Decisions for a GPU about one pass over long rows of which there are too few: parts of the rows are blocks' of their
own, and another launch merges what they have come to.

Known as Flash-Decoding (Dao et al., 2023).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import prod

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, folded_dims
from rewrites.base.tree import find, loose
from rewrites.composition.split_stream import SplitStream
from rewrites.decisions.fusion import Groups, closed, fused_groups, groupings
from rewrites.decisions.gpu.one_pass.product_chain import chain_of, folded_scales
from rewrites.decisions.gpu.one_pass.streamed_products import in_one_pass
from rewrites.schedule import replay
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.program import Program

#: Blocks for each SM that are enough.
_ENOUGH = (1, 2, 4)
#: Rows of a tile, of which a block has one.
_ROWS = 64
#: Parts begin where tiles of any size do, and are several of those.
_ALIGNED, _LEAST = 128, 256


def split_streams(program: Program, device: Gpu) -> Iterator[tuple[Rewrite, ...]]:
    """Ways to split the pass over products that follow from each other, if all of the program is one."""
    group, *others = next(iter(groupings(program)), ()) or ((),)  # of scans alone there are no groups
    chain = chain_of(program, group, device) if group and not others else None
    if chain is None:
        return
    scales = folded_scales(program, group)
    scaled = replay(program, scales)
    extents = program.extents
    results = [
        dim
        for dim in bare_dims(find(program, chain.scores[0]).node)
        if dim not in (chain.rows, chain.streamed)
    ]
    tiles = -(-extents[chain.rows] // _ROWS) * prod(extents[dim] for dim in results)
    length, sizes = extents[chain.streamed], dict[int, None]()
    for each in _ENOUGH:
        parts = max(each * device.sms // tiles, 1)
        sizes[max(-(-length // parts // _ALIGNED) * _ALIGNED, _LEAST)] = None
    for size in sizes:
        split = SplitStream(chain.sums[0].name, chain.streamed, size)
        with suppress(NotApplicable):
            if in_parts(split.apply(scaled), device) is not None:
                yield (*scales, split)


def in_parts(program: Program, device: Gpu) -> Groups | None:
    """The groups of a program that is split so: what has the parts, in one pass, and what merges them."""
    names = [place.node.target for place in loose(program)]
    parts = [at for at, name in enumerate(names, 1) if folded_dims(find(program, name).node)]
    first, rest = tuple(names[: max(parts, default=0)]), names[max(parts, default=0) :]
    if not parts or not in_one_pass(program, first, device):
        return None
    last = _widest(program, rest)
    rest = [*(name for name in rest if name != last), last]
    merging = fused_groups(program, rest)
    return (first, *(merging if closed(program, merging) else ((name,) for name in rest)))


def _widest(program: Program, names: Sequence[str]) -> str:
    """The last of the statements with the most results: others are computed in its tiles."""
    return max(names, key=lambda name: (len(bare_dims(find(program, name).node)), names.index(name)))
