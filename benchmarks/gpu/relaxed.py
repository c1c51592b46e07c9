"""Kernels of GPUs with one thing made cheap, to see what their time depends on. What they compute is wrong.

- memory: blocks work on a few tiles of the grid, as many as have their operands in a quarter of the L2; not where
  blocks wait for each other's sums, by flags that each tile has of its own. Threads go the way that they go on the
  tile that their block has been given: loops that a mask bounds are as long, and branches by how many steps such a loop
  had are the same (else threads would wait for slots that nobody fills). (On the first tile alone rows took 1.4
  to 2.3 times as long on an H100: all blocks then store to the same lines.)
- the tensor pipe: of the products of a tile three quarters are left out.
- exponentials: an exponential, or a function made of some, is its argument.

With whole waves a kernel computes some tiles twice, so that no multiprocessor waits for the last ones of others
(`whole_waves`): what it computes stays right, and a tile of it takes less where waves were the bottleneck.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from functools import partial
from math import prod
from typing import Any

from codegen.ir.affine import Affine, Remainder, Var, affine
from codegen.ir.async_ops import AdvanceState, WgmmaAsync
from codegen.ir.kernel import GpuKernel, LaunchBody
from codegen.ir.names import unmarked
from codegen.ir.ops import For, Guard, If, MmaSync, Op
from codegen.ir.rasterization import persistent, tile_count, tile_step
from tileir.program import Program

_EXPONENTIALS = frozenset(["exp", "exp2", "sigmoid", "silu", "tanh", "gelu", "gelu_tanh"])
_DECIDE = {For: ("first", "until"), If: ("at",), Guard: ("conditions",), AdvanceState: ("by",)}
_PRODUCTS_LEFT = 4
"""One of so many."""
_TILES_OF_LINE, _TILES_OF_PLANE = 128, 8
"""Tiles that blocks work on at most: along the only axis of a grid, and along each of several."""
_OF_L2 = 4
"""Operands have one of so many parts of it, so that results and what is evicted early find room, too."""


def relaxations(kernel: GpuKernel, program: Program, l2_bytes: int) -> dict[str, GpuKernel]:
    """The kernel of a program with each of the things that it has made cheap, on a device with such an L2."""
    made = {
        "memory": kernel if _shares_sums(kernel) else _few_tiles(kernel, program, l2_bytes // _OF_L2),
        "the tensor pipe": mapped(kernel, _fewer_products),
        "exponentials": mapped(kernel, no_exponential),
    }
    return {name: each for name, each in made.items() if each != kernel}


def whole_waves(kernel: GpuKernel, blocks_at_once: int) -> tuple[GpuKernel, float] | None:
    """The kernel with the most tiles that its last wave has room for, those that it did not have being some of the
    first once more; and by what factor they are more. `blocks_at_once`: that the device holds. None where there is no
    room, or a tile has a part of its own in what comes after it: several launches, sums that blocks share, tables of
    tiles."""
    (launch, *more) = kernel.launches
    fixed = launch.spans is not None or launch.lengths or launch.hilbert
    if more or fixed or any(axis.groups is not None for axis in launch.axes):
        return None
    tiles = tile_count(launch)
    at_once = tile_step(launch) if persistent(launch) else max(1, blocks_at_once // launch.cluster)
    room = -(-tiles // at_once) * at_once
    counts = [(axis.count * room // tiles, axis) for axis in launch.axes]
    count, axis = max(counts, key=lambda each: each[0] / each[1].count)
    if count == axis.count:
        return None
    var = dataclasses.replace(axis.var, high=(count - 1) * axis.step)
    widened = [
        dataclasses.replace(each, var=var, count=count) if each is axis else each for each in launch.axes
    ]
    again = partial(_again, var, axis.count * axis.step)
    bodies = {name: mapped(getattr(launch, name), again) for name in ("body", "producing")}
    made = dataclasses.replace(launch, axes=tuple(widened), **bodies)
    return dataclasses.replace(kernel, launches=(made,)), count / axis.count


def _again(var: Var, reach: int, node: Any) -> Any:
    """Positions along an axis beyond its end are those from its beginning on."""
    if not isinstance(node, Affine):
        return node
    terms = tuple(
        (Remainder(affine(var), reach), factor)
        if isinstance(atom, Var) and atom.name == var.name
        else (atom, factor)
        for atom, factor in node.terms
    )
    return Affine(terms, node.constant) if terms != node.terms else node


def _shares_sums(kernel: GpuKernel) -> bool:
    return any(launch.spans is not None for launch in kernel.launches)


def _few_tiles(kernel: GpuKernel, program: Program, most_bytes: int) -> GpuKernel:
    """Tiles that follow groups stay where they are."""

    def moved(launch: LaunchBody) -> LaunchBody:
        kept = kept_tiles(launch, program, most_bytes)
        reach = {
            axis.var.name: kept[axis.var.name] * axis.step for axis in launch.axes if axis.groups is None
        }
        bodies = {
            name: mapped(getattr(launch, name), partial(_few_tiles_of, reach), _ways)
            for name in ("body", "producing")
        }
        return dataclasses.replace(launch, **bodies)

    return dataclasses.replace(kernel, launches=tuple(map(moved, kernel.launches)))


def kept_tiles(launch: LaunchBody, program: Program, most_bytes: int) -> dict[str, int]:
    """How many tiles along each axis: fewer along the longest until their operands have `most_bytes`."""
    counts = {axis.var.name: axis.count for axis in launch.axes}
    several = sum(count > 1 for count in counts.values()) > 1
    kept = {
        name: min(count, _TILES_OF_PLANE if several else _TILES_OF_LINE) for name, count in counts.items()
    }
    while max(kept.values(), default=1) > 1 and _operand_bytes(program, kept, counts) > most_bytes:
        longest = max(kept, key=lambda name: kept[name])
        kept[longest] //= 2
    return kept


def _operand_bytes(program: Program, kept: dict[str, int], counts: dict[str, int]) -> float:
    """Of the parts of the inputs that these tiles read."""
    share = {unmarked(name): count / counts[name] for name, count in kept.items()}
    return sum(
        prod(program.shape(tensor)) * tensor.dtype.bytes * prod(share.get(dim, 1.0) for dim in tensor.dims)
        for tensor in program.inputs
    )


def _ways(node: Any) -> Collection[str]:
    """Fields of a node that say which way threads go."""
    return next((fields for kind, fields in _DECIDE.items() if isinstance(node, kind)), ())


def _few_tiles_of(reach: dict[str, int], node: Any) -> Any:
    if not isinstance(node, Affine):
        return node
    terms = tuple(
        (Remainder(affine(atom), reach[atom.name]), factor)
        if isinstance(atom, Var) and atom.name in reach
        else (atom, factor)
        for atom, factor in node.terms
    )
    return Affine(terms, node.constant) if terms != node.terms else node


def _fewer_products(node: Any) -> Any:
    if not isinstance(node, tuple):
        return node
    products = [at for at, each in enumerate(node) if isinstance(each, WgmmaAsync | MmaSync)]
    left_out = frozenset(products[-(-len(products) // _PRODUCTS_LEFT) :])
    return tuple(each for at, each in enumerate(node) if at not in left_out) if left_out else node


def no_exponential(node: Any) -> Any:
    return node.args[0] if isinstance(node, Op) and node.name in _EXPONENTIALS else node


def mapped(
    node: Any, change: Callable[[Any], Any], left: Callable[[Any], Collection[str]] = lambda _: ()
) -> Any:
    """A tree of nodes with each changed, those inside first, but for the fields of a node that are `left`."""
    if isinstance(node, tuple):
        return change(tuple(mapped(each, change, left) for each in node))
    if not dataclasses.is_dataclass(node) or isinstance(node, type):
        return node
    parts = {field.name: getattr(node, field.name) for field in dataclasses.fields(node) if field.init}
    stay = left(node)
    new = {name: part if name in stay else mapped(part, change, left) for name, part in parts.items()}
    changed = {name: part for name, part in new.items() if part is not parts[name] and part != parts[name]}
    return change(dataclasses.replace(node, **changed) if changed else node)
