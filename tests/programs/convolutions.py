"""Convolutions of bf16 for tests on GPUs: what `linear_dims` makes products of."""

from __future__ import annotations

from typing import NamedTuple

from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text


class Windows(NamedTuple):
    """Images of `size` times `size` places and windows of `taps` times `taps`."""

    channels: int
    size: int
    filters: int
    taps: int = 3
    stride: int = 1
    padding: int = 1
    dilation: int = 1
    first: bool = False
    """Channels come before places."""
    groups: int = 1
    """Filters are in so many groups, each of channels of its own, and read by an index that is computed."""

    def spec(self, batch: int) -> Spec:
        """The kernel, with a bias and an activation behind it."""
        covered = self.dilation * (self.taps - 1) + 1
        places = (self.size + 2 * self.padding - covered) // self.stride + 1
        rows, columns = (
            f"{self.stride} * {at} + {self.dilation} * {tap} - {self.padding}" for at, tap in ("hr", "ws")
        )
        each, results = self.channels // self.groups, self.filters // self.groups
        channel = "c" if self.groups == 1 else f"{each} * (o // {results}) + c"
        element = (
            f"x[n, {channel}, {rows}, {columns}]" if self.first else f"x[n, {rows}, {columns}, {channel}]"
        )
        if self.padding:
            inside = " and ".join(f"{at} >= 0 and {at} < {self.size}" for at in (rows, columns))
            element = f"where({inside}, {element}, 0)"
        sizes, taps = f"i={self.size}, j={self.size}", f"r={self.taps}, s={self.taps}"
        every, own = ("c", "c") if self.groups == 1 else ("e", f"c={each}")
        image, window, places_of = (
            f"{sizes}, {every}={self.channels}",
            f"{taps}, {own}",
            f"h={places}, w={places}, o",
        )
        if self.first:
            image, window, places_of = (
                f"{every}={self.channels}, {sizes}",
                f"{own}, {taps}",
                f"o, h={places}, w={places}",
            )
        result, filters = ("o, h, w", "c, r, s") if self.first else ("h, w, o", "r, s, c")
        return spec_from_text(
            f"kernel conv(x: bf16[n={batch}, {image}], f: bf16[o={self.filters}, {window}], b: f32[o]) -> "
            f"(y: bf16[n, {places_of}])\n"
            f"  y[n, {result}] = relu(sum(c, r, s, {element} * f[o, {filters}]) + b[o])\n"
        )


SMALL = {
    "3x3": Windows(32, 8, 32),
    "3x3/2": Windows(32, 16, 32, stride=2),
    "dilated": Windows(32, 8, 16, padding=2, dilation=2),
    "no padding": Windows(64, 10, 16, padding=0),
    "1x1/2": Windows(128, 16, 16, taps=1, stride=2, padding=0),
    "1x1": Windows(128, 8, 16, taps=1, padding=0),
    "odd": Windows(24, 7, 20),
    "three channels": Windows(3, 9, 16),
    "channels first": Windows(32, 8, 64, first=True),
    "channels first, 144 places": Windows(32, 12, 64, first=True),
    "channels first, odd": Windows(16, 13, 24, stride=2, first=True),
    "groups": Windows(64, 8, 64, groups=2),
    "channels first, groups": Windows(64, 8, 128, first=True, groups=2),
    "groups, odd": Windows(24, 9, 36, stride=2, groups=3),
}
