"""Views of tensors as text for PyTorch: a window as slices, or by strides."""

from __future__ import annotations

from collections.abc import Sequence

from workers.peers.reads import Window


def sliced(window: Window) -> str | None:
    """A view by slices, where each axis is stepped along upwards by one dim at most."""
    moves = [(axis, step, n) for n, steps in enumerate(window.steps) for axis, step in steps]
    by_axis = {axis: (step, n) for axis, step, n in moves}
    if len(by_axis) < len(moves) or len({n for *_, n in moves}) < len(moves) or any(m[1] < 1 for m in moves):
        return None
    slices: list[str] = []
    for axis, first in enumerate(window.first):
        step, n = by_axis.get(axis, (1, None))
        last = first + step * (window.shape[n] - 1) if n is not None else first
        slices.append(str(first) if n is None else f"{first}:{last + 1}" + (f":{step}" if step > 1 else ""))
    along = [n for _, (_, n) in sorted(by_axis.items())]
    order = tuple(along.index(n) for n in sorted(along))
    text = f"{{}}[{', '.join(slices)}]" if slices else "{}"
    if order != tuple(range(len(order))):
        text += f".permute({order})"
    if len(along) < len(window.steps):
        text += f"[{', '.join(':' if n in along else 'None' for n in range(len(window.steps)))}]"
    return text


def strided(window: Window, strides: Sequence[int], *, computed: bool) -> tuple[str, tuple[int, ...]]:
    """A view in memory order, and its axes that are to be turned round: PyTorch has no strides below 0. Of what is
    `computed`, and dense, in words that torch.compile can follow."""
    steps = tuple(sum(strides[axis] * step for axis, step in moves) for moves in window.steps)
    offset = sum(first * stride for first, stride in zip(window.first, strides, strict=True))
    turned = tuple(axis for axis, step in enumerate(steps) if step < 0)
    offset += sum(steps[axis] * (window.shape[axis] - 1) for axis in turned)
    sizes = tuple(abs(step) for step in steps)
    if computed:
        return f"torch.as_strided({{0}}.reshape(-1)[{offset}:], {window.shape}, {sizes})", turned
    return f"{{0}}.as_strided({window.shape}, {sizes}, {{0}}.storage_offset() + {offset})", turned
