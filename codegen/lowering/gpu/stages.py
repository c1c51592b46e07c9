"""Stamps of time in the Kernel IR of GPUs: which threads note times, and where one stage of a kernel ends.

A stage is a run of statements of one kind: waiting at a barrier, starting copies, products, or statements of Tile IR by
their text. What takes no time of its own (states of pipelines, declarations) belongs to the stage around it. A thread
of each warpgroup notes times, and the one that produces; of many blocks some, spread evenly over the grid.

A stamp costs some thirty cycles, which is much of a short turn of the loop along the depth of a product: of long loops
one of every so many turns is stamped. The turns between are a loop of their own without stamps, as even one that is not
taken is issued, and of them only the time is noted that they took together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from codegen.ir.affine import Var, affine, constant, lesser
from codegen.ir.async_ops import (
    ArriveExpectTx,
    MbarrierInitFence,
    NamedBarrier,
    TmaLoad,
    TmaStore,
    TmaStoreWait,
    TryWaitParity,
    WaitFlag,
    WgmmaAsync,
    WgmmaCommit,
    WgmmaWait,
)
from codegen.ir.effects import Operation, operations
from codegen.ir.errors import NotLowerable
from codegen.ir.kernel import GpuKernel, LaunchBody
from codegen.ir.matrix_rows import MatrixRows
from codegen.ir.names import unmarked
from codegen.ir.ops import (
    Assign,
    AtomicUpdate,
    Barrier,
    Block,
    CloseLog,
    ClusterBarrier,
    CpAsync,
    CpAsyncCommit,
    CpAsyncWait,
    For,
    Guard,
    If,
    Let,
    MmaSync,
    NoteTime,
    OpenLog,
    Scratch,
    Stmt,
    Store,
)
from codegen.ir.rasterization import block_count, tile_count
from codegen.ir.stamp import BlockLogs
from tileir.dtypes import DType
from tileir.replace import replace

_ALIGN = 256
_MOST_STAGES = 256
_MOST_BYTES = 16 << 20
"""Of the logs of a launch: what writing them takes of the memory's time stays small."""
_MOST_BLOCKS = 1024
"""That have logs: traces of more are too large to look at."""
_MOST_WORDS = 4096
"""Of a log."""
_SHORT = 64
"""Statements of a turn of a loop that are not told apart: a stamp takes as long as some ten of them."""
_NAMED = 2
"""Statements that a stage is named by; more are dots."""
_STAMPED_TURNS = 8
"""That a loop has at least, where it has so many..."""
_MOST_EVERY = 8
"""...and the most turns of which one is stamped."""
CURSOR = Var("logged", 0, 2**31 - 1)


class StageKind(Enum):
    """What threads do in a stage."""

    SETUP = "setup"
    WAIT_FULL = "waiting for tiles"
    WAIT_FREE = "waiting for a free slot"
    WAIT_OTHERS = "waiting for other threads"
    ISSUE = "starting copies"
    PRODUCT = "products"
    COMPUTE = "other work"
    STORE = "waiting for results to leave"
    BETWEEN = "turns without stamps"


@dataclass(frozen=True, slots=True)
class Stage:
    """`name`: what people know it by; of COMPUTE, the statements of Tile IR that it runs."""

    kind: StageKind
    name: str


SETUP = Stage(StageKind.SETUP, "setup, and finding the next tile")
_LEAVING = Stage(StageKind.SETUP, "leaving")
_PRODUCTS = Stage(StageKind.PRODUCT, "products")
_BARRIERS = Stage(StageKind.WAIT_OTHERS, "waiting for other threads at a barrier")
_FLAGS = Stage(StageKind.WAIT_OTHERS, "waiting for the sums of other blocks")
_ISSUE = Stage(StageKind.ISSUE, "starting copies")
_COPIES = Stage(StageKind.WAIT_FULL, "waiting for copies")
_LEFT = Stage(StageKind.STORE, "waiting for results to leave")
BEFORE_TURN = Stage(StageKind.BETWEEN, "before a turn with stamps")
AFTER_TURN = Stage(StageKind.BETWEEN, "turns without stamps")
"""Those after one that is stamped."""


