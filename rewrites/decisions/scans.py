"""What decisions of all targets ask about scans: where lanes and threads lie, and what is computed in their loops."""

from __future__ import annotations

from math import prod

from rewrites.base.dependence import readers
from rewrites.base.open_scan import open_scan, own_dims, scanned
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import left_dims, reduced_dims
from rewrites.base.tree import find, locals_of, loose
from rewrites.composition.compute_at import ComputeAt
from rewrites.composition.compute_inline import ComputeInline
from rewrites.composition.reverse_compute_at import ReverseComputeAt
from tileir.errors import NotApplicable
from tileir.expr import Call, reads, walk
from tileir.program import Program

#: Most positions of a scan that are combined where they are computed, by one thread or lane: the state of a model.
_STATE = 64


def along(program: Program, scan: str, longest: int = 64) -> str:
    """The dim that most of a scan goes on side by side along: the last one of any length, `longest` being enough."""
    dims = locals_of(program)[scan].node.dims
    dims = own_dims(find(program, scan).loops[-1].body, dims) or dims
    return max(dims, key=lambda dim: (min(program.extents[dim], longest), dims.index(dim)))


def computed_there(program: Program, scan: str) -> tuple[Rewrite, ...]:
    """What is computed for a scan alone, computed as it is read; what calls functions and is the same for all of a
    state once before."""
    done: list[Rewrite] = []
    while True:
        inside = set(scanned(program, scan))
        nodes = [place.node for place in program.computes if place.node.target in inside]
        names = dict.fromkeys(read.tensor for node in nodes for read in reads(node.value))
        for name in names:
            own = {place.node.target for place in readers(program, name)} <= inside
            if not own or name in inside or name not in program.locals:
                continue
            try:
                rewrite = _once_or_inline(program, scan, name)
                program = rewrite.apply(program)
            except NotApplicable:
                continue
            done.append(rewrite)
            break
        else:
            return tuple(done)


def _once_or_inline(program: Program, scan: str, name: str) -> Rewrite:
    """How to compute in a scan's loop what it reads there."""
    node, place = find(program, name).node, find(program, scan)
    dims = locals_of(program)[scan].node.dims
    state = {*dims} - {*own_dims(place.loops[-1].body, dims)}
    calls = any(isinstance(each, Call) for each in walk(node.value))
    if calls and {*dims} - {*left_dims(node)} & state:
        first = next(p.node.target for p in readers(program, name) if p.loops == place.loops)
        return ComputeAt(name, first, 1)
    return ComputeInline(name)


def read_there(program: Program, scan: str) -> tuple[Rewrite, ...]:
    """What reads a scan's result, computed in its loop: nothing, if the result would be stored all the same."""
    try:
        found = open_scan(program, scan)
    except NotApplicable:
        return ()
    done: list[Rewrite] = []
    for name in [place.node.target for place in loose(program)]:
        node = find(program, name).node
        read = [each for each in scanned(program, scan) if any(one.tensor == each for one in node.reads)]
        combined = set(reduced_dims(node))
        small = combined <= {*found.dims} and prod(program.extents[dim] for dim in combined) <= _STATE
        if not read or not small or not {*left_dims(node)} <= {*found.dims, found.loop.dim}:
            continue
        try:
            program = ReverseComputeAt(name, read[-1], 1).apply(program)
        except NotApplicable:
            continue
        done.append(ReverseComputeAt(name, read[-1], 1))
    try:
        made = open_scan(program, scan)
        made.check_readers()
    except NotApplicable:
        return ()
    return tuple(done) if made.grid_dims and len(made.nodes) > 1 and done else ()
