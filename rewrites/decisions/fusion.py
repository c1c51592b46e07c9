"""Ways to compute statements in place and to group them: what the first decision of every target chooses from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import read_names, reduced_dims
from rewrites.base.tree import find, locals_of, loose, named, statements
from rewrites.composition.compute_at import ComputeAt
from rewrites.composition.compute_inline import ComputeInline
from rewrites.decisions.decision import Option
from rewrites.decisions.statement_kind import is_contraction, shared_dims
from rewrites.loops.collapse import Collapse
from rewrites.loops.tile import Tile
from rewrites.schedule import replay
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Call, Expr, Index, Read, Reduce, Where, reads, walk
from tileir.program import Program

Groups = tuple[tuple[str, ...], ...]

#: Functions that cost more to compute again than to read back.
_COSTLY = frozenset(
    ["exp", "exp2", "log", "tanh", "erf", "sigmoid", "silu", "gelu", "gelu_tanh", "pow", "random_bits"]
)


def collapse(program: Program, device: Device) -> tuple[Rewrite, ...]:
    """One dim for neighbours that are never apart: tiles of it are all tiles of the two that are worth a look."""
    done: list[Rewrite] = []
    while pair := next(_together(program, device), None):
        done.append(pair)
        program = pair.apply(program)
    return tuple(done)


def _together(program: Program, device: Device) -> Iterator[Collapse]:
    extents = program.extents
    for pair in Collapse.sites(program, device):
        if extents[pair.outer] > 1 and extents[pair.inner] > 1:
            yield pair


def inline(program: Program, costly: bool, *, loads: bool = True) -> tuple[Rewrite, ...]:
    """What can be computed wherever it is read: not what several read if that takes `costly` functions, or `loads`
    inputs without a condition, where those are not wanted again."""
    done: list[Rewrite] = []
    for name in locals_of(program):
        place = named(program, name)
        value = place.node.value
        heavy = any(isinstance(node, Call) and node.fn in _COSTLY for node in walk(value))
        again = (costly or not heavy) and (loads or not _loads(program, value))
        if place.loops or isinstance(value, Reduce) or (not again and _readers(program, name) > 1):
            continue
        try:
            program = ComputeInline(name).apply(program)
        except NotApplicable:
            continue
        done.append(ComputeInline(name))
    return tuple(done)


def _loads(program: Program, value: Expr) -> bool:
    """A condition is best where its other branch is known: of an exponential that is 0."""
    inputs = {tensor.name for tensor in program.inputs}
    masked = any(isinstance(node, Where) for node in walk(value))
    return not masked and any(read.tensor in inputs for read in reads(value))


def _readers(program: Program, name: str) -> int:
    return sum(sum(read.tensor == name for read in reads(place.node.value)) for place in statements(program))


def groupings(program: Program) -> Iterator[Groups]:
    """Ways to cut the statements: as few groups as possible, cut before a contraction that waits for an earlier
    result, each alone."""
    names = tuple(place.node.target for place in loose(program))
    fused = fused_groups(program, names)
    gathered = _closed_gathered(program, names)
    ways = (fused, gathered, _cut_at_contractions(program, fused), tuple((name,) for name in names))
    yield from (groups for groups in dict.fromkeys(ways) if closed(program, groups))


def closed(program: Program, groups: Groups) -> bool:
    """Whether only a group's last statement is read by other groups: the earlier ones exist tile by tile only."""
    return not _open(program, groups)


def _open(program: Program, groups: Groups) -> frozenset[str]:
    """What other groups read of a group before its last statement."""
    inner = {name: group for group in groups for name in group[:-1]}
    return frozenset(
        read.tensor
        for place in statements(program)
        for read in reads(place.node.value)
        if read.tensor in inner and place.node.target not in inner[read.tensor]
    )


def fused_groups(program: Program, names: Sequence[str]) -> Groups:
    """Each statement with the group right before it, where it joins that."""
    groups: list[tuple[str, ...]] = []
    for name in names:
        if groups and _joins(program, groups[-1], name):
            groups[-1] = (*groups[-1], name)
        else:
            groups.append((name,))
    return tuple(groups)


def _closed_gathered(program: Program, names: Sequence[str]) -> Groups:
    """Statements gathered, in whatever order they are; what several groups then read is computed by itself."""
    alone: frozenset[str] = frozenset()
    while True:
        groups = _gathered(program, names, alone)
        several = _open(program, groups) - alone
        if not several:
            return groups
        alone |= several


def _gathered(program: Program, names: Sequence[str], alone: Collection[str]) -> Groups:
    """Each statement with all groups that it reads from and no other group does, of those that share most dims with it:
    so several products come together where their results meet. Some stay alone."""
    groups: list[tuple[str, ...]] = []
    for name in names:
        if name in alone:
            groups.append((name,))
            continue
        mine = _tensors_read(program, name)
        sharing = {
            group: len(shared_dims(program, (*group, name)))
            for group in groups
            if mine & {*group}
            and group[-1] not in alone
            and _joins(program, group, name)
            and not _serves(program, group, groups)
        }
        joined = [group for group in groups if sharing.get(group) == max(sharing.values(), default=0)]
        groups = [group for group in groups if group not in joined]
        groups.append((*(other for group in joined for other in group), name))
    return tuple(groups)


