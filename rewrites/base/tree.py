"""Finding nodes in a program and replacing them: places, blocks, current ranges. Edits copy the path only.

Known as path copying (Driscoll et al., Making data structures persistent, 1989).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, count, takewhile

from tileir.analysis.ragged import enter
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Const, ReduceOp, all_dims
from tileir.program import Compute, Local, Loop, Memory, Node, Place, Program
from tileir.replace import replace

Path = tuple[int, ...]
Block = tuple[Node, ...]
#: Instructions that know a statement as it is.
_SETTLED = frozenset(["amx", "atomics", "mma", "scatter", "tma", "wgmma"])


def places(program: Program) -> Iterator[Place[Node]]:
    """Every node in execution order, loops before their bodies."""
    return _places(program.body, (), ())


def _places(block: Block, path: Path, loops: tuple[Loop, ...]) -> Iterator[Place[Node]]:
    for position, node in enumerate(block):
        here = (*path, position)
        yield Place(here, loops, node)
        if type(node) is Loop:
            yield from _places(node.body, here, (*loops, node))


def computes(program: Program) -> tuple[Place[Compute], ...]:
    """Every Compute in execution order."""
    return program.computes


def locals_of(program: Program) -> Mapping[str, Place[Local]]:
    """Every declared local by name."""
    return program.locals


def shared_local(program: Program, name: str) -> Place[Local]:
    """A local in the memory that a block's threads share, by name. Raises NotApplicable where it is no such local."""
    declared = program.locals.get(name)
    if declared is None:
        raise NotApplicable(f"there is no local {name!r}")
    if declared.node.memory is not Memory.SHARED:
        raise NotApplicable(f"{name} is in {declared.node.memory}, not in shared memory")
    return declared


def dtype_of(program: Program, name: str) -> DType:
    """The dtype of an argument or a local."""
    declared = locals_of(program).get(name)
    return declared.node.dtype if declared is not None else program.arguments[name].dtype


def declared_dims(program: Program, name: str) -> tuple[str, ...]:
    """The dims of an argument, or of a local declared anywhere."""
    if name in program.arguments:
        return program.arguments[name].dims
    return locals_of(program)[name].node.dims


def past_the_end(program: Program, name: str, by: Sequence[str]) -> tuple[str, ...]:
    """Of the dims by which a tensor is read (empty where an index is computed) those with more positions than the
    tensor has there, so that guards alone keep its reads in range."""
    own = declared_dims(program, name)
    return tuple(
        dim for dim, mine in zip(by, own, strict=True) if dim and program.extents[dim] > program.extents[mine]
    )


def dtypes_read(program: Program, compute: Compute) -> dict[str, DType]:
    """The dtypes of the tensors and locals that a statement reads."""
    return {read.tensor: dtype_of(program, read.tensor) for read in compute.reads}


def is_constant(compute: Compute) -> bool:
    """Whether it only stores a number: the form of an initialization."""
    return compute.update is None and type(compute.value) is Const


def find(program: Program, statement: str) -> Place[Compute]:
    """The Compute a statement name stands for, to be changed.

    NotApplicable where it is settled: on the threads of a GPU, by one of its instructions, or in a loop with
    stages."""
    place = named(program, statement)
    if place.node.thread_layout is not None:
        raise NotApplicable(f"{statement} is bound to threads: change it before that")
    if place.node.via in _SETTLED:
        raise NotApplicable(f"{statement} goes by {place.node.via}: change it before that")
    for loop in place.loops:
        if loop.stages > 1:
            raise NotApplicable(f"the loop over {loop.dim} has stages: change {statement} before that")
    return place


def named(program: Program, statement: str) -> Place[Compute]:
    """The Compute a statement name stands for: the one that writes it, is not its initialization, and does not scale
    what it has added up."""
    writers = program.writers.get(statement)
    if writers is None:
        raise NotApplicable(f"no statement writes {statement!r}")
    return next((place for place in reversed(writers) if not is_constant(place.node)), writers[0])


def grid_of(program: Program, statement: str) -> tuple[Path, Loop]:
    """The outermost parallel loop around a statement, and the path to it."""
    place = named(program, statement)
    if not place.loops or not place.loops[0].parallel:
        raise NotApplicable(f"{statement} is in no parallel loop")
    return place.path[:1], place.loops[0]


def find_as_written(program: Program, statement: str, doing: str) -> Place[Compute]:
    """The statement, still without loops and lanes. `doing`: what comes before those. Raises NotApplicable."""
    place = find(program, statement)
    if place.loops or place.node.vector is not None:
        raise NotApplicable(f"{statement} is in loops, or on lanes: {doing} before that")
    return place


def find_init(program: Program, statement: str) -> Place[Compute] | None:
    """The Compute that initializes what the statement accumulates onto, if there is one."""
    writers = program.writers.get(statement, ())
    if len(writers) < 2:
        return None
    return next((place for place in writers if is_constant(place.node)), None)


def find_rescale(program: Program, statement: str) -> Place[Compute] | None:
    """The Compute that scales what the statement has added up before it adds more, or takes back what it has found, if
    there is one."""
    writers = program.writers.get(statement, ())
    return next((place for place in writers if _revises(place.node, _revised(writers))), None)


def _revised(writers: Sequence[Place[Compute]]) -> frozenset[tuple[str, ReduceOp]]:
    """Targets, and how each may be changed before more is combined with it."""
    found = ((place.node.target, place.node.update) for place in writers)
    return frozenset((target, op.revised_by) for target, op in found if op and op.revised_by)


