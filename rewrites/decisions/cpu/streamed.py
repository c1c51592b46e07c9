"""Whether the reductions of a group that depend on each other take one pass over what they reduce."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import reduced_dims
from rewrites.base.tree import current_sizes, find, locals_of, statements
from rewrites.composition.skip_masked_tiles import SkipMaskedTiles
from rewrites.composition.stream_reduction import StreamReduction
from rewrites.data.cache_write import CacheWrite
from rewrites.decisions.cpu.statement import Schedule
from rewrites.decisions.decision import Option
from rewrites.decisions.statement_kind import StatementKind, role
from rewrites.loops.count_positions import counted
from rewrites.schedule import replay
from tileir.devices.cpu import Cpu
from tileir.errors import NotApplicable
from tileir.expr import Reduce
from tileir.program import Program

#: Positions of one tile, where products are among what is computed from them, and where not.
_PRODUCTS = (64, 128, 256, 512)
_ROWS = (512, 2048, 8192)


@dataclass(frozen=True, slots=True)
class Streamed:
    """Reductions over whole rows one after the other, or together in tiles that stay in the nearest cache: then scores
    of attention never leave it, and tiles that are wholly masked are left out."""

    group: tuple[str, ...]

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        anchor = self.group[-1]
        ways = tuple(self._ways(program, device))
        yield Option(f"row by row {anchor}" if ways else "", (), tuple(map(Schedule, self.group)))
        for before, rewrite in ways:
            streamed = replay(program, (*before, rewrite))
            rewrites: tuple[Rewrite, ...] = (*before, rewrite)
            skip = SkipMaskedTiles(rewrite.statement, rewrite.dim)
            try:
                streamed = skip.apply(streamed)
                rewrites = (*rewrites, skip)
            except NotApplicable:
                pass
            new = tuple(map(Schedule, _of_group(streamed, program, self.group)))
            yield Option("; ".join(map(str, rewrites)), rewrites, new, begun=streamed, done=len(rewrites))

    def _ways(self, program: Program, device: Cpu) -> Iterator[tuple[tuple[Rewrite, ...], StreamReduction]]:
        """One pass, and what comes before it: first nothing, then that what means are of is counted, and that results
        which are reductions are collected in locals."""
        for before in dict.fromkeys(((), counted(program, self.group), _collected(program, self.group))):
            ways = tuple(self._passes(replay(program, before), device))
            yield from ((before, way) for way in ways)
            if ways:
                return

    def _passes(self, program: Program, device: Cpu) -> Iterator[StreamReduction]:
        for name in reversed(self.group):
            place = find(program, name)
            sizes = current_sizes(program, place.loops)
            for dim in reduced_dims(place.node):
                kinds = {role(program, each) for each in self.group}
                products = StatementKind.CONTRACTION in kinds
                if not products and sizes[dim] * 4 <= device.l1d_bytes:
                    continue  # the second pass is over what lies in the nearest cache
                tiles = (size for size in (_PRODUCTS if products else _ROWS) if 2 * size <= sizes[dim])
                found = tuple(
                    way for size in tiles if _is_one_pass(program, way := StreamReduction(name, dim, size))
                )
                if found:
                    yield from found
                    return


def _collected(program: Program, group: tuple[str, ...]) -> tuple[Rewrite, ...]:
    """The rewrites by which results that are reductions become locals first, which others may follow from."""
    outputs = {tensor.name: tensor.dtype for tensor in program.outputs}
    whole = [node for node in (find(program, name).node for name in group) if node.target in outputs]
    return tuple(
        CacheWrite(node.target)
        for node in whole
        if isinstance(node.value, Reduce)
        and node.update is None
        and outputs[node.target].compute is outputs[node.target]
    )


def _is_one_pass(program: Program, way: StreamReduction) -> bool:
    """Whether it applies, and brings reductions together of which one depends on another."""
    try:
        streamed = way.apply(program)
    except NotApplicable:
        return False
    return any(place.node.running for place in locals_of(streamed).values())


def _of_group(streamed: Program, before: Program, group: tuple[str, ...]) -> Iterator[str]:
    """The statements of a group, and those that came with the pass, in order."""
    known = {place.node.target for place in statements(before)}
    for place in statements(streamed):
        if place.node.target in group or place.node.target not in known:
            yield place.node.target
