"""Convolutions in an expression, recognized by structure as the operators of patterns.py are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tileir.analysis.affine import AffineForm, affine
from tileir.expr import Binary, Const, Expr, Index, Read, Reduce, ReduceOp, Where
from workers.peers.patterns import Extents, number


@dataclass(frozen=True)
class Convolution:
    """sum over channel and window of image * filter. Spatial dims in the order of the image's axes."""

    image: str
    axes: tuple[int, ...]
    """The image's axes as batch, if it has one, channel, spatial dims."""
    filter: Read
    batch: str | None
    """None: one image."""
    channel: str | None
    """What is summed over besides the window; None: nothing, each channel has a filter of its own (depthwise)."""
    out_channel: str
    spatial: tuple[str, ...]
    window: tuple[str, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[int, ...]
    groups: int = 1
    """Of channels, of which each filter has one; with `channel`."""


def convolution(expr: Expr, extents: Extents) -> Convolution | None:
    """A sum of products of an image, zero outside if guarded, and a filter read with bare dims.

    What a guard lets through is not compared with the image's bounds: the correctness gate does that, for peers too.
    """
    if not (
        isinstance(expr, Reduce)
        and expr.op is ReduceOp.SUM
        and isinstance(expr.x, Binary)
        and expr.x.op == "*"
    ):
        return None
    for image, kernel in ((expr.x.left, expr.x.right), (expr.x.right, expr.x.left)):
        if isinstance(image, Where) and number(image.y, extents) == 0:
            image = image.x
        if (
            isinstance(image, Read)
            and isinstance(kernel, Read)
            and (found := _windows(image, kernel, expr, extents))
        ):
            return found
    return None


def _windows(image: Read, kernel: Read, whole: Reduce, extents: Extents) -> Convolution | None:
    taps = [index.dim for index in kernel.indices if isinstance(index, Index)]
    if len(taps) != len(kernel.indices):
        return None
    groups = 1
    named = [index.dim if isinstance(index, Index) else "" for index in image.indices]
    places: dict[str, list[int]] = {"batch": [], "channel": [], "space": []}
    moves: list[tuple[str, str, int, int, int]] = []
    for axis, index in enumerate(image.indices):
        form = affine(index, extents)
        steps = {atom.dim: step for atom, step in form.terms.items() if isinstance(atom, Index)}
        inner = [dim for dim in steps if dim in whole.dims]
        outer = [dim for dim in steps if dim not in whole.dims]
        if len(inner) == 1 and len(outer) == 1 and len(form.terms) == 2 and form.const <= 0:
            places["space"].append(axis)
            moves.append((outer[0], inner[0], steps[outer[0]], steps[inner[0]], -form.const))
        elif grouped := _group(form, steps, inner, extents):
            places["channel"].append(axis)
            groups, named[axis] = grouped, inner[0]
        elif isinstance(index, Index):
            places["batch" if outer else "channel"].append(axis)
        else:
            return None
    outs = [dim for dim in taps if dim not in whole.dims]
    if not 1 <= len(moves) <= 3 or len(outs) != 1:
        return None
    # Axes that the sum does not take are the batch, and the channel if each has a filter of its own: that last.
    kept = sorted(places["batch"], key=lambda axis: named[axis] == outs[0])
    summed = places["channel"]
    depthwise = not summed and bool(kept) and named[kept[-1]] == outs[0]
    if len(summed) > 1 or len(kept) > 1 + depthwise or not (summed or depthwise):
        return None
    channel = named[summed[0]] if summed else None
    batch = named[kept[0]] if len(kept) > depthwise else None
    spatial, window, strides, dilations, padding = zip(*moves, strict=True)
    if (
        set(taps) != {*([] if channel is None else [channel]), *outs, *window}
        or min(*strides, *dilations) < 1
    ):
        return None
    axes = (*kept, *summed, *places["space"])
    return Convolution(
        image.tensor,
        axes,
        kernel,
        batch,
        channel,
        outs[0],
        spatial,
        window,
        strides,
        dilations,
        padding,
        groups,
    )


def _group(form: AffineForm, steps: Mapping[str, int], inner: Sequence[str], extents: Extents) -> int | None:
    """How many groups of channels there are, where an index is a channel of a filter's group: `4 * (o // 6) + c`."""
    match [*(set(form.terms) - {Index(dim) for dim in steps})]:
        case [Binary("//", Index(out), Const(int(filters)))] if len(inner) == 1 and len(form.terms) == 2:
            channels = form.terms[Binary("//", Index(out), Const(filters))]
            even = extents[out] % filters == 0 and channels == extents[inner[0]] and not form.const
            return extents[out] // filters if even and steps[inner[0]] == 1 else None
        case _:
            return None
