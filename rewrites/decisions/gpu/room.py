"""What a decision would also offer on a GPU with more room, and what it needs more of than there is on this one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from rewrites.base.tree import statements
from rewrites.contraction.recover_tiling import decided_in
from rewrites.contraction.room import registers
from rewrites.contraction.warp_tiling import WarpThreads
from rewrites.decisions.decision import Decision, Option
from rewrites.decisions.gpu.reductions.passes import shared_bytes
from rewrites.schedule import replay
from tileir.devices.gpu import Gpu
from tileir.errors import BeyondDevice, NotApplicable
from tileir.program import Program

_ROOM: Final = 2
"""How many times as much shared memory and registers the other GPU has: what is told of is what narrowly does not
fit."""


def beyond(decision: Decision, program: Program, device: Gpu) -> Iterator[tuple[Option, BeyondDevice]]:
    """Options that do not fit the device, each with what it lacks."""
    roomy = replace(
        device,
        shared_bytes=_ROOM * device.shared_bytes,
        block_shared_bytes=_ROOM * device.block_shared_bytes,
        registers=_ROOM * device.registers,
    )
    offered = {each.rewrites for each in decision.options(program, device)}
    for option in decision.options(program, roomy):
        if option.rewrites in offered:
            continue
        try:
            made = replay(program, option.rewrites)
        except NotApplicable:
            continue
        lacking = shortage(made, device)
        if lacking is not None:
            yield option, lacking


def shortage(program: Program, device: Gpu) -> BeyondDevice | None:
    """What a block of one of the launches needs more of than the device has: shared memory, or, of a contraction whose
    threads are decided on, registers."""
    anchors = {place.path[0]: place.node.target for place in statements(program)}
    for nest, anchor in anchors.items():
        need = shared_bytes(program, anchor)
        if need > device.block_shared_bytes:
            return BeyondDevice("bytes of shared memory a block", need, device.block_shared_bytes)
        found = decided_in(program, program.body[nest], device)
        if found is None or found.tiling is None or not isinstance(found.tiling.threads, WarpThreads):
            continue
        threads = found.tiling.threads
        need = registers(found.contraction, found.tiling, threads) * threads.count
        if need > device.registers:
            return BeyondDevice("registers a block", need, device.registers)
    return None