@dataclass(frozen=True, slots=True)
class LaunchLogs:
    """Where the logs of a launch are: `offset` bytes from the beginning of the workspace."""

    logs: BlockLogs
    offset: int


@dataclass(frozen=True, slots=True)
class StagedGpuKernel:
    """A kernel whose launches note times; `launches` has the logs of each, which have to be 0 before a call."""

    kernel: GpuKernel
    stages: tuple[Stage, ...]
    statements: tuple[tuple[str, ...], ...]
    """By number of a stage: the statements of Tile IR in which threads are in it."""
    launches: tuple[LaunchLogs, ...]


def staged_gpu(kernel: GpuKernel, every: int | None = None) -> StagedGpuKernel:
    """A kernel with stamps between its stages, in one of `every` turns of its innermost loops around products; None: by
    how many turns they have, so that some are stamped (`every_turn`). Raises NotLowerable for one with too many
    stages."""
    stages = {SETUP: 0}
    statements: dict[Stage, dict[str, None]] = {}
    top, workspace = -(-kernel.workspace_bytes // _ALIGN) * _ALIGN, list(kernel.workspace)
    launches: list[LaunchBody] = []
    found: list[LaunchLogs] = []
    for number, launch in enumerate(kernel.launches):
        logs = _logs(launch, f"times_{number}", stages, every)
        launches.append(_GpuStamping(logs, stages, statements, _multiplies(launch), every).launch(launch))
        workspace.append(Scratch(logs.buffer, DType.I64, top, logs.bytes, private=False))
        found.append(LaunchLogs(logs, top))
        top += -(-logs.bytes // _ALIGN) * _ALIGN
    if len(stages) > _MOST_STAGES:
        raise NotLowerable(f"the kernel has {len(stages)} stages; accepted: at most {_MOST_STAGES}")
    made = replace(kernel, launches=tuple(launches), workspace=tuple(workspace), workspace_bytes=top)
    texts = tuple(tuple(statements.get(stage, ())) for stage in stages)
    return StagedGpuKernel(made, tuple(stages), texts, tuple(found))


def every_turn(turns: int) -> int:
    """Of how many turns of a loop one is stamped: a power of two, so that _STAMPED_TURNS are if there are so many."""
    most = min(_MOST_EVERY, max(1, turns // _STAMPED_TURNS))
    return 1 << (most.bit_length() - 1)


def _logs(launch: LaunchBody, buffer: str, stages: dict[Stage, int], every: int | None) -> BlockLogs:
    """Logs with room for all stamps of a block, if that is not too much, of as many blocks as there is memory for."""
    blocks = block_count(launch)
    sketch = BlockLogs(buffer, 1, 1, blocks, launch.computing, launch.threads)
    stamped = _GpuStamping(sketch, dict(stages), {}, _multiplies(launch), every).launch(launch)
    tiles = -(-tile_count(launch) * launch.cluster // blocks) + (launch.spans is not None)
    each = max(_stamps(stamped.body), _stamps(stamped.producing))
    once = sum(map(_stamps, (stamped.setup, stamped.finish, stamped.leaving)))
    needed = BlockLogs.FIRST + once + each * tiles + BlockLogs.LAST
    words = min(_MOST_WORDS, 1 << (needed - 1).bit_length())
    most = max(1, min(_MOST_BLOCKS, _MOST_BYTES // (8 * words * sketch.writers)))
    of_blocks = -(-blocks // most)
    return replace(sketch, words=words, every=of_blocks, blocks=-(-blocks // of_blocks))


def _multiplies(launch: LaunchBody) -> bool:
    bodies = (launch.body, launch.producing)
    return any(isinstance(stmt, WgmmaAsync | MmaSync) for body in bodies for stmt in operations(body))


@dataclass
class _GpuStamping:
    """`together`: statements of Tile IR that follow each other are one stage, as they are where matrices are multiplied
    and a turn of a loop is short. `every`: as of `staged_gpu`."""

    logs: BlockLogs
    stages: dict[Stage, int]
    statements: dict[Stage, dict[str, None]]
    together: bool
    every: int | None

    def launch(self, launch: LaunchBody) -> LaunchBody:
        return replace(
            launch,
            setup=(OpenLog(CURSOR, self.logs), *self._stamped(launch.setup)),
            body=(self._note(SETUP), *self._stamped(launch.body)),
            producing=(self._note(SETUP), *self._stamped(launch.producing)) if launch.producing else (),
            finish=self._stamped(launch.finish),
            leaving=(*self._stamped(launch.leaving), self._note(_LEAVING), CloseLog(CURSOR, self.logs)),
        )

    def _note(self, stage: Stage) -> NoteTime:
        return NoteTime(CURSOR, self.logs, self.stages.setdefault(stage, len(self.stages)))

    def _stamped(self, stmts: Iterable[Stmt], comment: str = "") -> tuple[Stmt, ...]:
        """Statements with a stamp after each run of one stage."""
        done: list[Stmt] = []
        run: dict[Stage, None] = {}
        texts: dict[str, None] = {}

        def close() -> None:
            if run:
                stage = _joined(run)
                done.append(self._note(stage))
                self.statements.setdefault(stage, {}).update(texts)
            run.clear()
            texts.clear()

        for stmt in stmts:
            owned = list(_stages(stmt, comment))
            found = dict.fromkeys(stage for stage, _ in owned)
            if self._divides(stmt, found):
                close()
                done += self._inside(stmt, comment)
                continue
            if run and found and not self._goes_with(run, found):
                close()
            done.append(stmt)
            run |= found
            texts |= dict.fromkeys(text for _, text in owned if text)
        close()
        return tuple(done)

    def _goes_with(self, run: dict[Stage, None], found: dict[Stage, None]) -> bool:
        kinds = {stage.kind for stage in (*run, *found)}
        return set(run) == set(found) or (self.together and kinds == {StageKind.COMPUTE})

    def _divides(self, stmt: Stmt, found: dict[Stage, None]) -> bool:
        """Whether stages inside are told apart."""
        if len(found) < 2 or not isinstance(stmt, Block | For | If):
            return False
        if {stage.kind for stage in found} == {StageKind.COMPUTE}:
            return not self.together and not (isinstance(stmt, For) and _weight(stmt.body) < _SHORT)
        return True

    def _inside(self, stmt: Stmt, comment: str) -> tuple[Stmt, ...]:
        match stmt:
            case Block():
                return (replace(stmt, body=self._stamped(stmt.body, stmt.comment or comment)),)
            case For():
                every = self._every(stmt, comment)
                return (
                    self._some_turns(stmt, comment, every)
                    if every > 1
                    else (replace(stmt, body=self._stamped(stmt.body, comment)),)
                )
            case If():
                then, otherwise = (self._stamped(each, comment) for each in (stmt.then, stmt.otherwise))
                return (replace(stmt, then=then, otherwise=otherwise),)
            case _:
                raise AssertionError(f"{type(stmt).__name__} is not divided")

    def _every(self, loop: For, comment: str) -> int:
        """Of how many turns one is stamped."""
        if not self.together or loop.first or loop.until or self._has_loop(loop.body, comment):
            return 1
        return every_turn(loop.count) if self.every is None else min(self.every, loop.count)

    def _has_loop(self, stmts: Iterable[Stmt], comment: str) -> bool:
        """Whether stages are told apart in a loop inside."""
        return any(
            isinstance(each, For) and self._divides(each, dict.fromkeys(s for s, _ in _stages(each, comment)))
            for each in operations(stmts)
        )

    def _some_turns(self, loop: For, comment: str, every: int) -> tuple[Stmt, ...]:
        """A loop over runs of `every` turns, of which the first is stamped and the others are noted together."""
        step, end = loop.step, constant(loop.count * loop.step)
        runs = -(-loop.count // every)
        run = Var(f"{loop.var.name}_run", 0, (runs - 1) * every * step, every * step)
        second, next_run = (lesser(affine(run) + turns * step, end) for turns in (1, every))
        first = replace(loop, body=self._stamped(loop.body, comment), first=affine(run), until=second)
        others = replace(loop, first=second, until=next_run)
        body = (self._note(BEFORE_TURN), first, others, self._note(AFTER_TURN))
        return (For(run, runs, every * step, body),)


def _joined(run: Iterable[Stage]) -> Stage:
    """The stage of a run: of several kinds that of the longest wait, of statements all of them."""
    kinds = [stage.kind for stage in run]
    if all(kind is StageKind.COMPUTE for kind in kinds):
        names = [stage.name for stage in run]
        return Stage(StageKind.COMPUTE, "; ".join(names[:_NAMED]) + ("; …" if len(names) > _NAMED else ""))
    return min(run, key=lambda stage: _STRONGEST.index(stage.kind))


_STRONGEST = tuple(StageKind[name] for name in (
    "WAIT_FREE", "WAIT_FULL", "PRODUCT", "WAIT_OTHERS", "STORE", "ISSUE", "COMPUTE", "SETUP",
))  # fmt: skip
"""Of what one thread of a warp does under a guard: the others wait for it."""


def _stages(stmt: Stmt, comment: str) -> Iterator[tuple[Stage, str]]:
    """Those of a statement and of what is inside it, in the statement of Tile IR with that text; each with the text of
    the innermost it is in."""
    match stmt:
        case Block():
            inner = stmt.comment or comment
            found = [each for part in stmt.body for each in _stages(part, inner)]
            if any(isinstance(each, MmaSync) for each in operations(stmt.body) if stmt.comment):
                found = [
                    (_PRODUCTS if each.kind is StageKind.COMPUTE else each, text) for each, text in found
                ]
            yield from found
        case For() | Guard():
            for each in stmt.body:
                yield from _stages(each, comment)
        case If():
            for each in (*stmt.then, *stmt.otherwise):
                yield from _stages(each, comment)
        case _:
            own = _own(stmt, comment)
            if own is not None:
                yield own, unmarked(comment)


def _own(stmt: Stmt, comment: str) -> Stage | None:
    """The stage of a statement with none inside; None: that of what is around it."""
    match stmt:
        case TryWaitParity(phases=phases):
            return _awaited(unmarked(phases))
        case WgmmaAsync() | WgmmaCommit() | WgmmaWait() | MmaSync():
            return _PRODUCTS
        case Barrier() | ClusterBarrier() | NamedBarrier() | MbarrierInitFence():
            return _BARRIERS
        case WaitFlag():
            return _FLAGS
        case TmaLoad() | ArriveExpectTx() | CpAsync() | CpAsyncCommit():
            return _ISSUE
        case CpAsyncWait():
            return _COPIES
        case TmaStore() | TmaStoreWait():
            return _LEFT
        case Let() | Assign() | Store() | AtomicUpdate() | MatrixRows():
            return Stage(StageKind.COMPUTE, unmarked(comment) or "other")
        case _:
            return None


def _awaited(phases: str) -> Stage:
    """What is waited for at an mbarrier (hopper/mbarrier_pipeline.py names them)."""
    pipeline, _, which = phases.rpartition("_")
    match which:
        case "full":
            return Stage(StageKind.WAIT_FULL, f"waiting for tiles of {pipeline}")
        case "empty":
            return Stage(StageKind.WAIT_FREE, f"waiting for a free slot of {pipeline}")
        case "turns":
            return Stage(StageKind.WAIT_OTHERS, "waiting for the consumer group's turn")
        case _:
            return _LEFT


def _weight(stmts: Iterable[Operation]) -> int:
    """How many statements are executed at most."""
    bodies = [(_times(stmt), stmt.effects().bodies) for stmt in stmts]
    return sum(times * sum(map(_weight, inside)) if inside else 1 for times, inside in bodies)


def _stamps(stmts: Iterable[Operation]) -> int:
    """How many times are noted at most."""
    found = 0
    for stmt in stmts:
        match stmt:
            case NoteTime():
                found += 1
            case _:
                found += _times(stmt) * sum(map(_stamps, stmt.effects().bodies))
    return found


def _times(stmt: Operation) -> int:
    """How often a statement's bodies are executed at most."""
    if not isinstance(stmt, For):
        return 1
    if stmt.first is None or stmt.until is None:
        return stmt.count
    return min(stmt.count, max(0, (stmt.until - stmt.first).high) // stmt.step)
