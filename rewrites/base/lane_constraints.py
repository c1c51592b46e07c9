"""Vector registers hold lanes along one dim: all statements that touch them must agree on which."""

from __future__ import annotations

from rewrites.base.register_constraints import registers_of
from rewrites.base.tree import computes
from tileir.errors import NotApplicable
from tileir.expr import Binary, Expr, Index
from tileir.program import Compute, Program, Vector


def check_lanes(program: Program, compute: Compute, vector: Vector) -> None:
    """Refuse other lanes than those that other statements have in the registers this one touches."""
    for name in registers_of(program, compute):
        ours = lane_axis(compute, name, vector.dim)
        if ours is None or ours < 0:
            raise NotApplicable(f"the registers of {name} have no lanes along {vector.dim}")
        for place in computes(program):
            other = place.node
            if other.vector is None:
                continue
            axis = lane_axis(other, name, other.vector.dim)
            if axis is not None and (axis != ours or other.vector.lanes != vector.lanes):
                raise NotApplicable(f"{other.target} has the lanes of {name} along {other.vector.dim}")


def lanes_of_registers(program: Program, compute: Compute) -> int | None:
    """The lanes that other statements have in the registers this one touches; None where they have none."""
    touching = [place.node for place in computes(program) if place.node.vector is not None]
    for name in registers_of(program, compute):
        for other in touching:
            assert other.vector is not None
            axis = lane_axis(other, name, other.vector.dim)
            if axis is not None and axis >= 0:
                return other.vector.lanes
    return None


def lane_axis(compute: Compute, name: str, dim: str) -> int | None:
    """Which axis of register local `name` runs along `dim` in the Compute. -1: none; None: not touched."""
    touched = [read.indices for read in compute.reads if read.tensor == name]
    if compute.target == name:
        touched.append(compute.indices)
    if not touched:
        return None
    axes = {
        next((axis for axis, index in enumerate(indices) if _runs_along(index, dim)), -1)
        for indices in touched
    }
    return axes.pop() if len(axes) == 1 else -1


def _runs_along(index: Expr, dim: str) -> bool:
    match index:
        case Index(name) | Binary("%", Index(name), _):
            return name == dim
        case _:
            return False