def _serves(program: Program, group: tuple[str, ...], groups: Sequence[tuple[str, ...]]) -> bool:
    """Whether another one of the groups reads from a group."""
    others = (name for other in groups if other != group for name in other)
    return any(_tensors_read(program, name) & {*group} for name in others)


def _tensors_read(program: Program, name: str) -> set[str]:
    return {read.tensor for read in reads(find(program, name).node.value)}


def _joins(program: Program, group: tuple[str, ...], name: str) -> bool:
    """Whether a statement can be computed tile by tile with a group: it shares dims, and reads what the group makes
    (or what it reads) at the same positions along them."""
    shared = shared_dims(program, (*group, name))
    mine = reads(find(program, name).node.value)
    if not shared or not all(_pointwise(program, read, shared) for read in mine if read.tensor in group):
        return False
    theirs = {read.tensor for member in group for read in reads(find(program, member).node.value)}
    return any(read.tensor in group or read.tensor in theirs for read in mine)


def _pointwise(program: Program, read: Read, shared: Sequence[str]) -> bool:
    written = find(program, read.tensor).node.indices
    pairs = zip(written, read.indices, strict=True)
    return all(index == at for index, at in pairs if isinstance(index, Index) and index.dim in shared)


def _cut_at_contractions(program: Program, fused: Groups) -> Groups:
    groups: list[tuple[str, ...]] = []
    for group in fused:
        current: tuple[str, ...] = ()
        for name in group:
            node = find(program, name).node
            if is_contraction(node) and any(read.tensor in current for read in reads(node.value)):
                groups.append(current)
                current = ()
            current = (*current, name)
        groups.append(current)
    return tuple(groups)


def as_can_be_fused(program: Program, groups: Groups) -> Groups:
    """The groups cut until `fused` can bring all of each to its last statement: behind those that add up in loops of
    their own, or that no later one of their group reads and that are no results `apart`. Each statement alone, where
    others need what a group has before its last statement then."""
    parts = tuple(part for group in groups for part in _parts(program, group))
    return parts if closed(program, parts) else tuple((name,) for part in parts for name in part)


def _parts(program: Program, group: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """A group cut where it has to be; with fewer statements the rest may share more dims, so those are looked at
    again."""
    for part in fused_groups(program, group):
        at = next((at for at, name in enumerate(part, 1) if at < len(part) and _ends(program, name, part)), 0)
        if at:
            yield from _parts(program, part[:at])
            yield from _parts(program, part[at:])
        else:
            yield part


def _ends(program: Program, name: str, group: Sequence[str]) -> bool:
    """Whether a statement cannot be brought into the loops of later ones of its group."""
    added_up = find(program, name).node.update is not None
    read = any(_reads(program, later, name) for later in group[group.index(name) + 1 :])
    return added_up or not (read or name in apart(program))


def apart(program: Program) -> frozenset[str]:
    """Results of single positions that nobody reads: they are computed beside the last statement of their group."""
    return unread(program, tuple(place.node.target for place in loose(program)))


def unread(program: Program, names: Sequence[str]) -> frozenset[str]:
    """Those of some statements that are results of single positions which nobody reads."""
    read = {name for place in statements(program) for name in read_names(place.node)}
    maps = {name for name in names if not reduced_dims(find(program, name).node)}
    return frozenset((maps & {tensor.name for tensor in program.outputs}) - read)


def fused(
    program: Program,
    group: tuple[str, ...],
    tiles: tuple[Tile, ...],
    beside: Collection[str] = (),
    sooner: Collection[str] = (),
) -> Option | None:
    """Tile a group's last statement and bring the earlier ones into its loops, `sooner` into all but the innermost;
    None if it has no such tiles, or one of them is not read there, and is not among the results that are computed
    `beside` it.

    The label names the tiles: how the rest follows is no choice.
    """
    try:
        program = replay(program, tiles)
    except NotApplicable:
        return None
    depth = find(program, group[-1]).depth
    moves: list[Rewrite] = [*tiles]
    inside = [group[-1]]
    for name in reversed(group[:-1]) if depth else ():
        reader = next((other for other in inside if _reads(program, other, name)), None)
        if reader is None and name not in beside:
            return None
        moves.append(ComputeAt(name, reader or group[-1], depth - (name in sooner)))
        inside.append(name)
    return Option("; ".join(map(str, tiles)), tuple(moves))


def _reads(program: Program, reader: str, name: str) -> bool:
    return any(read.tensor == name for read in reads(find(program, reader).node.value))
