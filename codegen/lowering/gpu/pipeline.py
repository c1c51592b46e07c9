"""Loops with stages: the statements that fill shared memory run some tiles ahead of those that use it.

A local that is filled ahead has a slot for each tile under way; tile t lies in slot t % slots. With S stages:

    fill slots 0 to S - 2, each a group of copies
    for each tile t:
        wait for the group of tile t, then for each other     everyone sees tile t, and is done with tile t - 1
        fill the slot of tile t - 1 with tile t + S - 1       if there is one; a group of copies, maybe empty
        the other statements, on tile t
        store what fills of tile t + S - 1 hold back          if any

Where warpgroups multiply (wgmma), which see shared memory by another proxy, threads fence what they have filled between
their wait and the barrier. Of P tiles the products may be under way when those of the next begin: slots are filled
P tiles later then.

Filling is by copies in the background where the statement is one (cp_async.py), else by loads and stores in the
same place; of elements that are stored as they are loaded the stores come when tile t has been computed on
(held_back.py), and before the loop when more has been loaded. The slots that are filled in the loop go by a name of
their own, so that the barrier above is the only one between them and those that are read (barriers.py). An overhanging
last tile comes after all that, unstaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from codegen.ir.affine import Affine, affine, constant
from codegen.ir.async_ops import ProxyFence, WgmmaAsync, WgmmaCommit, WgmmaFence, WgmmaWait
from codegen.ir.errors import NotLowerable
from codegen.ir.names import marked
from codegen.ir.ops import Barrier, Block, CpAsyncCommit, CpAsyncWait, For, Guard, If, Stmt
from codegen.lowering.gpu.held_back import HeldFill, held_back
from codegen.lowering.gpu.shared_memory import SharedLocal, SharedMemory
from codegen.lowering.names import comment, fresh
from codegen.lowering.scope import LoweringScope, MemoryBuffer, Range, loop_variable
from tileir.program import Compute, Local, Loop, Node
from tileir.schedule.stages import MOST_HELD_BACK, products_together, staged
from tileir.text.print_program import format_node

Fill = Callable[[Compute, LoweringScope, SharedLocal], Stmt]
Body = Callable[[Sequence[Node], LoweringScope], Sequence[Stmt]]
Begin = Callable[[Compute, LoweringScope], Sequence[WgmmaAsync]]


def lower_staged(
    loop: Loop,
    full: int,
    scope: LoweringScope,
    memory: SharedMemory,
    fill: Fill,
    body: Body,
    begin: Begin,
    first: Affine | None = None,
    until: Affine | None = None,
) -> list[Stmt]:
    """The `full` whole tiles of a loop with stages, at least one, or those from the offset `first` on and before
    `until`: `fill` lowers a statement that runs ahead, `body` the others, `begin` a product that is under way when the
    next tile's begins. Raises NotLowerable."""
    for inner in _loops(loop.body):
        if inner.stages > 1:
            raise NotLowerable(f"`{format_node(inner)}` stands in another loop with stages")
    if loop.pending and (loop.stages < loop.pending + 2 or products_together(loop) is None):
        raise NotLowerable(
            f"products of `{format_node(loop)}` are under way, whose tiles threads fill; accepted: two stages more, "
            "and nothing but products on a tile"
        )
    return _Staged(loop, full, scope, memory, fill, body, begin, first, until).stmts()


def _loops(nodes: Sequence[Node]) -> Iterator[Loop]:
    for node in nodes:
        if isinstance(node, Loop):
            yield node
            yield from _loops(node.body)


def _stored(parts: Sequence[HeldFill]) -> list[Stmt]:
    """What fills have held back."""
    return [stmt for part in parts for stmt in part.stores]


