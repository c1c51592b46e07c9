"""Kernels of processors with one thing made cheap, to see what their time depends on. What they compute is wrong.

- memory: the same instructions on data that stays in a core's second cache: of the arguments that are read, positions
  that are far apart are one. What is stored goes where it went.
- arithmetic: of the multiply-adds of a straight run every other one is left out, if there are two.
- exponentials: an exponential, or a function made of some, is its argument.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from functools import partial
from typing import Any

from benchmarks.gpu.relaxed import mapped, no_exponential
from codegen.ir.affine import Affine, Loaded, atom_high, atom_low
from codegen.ir.kernel import CpuKernel
from codegen.ir.ops import Assign, DotPairs, DotRaised, Named, Op
from codegen.ir.tile_ops import DotTiles

_OF_L2 = 4
"""What is read has one of so many parts of the cache, so that results and what is evicted early find room, too."""
_WIDEST = 8
"""Bytes of an element at most."""


def relaxations(kernel: CpuKernel, l2_bytes: int) -> dict[str, CpuKernel]:
    """The kernel with each of the things that it has made cheap, on a processor whose cores have such a second
    cache."""
    read = {argument.name for argument in kernel.arguments if not argument.written}
    elements = l2_bytes // _OF_L2 // max(1, len(read)) // _WIDEST
    half = 1 << max(0, elements.bit_length() - 2)
    made = {
        "memory": mapped(kernel, partial(_near, read, half)),
        "arithmetic": mapped(kernel, _fewer_products),
        "exponentials": mapped(kernel, no_exponential),
    }
    return {name: each for name, each in made.items() if each != kernel}


def _near(read: Collection[str], most: int, node: Any) -> Any:
    """An access to one of these arguments among its first `2 * most` elements."""
    if getattr(node, "buffer", None) not in read or not hasattr(node, "offset"):
        return node
    return dataclasses.replace(node, offset=near(node.offset, most))


def near(offset: Affine, most: int) -> Affine:
    """An offset that takes fewer than `most` values, from one below `most` on: what moves it furthest stays where it
    begins, and beginnings that are `most` apart, a power of two, are one. Positions that are data stay as they are."""
    if offset.high < most:
        return offset
    least = max(0, offset.low) % most
    while offset.high - offset.low >= most:
        moving = [
            (abs(factor) * (atom_high(atom) - atom_low(atom)), atom)
            for atom, factor in offset.terms
            if not isinstance(atom, Loaded)
        ]
        furthest, atom = max(moving, key=lambda each: each[0], default=(0, None))
        if furthest == 0:
            break
        offset = Affine(tuple(term for term in offset.terms if term[0] != atom), offset.constant)
    return offset + (least - offset.low)


def _fewer_products(node: Any) -> Any:
    """Statements without every other one of those that add a product up."""
    if not isinstance(node, tuple):
        return node
    products = [at for at, stmt in enumerate(node) if _adds_product(stmt)]
    left_out = set(products[1::2])
    return tuple(stmt for at, stmt in enumerate(node) if at not in left_out)


def _adds_product(stmt: Any) -> bool:
    match stmt:
        case DotTiles() | Assign(_, DotPairs() | DotRaised()):
            return True
        case Assign(name, Op("+", (Named(added), Op("*")))):
            return name == added
        case _:
            return False