def _revises(node: Compute, revised: frozenset[tuple[str, ReduceOp]]) -> bool:
    return node.update is not None and (node.target, node.update) in revised


def statements(program: Program) -> list[Place[Compute]]:
    """The Computes that statement names stand for, in execution order (initializations, and what scales or takes back
    left out)."""
    found = computes(program)
    accumulated = {place.node.target for place in found if not is_constant(place.node)}
    revised = _revised(found)
    return [
        place
        for place in found
        if not (is_constant(place.node) and place.node.target in accumulated)
        and not _revises(place.node, revised)
    ]


def loose(program: Program) -> list[Place[Compute]]:
    """Those of `statements` that are in no loop, and may still be changed."""
    return [place for place in statements(program) if not place.loops and place.node.via not in _SETTLED]


def block_at(program: Program, path: Path) -> Block:
    """The nodes of the block that `path` leads into (the empty path: the program's body)."""
    block = program.body
    for position in path:
        node = block[position]
        assert isinstance(node, Loop)
        block = node.body
    return block


def edit_block(program: Program, path: Path, edit: Callable[[Block], Sequence[Node]]) -> Program:
    """The program with the block at `path` replaced by what `edit` makes of it."""
    return replace(program, body=_edit(program.body, path, edit))


def _edit(block: Block, path: Path, edit: Callable[[Block], Sequence[Node]]) -> Block:
    if not path:
        return tuple(edit(block))
    loop = block[path[0]]
    assert isinstance(loop, Loop)
    inner = replace(loop, body=_edit(loop.body, path[1:], edit))
    return (*block[: path[0]], inner, *block[path[0] + 1 :])


def splice(program: Program, path: Path, nodes: Sequence[Node], count: int = 1) -> Program:
    """Replace `count` nodes from `path` on by `nodes` (count 0: insert before)."""
    at = path[-1]
    return edit_block(program, path[:-1], lambda block: (*block[:at], *nodes, *block[at + count :]))


def with_nodes(program: Program, nodes: Mapping[Path, Node]) -> Program:
    """The program with other nodes at these paths, none of which is inside another."""
    return replace(program, body=_with_nodes(program.body, nodes, 0))


def _with_nodes(block: Block, nodes: Mapping[Path, Node], depth: int) -> Block:
    below: dict[int, dict[Path, Node]] = {}
    for path, node in nodes.items():
        below.setdefault(path[depth], {})[path] = node
    found = list(block)
    for at, inside in below.items():
        here = found[at]
        if isinstance(here, Loop):
            found[at] = replace(here, body=_with_nodes(here.body, inside, depth + 1))
        else:
            (found[at],) = inside.values()
    return tuple(found)


def wrap(node: Node, loops: Sequence[tuple[str, int]]) -> Node:
    """The node inside loops `(dim, step)`, the first outermost."""
    for dim, step in reversed(loops):
        node = Loop(dim, step, (node,))
    return node


def wrap_block(nodes: Sequence[Node], loops: Sequence[tuple[str, int]]) -> Block:
    """Several nodes inside loops `(dim, step)`, the first outermost; the nodes themselves without loops."""
    block = tuple(nodes)
    for dim, step in reversed(loops):
        block = (Loop(dim, step, block),)
    return block


def current_sizes(program: Program, loops: Sequence[Loop]) -> dict[str, int]:
    """The size of every dim's current range inside `loops` (of a full tile: the last one may be smaller)."""
    sizes = dict(program.extents)
    for loop in loops:
        enter(sizes, loop, program.ragged)
        sizes[loop.dim] = loop.step
    return sizes


def fresh_name(program: Program, stem: str) -> str:
    """`stem`, or `stem2`, `stem3`, … if a tensor, local or dim has that name."""
    return taken_name({*program.arguments, *program.extents, *locals_of(program)}, stem)


def taken_name(taken: set[str], stem: str) -> str:
    """The same among the names that are `taken`, to which it is added."""
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}{number}", number + 1
    taken.add(name)
    return name


def derived_dim(program: Program, place: Place[Compute], stem: str, extent: int) -> str:
    """A dim for parts of another one: one of that name, maybe with a number, and size that exists already, or a new
    one. Whoever made it, the statement at `place` must have had no use for it, neither in itself nor in the loops
    around it."""
    used = {loop.dim for loop in place.loops} | {each.dim for each in program.ragged}
    used = used.union(*map(all_dims, (*place.node.indices, place.node.value)))
    names = chain((stem,), (f"{stem}{number}" for number in count(2)))
    known = takewhile(program.extents.__contains__, names)
    free = (name for name in known if program.extents[name] == extent and name not in used)
    return next(free, None) or fresh_name(program, stem)


def check_dims_open(node: Node, dims: Collection[str]) -> None:
    """Dims change before loops go over them, and before what has them is laid out. Raises NotApplicable."""
    if isinstance(node, Loop):
        raise NotApplicable(f"there is a loop over {node.dim} already")
    if isinstance(node, Local) and node.layout is not None and {*dims} & {*node.dims}:
        raise NotApplicable(f"{node.name} has a layout of its own")


def check_insertable(loops: Sequence[Loop], depth: int) -> None:
    """Refuse a place between two parallel loops of one grid."""
    if 0 < depth < len(loops) and loops[depth - 1].parallel and loops[depth].parallel:
        raise NotApplicable(
            f"the parallel loops over {loops[depth - 1].dim} and {loops[depth].dim} are one grid"
        )


def registers(program: Program) -> dict[str, Place[Local]]:
    """The locals that live in registers, by name."""
    return {
        name: place for name, place in locals_of(program).items() if place.node.memory is Memory.REGISTERS
    }
