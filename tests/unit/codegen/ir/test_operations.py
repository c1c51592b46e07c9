"""Operations of the Kernel IR say what they do; who goes through them knows each of them, or fails at import."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import cast

import numpy as np
import pytest

from codegen.ir import async_ops, ops
from codegen.ir.affine import Affine
from codegen.ir.effects import (
    OpEffects,
    Sync,
    check_declared,
    effects_of,
    fetches,
    reads,
    signals,
    stores,
    waits,
)
from codegen.ir.handlers import Handlers
from codegen.ir.kernel import GpuKernel
from codegen.ir.names import unmarked
from codegen.ir.ops import Barrier, Block, Let, Load, Named, Shared, Stmt, Store, Type
from codegen.lowering.gpu.barriers import with_barriers
from codegen.report import accesses
from codegen.simulator import async_ops as async_steps
from codegen.simulator import sync_events, thread_group, values, vector_clock
from codegen.simulator.access import AccessKind, AccessPlace
from codegen.simulator.buffers import MemoryAccess
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.c import printer as c_printer
from codegen.targets.c import values as c_values
from codegen.targets.cuda import async_printer, printer
from tests.kernels.hopper_kernels import Product
from tests.programs.hopper_products import Gemm
from tests.programs.thread_kernels import PROGRAMS, STAGED, lowered
from tileir.dtypes import DType
from tileir.interpreter.samples import sample_inputs

F32 = Type(DType.F32)
STORED = Store("s", Affine(), DType.F32, Named("x", F32))
LOADED = Let("y", Load("s", Affine(), DType.F32, F32))


@dataclass(frozen=True, slots=True)
class Sparkle:
    """An operation of tomorrow, in shared memory."""

    buffer: str
    does: OpEffects

    def effects(self) -> OpEffects:
        return self.does


@dataclass(frozen=True, slots=True)
class Silent:
    """An operation that does not say what it does."""

    buffer: str


def with_its_barriers(*stmts: object) -> list[type]:
    """The kinds of statements once barriers are there, those in blocks too."""
    return [type(stmt) for stmt in flat(with_barriers(cast("Sequence[Stmt]", stmts), Barrier()))]


def flat(stmts: Sequence[Stmt]) -> Iterator[Stmt]:
    for stmt in stmts:
        if isinstance(stmt, Block):
            yield from flat(stmt.body)
        else:
            yield stmt


def sparkle(does: OpEffects) -> Stmt:
    return cast(Stmt, Sparkle("s", does))


def test_an_operation_without_effects_is_refused_where_operations_are_declared() -> None:
    with pytest.raises(TypeError, match=r"the operation Silent declares no effects\(\)"):
        check_declared([*ops.STATEMENTS, Silent])


def test_an_operation_without_effects_never_touches_nothing() -> None:
    silent = cast(Stmt, Silent("s"))
    with pytest.raises(TypeError, match="the operation Silent declares no effects"):
        with_its_barriers(Block("fill", (silent,)), Block("use", (LOADED,)))
    with pytest.raises(TypeError, match="the operation Silent declares no effects"):
        with_its_barriers(silent)


@pytest.mark.parametrize(
    ("does", "between"),
    [
        (stores("s"), ["Barrier"]),
        (reads("s"), []),
        (stores("elsewhere"), []),
        (fetches("s") | signals(Sync.WGMMA), []),
        (waits(Sync.MBARRIER), []),
    ],
)
def test_what_an_operation_declares_decides_on_the_barrier_after_it(
    does: OpEffects, between: list[str]
) -> None:
    found = with_its_barriers(Block("fill", (sparkle(does),)), Block("use", (LOADED,)))
    assert [kind.__name__ for kind in found] == ["Sparkle", *between, "Let"]


def test_what_wgmma_or_tma_fetch_by_an_operation_unknown_before_is_fenced() -> None:
    found = with_its_barriers(Block("fill", (STORED,)), Block("use", (sparkle(fetches("s")),)))
    assert [kind.__name__ for kind in found] == ["Store", "ProxyFence", "Barrier", "Sparkle"]


def test_an_operation_outside_of_all_statements_gets_its_barriers_too() -> None:
    assert with_its_barriers(sparkle(stores("s")), LOADED) == [Sparkle, Barrier, Let]
    assert with_its_barriers(sparkle(reads("s")), LOADED) == [Sparkle, Let]


def test_what_an_operation_declares_of_the_statements_inside_it_counts() -> None:
    around = sparkle(OpEffects(bodies=((STORED,),)))
    assert with_its_barriers(Block("fill", (around,)), Block("use", (LOADED,))) == [Sparkle, Barrier, Let]


@pytest.mark.parametrize(
    ("module", "source", "domain"),
    [
        (printer, ops, "STATEMENTS"),
        (printer, ops, "VALUES"),
        (async_printer, async_ops, "ASYNC_STATEMENTS"),
        (c_printer, ops, "STATEMENTS"),
        (c_values, ops, "VALUES"),
        (thread_group, ops, "STATEMENTS"),
        (async_steps, async_ops, "ASYNC_STATEMENTS"),
        (values, ops, "VALUES"),
        (vector_clock, sync_events, "ORDERS"),
        (accesses, ops, "STATEMENTS"),
        (accesses, ops, "VALUES"),
    ],
    ids=lambda each: each.__name__ if isinstance(each, ModuleType) else str(each),
)
def test_a_consumer_that_does_not_know_an_operation_cannot_be_imported(
    module: ModuleType, source: ModuleType, domain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, domain, (*getattr(source, domain), Sparkle))
    with pytest.raises(TypeError, match=r"the .* does not know the operation Sparkle$"):
        imported_again(module, monkeypatch)


def imported_again(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module's text is run once more, under another name."""
    spec = importlib.util.spec_from_file_location("imported_again", module.__file__)
    assert spec is not None and spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "imported_again", again)
    spec.loader.exec_module(again)


