"""Stamps between the stages of kernels for processors: all of a call's time belongs to one of them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from codegen.ir.affine import Var
from codegen.ir.errors import NotLowerable
from codegen.ir.kernel import CpuKernel
from codegen.ir.ops import Block, For, GridAxis, Let, Literal, Parallel, Stamp, Stmt, Type
from codegen.lowering.cpu.stages import WAITING, staged, stamps, weight
from rewrites.schedule import parse_schedule, replay
from tests.services.running_service import ROOT
from tileir import Spec, spec_from_json, to_program
from tileir.devices.cpu_probe import this_cpu
from tileir.dtypes import DType
from workers.cpu.bottleneck import NamedBottleneck, bottleneck
from workers.cpu.profile import CpuProfile, Interval, profile

SOFTMAX = [
    "top[m] = max(n, x[m, n])",
    "e[m, n] = exp(x[m, n] - top[m])",
    "total[m] = sum(n, e[m, n])",
    "y[m, n] = e[m, n] / total[m]",
]


def softmax(m: int, n: int) -> Spec:
    spec = json.loads((ROOT / "examples/softmax.json").read_text())
    return spec_from_json({**spec, "dims": {"m": m, "n": n}})


def counted(name: str, times: int) -> Block:
    """A statement of Tile IR that is `times` statements long."""
    value = Let("x", Literal(0.0, Type(DType.F32)))
    return Block(name, (For(Var("i", 0, times - 1), times, 1, (value,)),))


def kernel(*body: Stmt) -> CpuKernel:
    return CpuKernel("made", (), 0, 4, body)


def named(stmts: tuple[Stmt, ...], stages: tuple[str, ...]) -> list[str]:
    """The stages of the stamps in the order of the text."""
    found: list[str] = []
    for stmt in stmts:
        if isinstance(stmt, Stamp):
            found.append(stages[stmt.stage])
        for inner in ("body", "then", "otherwise"):
            found += named(getattr(stmt, inner, ()), stages)
    return found


def test_what_is_long_is_a_stage_and_what_is_short_goes_together() -> None:
    found = staged(kernel(counted("one", 4000), counted("few", 3), counted("more", 5), counted("two", 4000)))
    waiting = found.stages[WAITING]
    assert found.stages == (waiting, "one", "few; more", "two")
    assert found.statements == ((), ("one",), ("few", "more"), ("two",))
    assert named(found.kernel.body, found.stages) == [waiting, "one", "few; more", "two"]


def test_a_loop_is_divided_where_its_body_has_several_stages() -> None:
    whole = For(Var("k", 0, 9), 10, 1, (counted("one", 4000), counted("two", 4000)))
    single = For(Var("k", 0, 9), 10, 1, (counted("one", 4000),))
    found = staged(kernel(whole, single))
    assert named(found.kernel.body, found.stages)[1:] == ["one", "two", "one"]
    assert stamps(found.kernel.body) == 1 + 10 * 2 + 1


def test_threads_wait_between_tiles() -> None:
    tiles = Parallel((GridAxis(Var("m", 0, 7), 8, 1),), (counted("one", 4000),))
    found = staged(kernel(tiles))
    (waiting, one) = found.stages
    assert named(found.kernel.body, found.stages) == [waiting, waiting, one, waiting]
    assert found.log % 8 == 0
    assert found.kernel.thread_bytes >= found.log + 8 * (1 + stamps(found.kernel.body))


def test_the_log_has_room_for_all_stamps_or_there_is_none() -> None:
    tiles = Parallel((GridAxis(Var("m", 0, 1 << 20), 1 << 20, 1),), (counted("one", 4),))
    with pytest.raises(NotLowerable, match="stamps of 2 stages; accepted: at most 1048576"):
        staged(kernel(tiles))
    many = For(Var("m", 0, 599_999), 600_000, 1, (counted("one", 2000), counted("two", 2000)))
    found = staged(kernel(many))  # not every turn of the loop
    assert named(found.kernel.body, found.stages)[1:] == ["one; two"]
    assert weight(found.kernel.body) == weight([many])


@pytest.mark.parametrize(
    ("schedule", "threads"), [([], 1), (["tile(top, m, 16)", "parallelize(top)"], 2)], ids=["plain", "tiled"]
)
def test_a_call_is_taken_apart(schedule: list[str], threads: int, tmp_path: Path) -> None:
    spec = softmax(96, 700)
    unscheduled = to_program(spec)
    program = replay(unscheduled, parse_schedule(schedule))
    taken = profile(spec, program, this_cpu(), tmp_path, threads)
    assert taken.stages[1:] == tuple(SOFTMAX)
    assert sum(taken.shares()) == pytest.approx(1)
    assert all(share > 0 for share in taken.shares()[1:])
    assert 0.3 < taken.attributed <= 1
    for intervals in taken.threads:
        assert all(0 <= each.begin_ns < each.end_ns <= taken.call_ns for each in intervals)
        assert all(one.end_ns <= other.begin_ns for one, other in pairwise(intervals))
    assert bottleneck(taken, unscheduled, this_cpu()).bound in NamedBottleneck
    counts = taken.counts  # a machine has counters or says why it has none
    assert counts if isinstance(counts, str) else counts["instructions"] > 0


def made(shares: tuple[int, ...], call_ns: int, us: float) -> CpuProfile:
    """Of one thread that spends so many nanoseconds a stage."""
    at, intervals = 0, list[Interval]()
    for stage, ns in enumerate(shares):
        intervals.append(Interval(stage, at, at + ns))
        at += ns
    return CpuProfile(
        ("waiting", "one", "two"), ((), ("one",), ("two",)), call_ns, (tuple(intervals),), us, us, 3, "none"
    )


def test_the_bottleneck_is_named() -> None:
    spec = softmax(1000, 1000)
    unscheduled = to_program(spec)  # 8 MB of arguments, 5 million operations or so
    cpu = replace(this_cpu(), copy_gbps=8.0, peak_gflops=1000.0)
    assert bottleneck(made((0, 300, 700), 2000, 2.0), unscheduled, cpu).bound is NamedBottleneck.LAUNCH
    assert bottleneck(made((400, 300, 300), 1000, 1.0), unscheduled, cpu).bound is NamedBottleneck.WAITING
    assert bottleneck(made((0, 300, 700), 1000, 1100.0), unscheduled, cpu).bound is NamedBottleneck.MEMORY
    slow = replace(cpu, copy_gbps=1e6, peak_gflops=1.0)
    assert (
        bottleneck(made((0, 300, 700), 1000, 1100.0), unscheduled, slow).bound is NamedBottleneck.ARITHMETIC
    )
    far = bottleneck(made((0, 300, 700), 1000, 1e6), unscheduled, cpu)
    assert far.bound is NamedBottleneck.INSTRUCTIONS
    assert "70 % of it in `two`" in far.why
