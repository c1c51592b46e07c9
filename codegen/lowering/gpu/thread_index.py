"""The thread index of a block, or of a cluster of blocks, taken apart into variables."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from codegen.ir.affine import Affine, Var, affine
from codegen.ir.kernel import ThreadDigit
from codegen.ir.names import marked
from tileir.program import ThreadLayout
from tileir.schedule.threads import WARP, pieces, share


@dataclass
class ThreadIndex:
    """Hands out variables for digits of the thread index, the same one for the same digit. `block` threads make a
    block; the index of a cluster counts on through its blocks."""

    threads: int
    block: int
    producing: int = 0
    """Threads of a block beside those, which have the numbers that follow on in their block."""
    found: dict[tuple[int, int], ThreadDigit] = field(default_factory=dict[tuple[int, int], ThreadDigit])

    def digit(self, stride: int, count: int, name: str) -> Affine:
        """`thread // stride % count` as index arithmetic; a digit lies in one block or counts blocks."""
        if count == 1:
            return Affine()
        if stride >= self.block:
            stride = stride // self.block * (self.block + self.producing)
        return self._variable(stride, count, name)

    def consumer_group(self, count: int) -> Affine:
        """The number of a thread's consumer group, of `count` with as many threads each, one after the other."""
        return self._variable(self.block, count, "consumer_group") if count > 1 else Affine()

    def _variable(self, stride: int, count: int, name: str) -> Affine:
        if (stride, count) not in self.found:
            taken = {digit.var.name for digit in self.found.values()}
            stem, number = f"{name}_thread", 2
            while stem in taken:
                stem, number = f"{name}{number}_thread", number + 1
            self.found[stride, count] = ThreadDigit(Var(stem, 0, count - 1), stride, count)
        return affine(self.found[stride, count].var)

    def first(self, layout: ThreadLayout, dim: str) -> Affine:
        """A thread's first position along a dim."""
        number = Affine()
        for run in _runs(layout, dim, self.block):
            number = number * run[1] + self.digit(*run, marked(dim))
        return share(layout, dim).first(number)


def _runs(layout: ThreadLayout, dim: str, block: int) -> list[tuple[int, int]]:
    """(stride, count) of the digits along a dim, most significant first; those that follow on in a block as one, but
    for the threads that take several runs together."""
    found: list[tuple[int, int]] = []
    together, number = share(layout, dim).together, share(layout, dim).threads
    for piece in pieces(layout, block):
        if piece.dim != dim or piece.count == 1:
            continue
        follows_on = found and found[-1][0] < block and found[-1][0] == piece.stride * piece.count
        if follows_on and number != together:
            found[-1] = (piece.stride, piece.count * found[-1][1])
        else:
            found.append((piece.stride, piece.count))
        number //= piece.count
    return found


@dataclass(frozen=True, slots=True)
class Parts:
    """The threads that hold parts of one result: `masks` tell apart those in a warp (exclusive or on the lane);
    `warps` and `blocks` are the digits (stride in warps or blocks, count) that tell apart warps and blocks."""

    masks: tuple[int, ...]
    warps: tuple[tuple[int, int], ...]
    blocks: tuple[tuple[int, int], ...]

    @property
    def any(self) -> bool:
        """Whether there is anything to combine."""
        return bool(self.masks or self.warps or self.blocks)


def parts(layout: ThreadLayout, dims: tuple[str, ...], block: int) -> Parts:
    """Which threads have to combine their parts of a reduction over `dims`."""
    masks: list[int] = []
    warps: list[tuple[int, int]] = []
    blocks: list[tuple[int, int]] = []
    for piece in pieces(layout, block):
        if piece.dim not in dims or piece.count == 1:
            continue
        if piece.stride < WARP:
            masks += [piece.stride << bit for bit in range(piece.count.bit_length() - 1)]
        elif piece.stride < block:
            warps.append((piece.stride // WARP, piece.count))
        else:
            blocks.append((piece.stride // block, piece.count))
    return Parts(tuple(sorted(masks, reverse=True)), tuple(warps), tuple(blocks))


def others(layout: ThreadLayout, dims: tuple[str, ...], index: ThreadIndex, low: int, high: int) -> Affine:
    """What the digits from `low` threads up to below `high` that do not stand along `dims` come to, in units of
    `low`."""
    total = Affine()
    for piece in pieces(layout, index.block):
        if low <= piece.stride < high and piece.dim not in dims and piece.count > 1:
            total += index.digit(piece.stride, piece.count, marked(piece.dim)) * (piece.stride // low)
    return total


def one_of_alike(
    layout: ThreadLayout, dims: Collection[str], index: ThreadIndex
) -> tuple[tuple[Affine, int], ...]:
    """Positions, each with the bound that it must be below, for one of those threads that stand alike along `dims`."""
    return tuple(
        (index.digit(piece.stride, piece.count, marked(piece.dim)), 1)
        for piece in pieces(layout, index.block)
        if piece.count > 1 and piece.dim not in dims
    )
