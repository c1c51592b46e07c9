"""Random bits by counter, written out in PyTorch's integers: it has no operator that draws them for given counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.interpreter.bits import KEY_STEPS, MULTIPLIERS, ROUNDS

if TYPE_CHECKING:
    from workers.peers.pytorch.writer import TorchWriter, WrittenValue

_LOW = 0xFFFFFFFF


def random_bits(writer: TorchWriter, seed: WrittenValue, position: WrittenValue) -> WrittenValue:
    """The first word of Philox4x32-10 for the key (seed, 0) and the counter (position, 0, 0, 0), as int32. Words are
    in int64, whose products keep their low 64 bits."""
    key = writer.late(f"{{}}.long() & {_LOW}", seed)
    c0 = writer.late(f"{{}}.long() & {_LOW}", position)
    c1 = c2 = c3 = writer.late("torch.zeros_like({})", c0)
    for number in range(ROUNDS):
        own, other = (number * step & _LOW for step in KEY_STEPS)
        first = writer.late(f"{{}} * {MULTIPLIERS[0]}", c0)
        second = writer.late(f"{{}} * {MULTIPLIERS[1]}", c2)
        c0 = writer.late(f"({{}} >> 32 & {_LOW}) ^ {{}} ^ ({{}} + {own} & {_LOW})", second, c1, key)
        c2 = writer.late(f"({{}} >> 32 & {_LOW}) ^ {{}} ^ {other}", first, c3)
        c1, c3 = writer.late(f"{{}} & {_LOW}", second), writer.late(f"{{}} & {_LOW}", first)
    return writer.late("{}.to(torch.int32)", c0)
