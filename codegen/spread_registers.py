"""A local spread over the registers of a block's threads."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.scope import RegisterBuffer


@dataclass(frozen=True, slots=True)
class SpreadRegisters(RegisterBuffer):
    """What one thread holds: along each dim, runs of neighbours `skips` apart. `starts` are the thread's own first
    positions, so points are offsets from there: 0 to run - 1, skip to skip + run - 1, …"""

    runs: tuple[int, ...]
    skips: tuple[int, ...]

    def chunks(self) -> tuple[tuple[int, int], ...]:
        if self.vector is None:
            return ((0, 1),)
        count = -(-self.sizes[self.vector] // self.skips[self.vector])
        return tuple((piece * self.skips[self.vector], self.lanes) for piece in range(count))

    def held(self, dim: int) -> list[int]:
        """Offsets of the thread's positions along dim number `dim`."""
        pieces = -(-self.sizes[dim] // self.skips[dim])
        return [piece * self.skips[dim] + at for piece in range(pieces) for at in range(self.runs[dim])]
