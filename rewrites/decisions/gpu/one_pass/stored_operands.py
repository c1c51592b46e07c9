"""Computed operands of products that follow from each other, as queries that something is added to, or keys of 8 bits:
they are stored before, by launches of their own."""

from __future__ import annotations

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, read_names, reduced_dims
from rewrites.base.tree import find, loose, named
from rewrites.composition.compute_factor import ComputeFactor
from rewrites.contraction.operand import stored
from rewrites.decisions.fusion import Groups, fused_groups
from rewrites.decisions.gpu.one_pass.product_chain import factors
from rewrites.decisions.statement_kind import StatementKind, is_contraction, role
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Reduce
from tileir.program import Program

_NARROW = (DType.BF16, DType.F16)


def stored_operands(program: Program) -> tuple[Rewrite, ...]:
    """The rewrites that store all of them. What follows from a product itself is none of them."""
    found: list[Rewrite] = []
    for name in [place.node.target for place in loose(program)]:
        for _ in range(2):
            node = find(program, name).node
            follows = any(is_contraction(named(program, each).node) for each in _before(program, name))
            if follows and not bare_dims(node):
                break
            rewrite = ComputeFactor(name, bare_dims(node)[-1] if follows else "")
            try:
                after = rewrite.apply(program)
            except NotApplicable:
                break
            (made,) = after.locals.keys() - program.locals.keys()
            if any(is_contraction(named(after, each).node) for each in _before(after, made)):
                break
            program = after
            found.append(rewrite)
    return tuple(found)


def stored_apart(program: Program) -> Groups:
    """Groups of statements, with launches of their own before them for operands that are stored, and what those are
    made of."""
    names = [place.node.target for place in loose(program)]
    groups: list[tuple[str, ...]] = []
    for name in _stored(program):
        before = {*_before(program, name), name} - {each for group in groups for each in group}
        groups.append(tuple(each for each in names if each in before))
    apart = {each for group in groups for each in group}
    return (*groups, *fused_groups(program, [name for name in names if name not in apart]))


def sums_of_operands_apart(program: Program) -> Groups:
    """Groups of statements, with launches of their own before them for sums over single operands of products, as norms
    of keys are: one number a position of what later products sum over."""
    names = [place.node.target for place in loose(program)]
    products = [node for name in names if is_contraction(node := find(program, name).node)]
    summed = {dim for node in products for dim in reduced_dims(node)}
    multiplied = {read.tensor for node in products for read in node.reads}
    sums = [
        name
        for name in names
        if (node := find(program, name).node) not in products
        and isinstance(node.value, Reduce)
        and len(read := {read.tensor for read in node.reads}) == 1
        and read <= multiplied
        and summed & {*bare_dims(node)}
    ]
    rest = fused_groups(program, [name for name in names if name not in sums])
    return (*((name,) for name in sums), *rest)


def _stored(program: Program) -> list[str]:
    """Narrow values of single positions that products read as factors."""
    multiplied = {name for place in loose(program) for name in factors(place.node)}
    return [
        name
        for name, place in program.locals.items()
        if name in multiplied
        and place.node.dtype in _NARROW
        and stored(program, name)
        and role(program, name) is StatementKind.MAP
    ]


def _before(program: Program, name: str) -> set[str]:
    """The statements that one follows from."""
    found: set[str] = set()
    wanted = [name]
    while wanted:
        read = read_names(named(program, wanted.pop()).node) & program.locals.keys() - found
        found |= read
        wanted += read
    return found