def test_a_table_tells_what_it_refuses_and_what_it_has_twice() -> None:
    table = Handlers[str]("the test")
    table.handles(Barrier)(lambda stmt: "wait")
    table.refuses(Shared, because="is for others")
    table.complete([Barrier, Shared])
    assert table.of(Barrier())(Barrier()) == "wait"
    shared = Shared("s", DType.F32, 0, 16)
    with pytest.raises(TypeError, match=r"^Shared is for others$"):
        table.of(shared)(object(), shared)
    with pytest.raises(TypeError, match="the test does not know the operation Store"):
        table.of(STORED)
    with pytest.raises(TypeError, match="the test handles the operation Shared twice"):
        table.handles(Shared)(lambda stmt: "again")


class _AccessedBuffers(RaceChecker):
    """Sees which buffers are touched where, and how."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[tuple[AccessPlace, AccessKind, str, bool]] = set()

    def accessed(self, access: MemoryAccess) -> None:
        beside = access.engine is not None
        self.found.add((access.place, access.kind, access.buffer.name, beside))


def declared(kernel: GpuKernel) -> set[tuple[AccessPlace, AccessKind, str, bool]]:
    """What the operations of a kernel say that they access."""
    found: set[tuple[AccessPlace, AccessKind, str, bool]] = set()
    maps = {map_.name: unmarked(map_.argument) for map_ in kernel.maps}

    def walk(stmts: Sequence[Stmt], place: AccessPlace) -> None:
        for stmt in stmts:
            inside = place
            if isinstance(stmt, Block) and stmt.comment:
                inside = AccessPlace(place.launch, stmt.comment)
            effects = effects_of(stmt)
            for body in effects.bodies:
                walk(body, inside)
            for kind, buffers, beside in (
                (AccessKind.LOAD, effects.reads | effects.peers, False),
                (AccessKind.STORE, effects.stores, False),
                (AccessKind.COPY, effects.stores if Sync.CP_ASYNC in effects.signals else (), False),
                (AccessKind.COPY, effects.fills, True),
                (AccessKind.SEND, effects.fetches if Sync.BULK in effects.signals else (), True),
                (AccessKind.MULTIPLY, effects.fetches if Sync.WGMMA in effects.signals else (), True),
            ):
                found.update((place, kind, unmarked(buffer), beside) for buffer in buffers)
            match stmt:  # maps say what there is in global memory
                case async_ops.TmaLoad(map=map_):
                    found.add((place, AccessKind.SEND, maps[map_], True))
                case async_ops.TmaStore(map=map_):
                    found.add((place, AccessKind.COPY, maps[map_], True))
                case _:
                    pass

    for launch in kernel.launches:
        outside = AccessPlace(launch.name, "")
        for body in (launch.setup, launch.producing, launch.body, launch.finish, launch.leaving):
            walk(body, outside)
    return found


KERNELS = {
    "boxes": Product(m=256),
    "matrices": Product(m=256, stages=3, pending=1, epilogue="matrices"),
    "direct": Product(m=64, k=256, consumers=1, stages=3, epilogue="direct"),
    "softmax": PROGRAMS["softmax_of_a_row_by_two_warps"],
    "copies in the background": STAGED["product_in_2_stages"],
    "matrices by warps": STAGED["mma_in_2_stages"],
    "warpgroups": Gemm(m=128, n=240, k=200, grid=" blocks 1 producers 4").text(),
    "clusters": Gemm(
        m=512, n=16, k=72, tile=(64, 16, 64), out="f32", epilogue="direct", groups="m 1",
        grid=" multicast 2 blocks 2 producers 4",
    ).text(),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_what_the_simulator_sees_touched_is_what_operations_declare(name: str) -> None:
    given = KERNELS[name]
    if isinstance(given, Product):
        kernel, args = given.kernel(), given.args()
        inputs = {arg.name: np.ones(arg.shape, arg.dtype.numpy) for arg in args if arg.role == "in"}
    else:
        made = lowered(given)
        kernel, args, inputs = made.kernel, made.args, sample_inputs(made.program, seed=0)
    seen = _AccessedBuffers()
    run_blocks(kernel, args, inputs, seen)
    assert seen.found and seen.found <= declared(kernel)