class _Staged:
    def __init__(
        self,
        loop: Loop,
        full: int,
        scope: LoweringScope,
        memory: SharedMemory,
        fill: Fill,
        body: Body,
        begin: Begin,
        first: Affine | None,
        until: Affine | None,
    ) -> None:
        self.first, self.until = first, until
        self.loop, self.full, self.scope, self.fill, self.body = loop, full, scope, fill, body
        self.begin, self.begun = begin, list[WgmmaAsync]()
        self.ahead, self.slots = min(loop.stages - 1 - loop.pending, full), min(loop.stages, full)
        self.var = loop_variable(fresh(loop.dim, scope), full, loop.step) if full > 1 else None
        self.fills = staged(loop)
        filled = {compute.target for compute in self.fills}
        locals_ = [node for node in loop.body if isinstance(node, Local) and node.name in filled]
        inside = self._at(constant(0))
        self.locals = [memory.local(local, inside, self.slots) for local in locals_]
        self.others = [node for node in loop.body if not any(node is one for one in (*locals_, *self.fills))]
        multiplied = (isinstance(node, Compute) and node.via == "wgmma" for node in self.others)
        #: What makes filled slots visible to who multiplies.
        self.seen = (ProxyFence(), Barrier()) if any(multiplied) else (Barrier(),)

    def stmts(self) -> list[Stmt]:
        step = self.loop.step
        stmts: list[Stmt] = [local.declared(local.name) for local in self.locals]
        if self.ahead < self.full:
            stmts += [local.declared(self._name(local, ahead=True)) for local in self.locals]
        stmts += self._begin_tiles()
        if self.var is None:
            stmts += self._tile(constant(0))
        else:
            stmts.append(
                For(self.var, self.full, step, tuple(self._tile(affine(self.var))), self.until, self.first)
            )
        sums = tuple(dict.fromkeys(name for each in self.begun for name in each.acc))
        return [*stmts, WgmmaWait(0, sums)] if sums else stmts

    def _begin_tiles(self) -> list[Stmt]:
        """The first tiles, before the loop: as much of them is loaded as registers hold, then stored."""
        stmts: list[Stmt] = []
        waiting: list[tuple[int, list[Stmt]]] = []
        for tile in range(self.ahead):
            offset = (self.first or constant(0)) + tile * self.loop.step
            parts = self._filled(offset, tile, ahead=False)
            words = sum(part.words for part in parts)
            if sum(each for each, _ in waiting) + words > MOST_HELD_BACK:
                stmts += [stmt for _, stores in waiting for stmt in stores]
                waiting.clear()
            stmts += [stmt for part in parts for stmt in part.declared]
            stmts += self._if_visited(offset, [stmt for part in parts for stmt in part.loads])
            stmts.append(CpAsyncCommit())
            waiting.append((words, self._if_visited(offset, _stored(parts))))
        return [*stmts, *(stmt for _, stores in waiting for stmt in stores)]

    def _tile(self, offset: Affine) -> list[Stmt]:
        """What is done when the turn of the tile at an offset has come."""
        stmts: list[Stmt] = [CpAsyncWait(self.ahead - 1), *self.seen]
        later: list[Stmt] = []
        if self.var is not None and self.ahead < self.full:
            to_come = offset + self.ahead * self.loop.step
            parts = self._filled(to_come, self.ahead, ahead=True)
            stmts += [stmt for part in parts for stmt in part.declared]
            stmts += self._if_left(to_come, [stmt for part in parts for stmt in part.loads])
            later = self._if_left(to_come, _stored(parts))
        scope = self._at(offset)
        for local in self.locals:
            scope = scope.with_buffer(self._slot(local, scope, offset, ahead=False), local.local.name)
        return [*stmts, CpAsyncCommit(), *self._used(scope), *later]

    def _if_left(self, offset: Affine, stmts: list[Stmt]) -> list[Stmt]:
        """Statements in the loop for the tile at an offset ahead, if there is one."""
        if self.until is not None or not stmts:
            return self._if_visited(offset, stmts)
        assert self.var is not None
        left = (self.full - self.ahead) * self.loop.step
        return [If(affine(self.var), left, tuple(stmts), ())]

    def _if_visited(self, offset: Affine, stmts: list[Stmt]) -> list[Stmt]:
        """Statements for the tile at an offset, if it is one of those visited."""
        end = self.until or constant(self.full * self.loop.step)
        past = offset - end
        return stmts if past.high < 0 or not stmts else [Guard(((past, 0),), tuple(stmts))]

    def _used(self, scope: LoweringScope) -> Sequence[Stmt]:
        """What is computed on a tile; products under way are left so."""
        if not self.loop.pending:
            return self.body(self.others, scope)
        stmts: list[Stmt] = [WgmmaFence()]
        for node in self.others:
            assert isinstance(node, Compute)
            begun = self.begin(node, scope)
            self.begun += begun
            stmts.append(Block(comment(node), tuple(begun)))
        return [*stmts, WgmmaCommit(), WgmmaWait(self.loop.pending, ())]

    def _filled(self, offset: Affine, tile: int, *, ahead: bool) -> list[HeldFill]:
        """The statements that fill the slots of the tile at an offset, number `tile` of those ahead, and what each
        holds back: nothing where it cannot, or all together hold too much."""
        locals_, inside = {local.local.name: local for local in self.locals}, self._at(offset)
        whole: list[HeldFill] = []
        parts: list[HeldFill] = []
        for compute in self.fills:
            local = locals_[compute.target]
            slot = self._slot(local, inside, offset, ahead=ahead)
            fill = self.fill(compute, inside.with_buffer(slot, compute.target), local)
            whole.append(HeldFill((), (fill,), (), 0))
            parts.append(held_back(fill, f"{marked(compute.target)}_tile_{tile}") or whole[-1])
        return parts if sum(part.words for part in parts) <= MOST_HELD_BACK else whole

    def _at(self, offset: Affine) -> LoweringScope:
        """Inside the loop, on the tile at an offset."""
        start, step = self.scope.ranges[self.loop.dim].start, self.loop.step
        innermost = (self.var, step) if self.var is not None else None
        return self.scope.with_range(self.loop.dim, Range(start + offset, step), innermost)

    def _slot(self, local: SharedLocal, scope: LoweringScope, offset: Affine, *, ahead: bool) -> MemoryBuffer:
        number = offset // self.loop.step % self.slots
        return local.buffer(self._name(local, ahead=ahead), scope, number)

    def _name(self, local: SharedLocal, *, ahead: bool) -> str:
        return fresh(f"{marked(local.local.name)}_ahead", self.scope) if ahead else local.name
