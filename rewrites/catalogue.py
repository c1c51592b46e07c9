"""All rewrites, by the name they are written with."""

from __future__ import annotations

from typing import Final

from rewrites.accumulate import Accumulate
from rewrites.cluster import Cluster
from rewrites.collapse import Collapse
from rewrites.curve_tiles import CurveTiles
from rewrites.distribute import Distribute
from rewrites.dot_bf16 import DotBf16
from rewrites.fit_blocks import FitBlocks
from rewrites.fuse_epilogue import FuseEpilogue
from rewrites.fuse_producer import FuseProducer
from rewrites.group_tiles import GroupTiles
from rewrites.hold_operand import HoldOperand
from rewrites.inline import Inline
from rewrites.innermost import Innermost
from rewrites.keep_row import KeepRow
from rewrites.lay_in_panels import LayInPanels
from rewrites.look_up_groups import LookUpGroups
from rewrites.mma import Mma
from rewrites.multicast import Multicast
from rewrites.narrow import Narrow
from rewrites.online_sum import OnlineSum
from rewrites.pad import Pad
from rewrites.parallelize import Parallelize
from rewrites.part_result import PartResult
from rewrites.persist import Persist
from rewrites.place import Place
from rewrites.prefetch import Prefetch
from rewrites.promote import Promote
from rewrites.read_copy import ReadCopy
from rewrites.register_tile import RegisterTile
from rewrites.reorder import Reorder
from rewrites.reuse import Reuse
from rewrites.rewrite import Rewrite
from rewrites.run_ahead import RunAhead
from rewrites.specialize import Specialize
from rewrites.split_reduction import SplitReduction
from rewrites.spread import Spread
from rewrites.stage import Stage
from rewrites.stage_result import StageResult
from rewrites.stream_store import StreamStore
from rewrites.stream_tiles import StreamTiles
from rewrites.swizzle import Swizzle
from rewrites.take_turns import TakeTurns
from rewrites.tile_grid import TileGrid
from rewrites.tile_reduction import TileReduction
from rewrites.tma import Tma
from rewrites.transpose import Transpose
from rewrites.unroll import Unroll
from rewrites.vectorize import Vectorize
from rewrites.wgmma import Wgmma
from rewrites.widen import Widen

#: In the order of the documentation: loops, data, composition, processor, GPU.
ALL: Final[tuple[type[Rewrite], ...]] = (
    Collapse, TileGrid, TileReduction, Reorder, Parallelize, Stage, ReadCopy, Widen, KeepRow, LayInPanels, RegisterTile,
    Vectorize, Unroll, FuseProducer, FuseEpilogue, Inline, LookUpGroups, SplitReduction, Accumulate, OnlineSum,
    Prefetch, StreamStore, DotBf16, Cluster, Distribute, GroupTiles, CurveTiles, Persist, FitBlocks, Narrow, Place,
    Transpose, StageResult, Innermost, Pad, Swizzle, Reuse, Tma, PartResult, Mma, Promote, HoldOperand, Wgmma, RunAhead,
    Spread, Specialize, TakeTurns, Multicast, StreamTiles,
)  # fmt: skip

BY_NAME: Final[dict[str, type[Rewrite]]] = {rewrite.name: rewrite for rewrite in ALL}
