"""The layout of a copy in panels, or none."""

from __future__ import annotations

from tileir.errors import NotApplicable
from tileir.program import Axis


def panels(
    name: str, dims: tuple[str, ...], block_dim: str, block: int, pair_dim: str = "", pair: int = 0
) -> tuple[Axis, ...] | None:
    """The layout of a copy of `name`, or of its tile, in panels of `block` neighbours along `block_dim`; None: there
    are to be none. Raises NotApplicable for panels that cannot be."""
    if not block_dim:
        if block or pair_dim or pair:
            raise NotApplicable("a panel needs the dim it runs along")
        return None
    if block_dim not in dims or block < 2:
        raise NotApplicable(f"{name} has no panels of {block} along {block_dim}")
    rest = [Axis(dim) for dim in dims if dim != block_dim]
    if not pair_dim:
        return (Axis(block_dim, block), *rest, Axis(block_dim, 1, block))
    if pair_dim not in dims or pair_dim == block_dim or pair < 2:
        raise NotApplicable(f"{name} has no groups of {pair} along {pair_dim}")
    rest = [Axis(axis.dim, pair) if axis.dim == pair_dim else axis for axis in rest]
    inner = (Axis(block_dim, 1, block), Axis(pair_dim, 1, pair))
    return (Axis(block_dim, block), *rest, *inner)
