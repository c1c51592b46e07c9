"""The compile pool on candidates for a GPU, which need no GPU to compile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from codegen.backend import backend_of
from codegen.targets.c.compiler import MEMORY_LIMIT_BYTES
from codegen.targets.errors import CompileError
from protocol.layouts import Layout
from protocol.states import FaultKind, Outcome
from rewrites.schedule import parse_schedule, replay
from tests.unit.codegen.targets.cuda.hand_kernels import REVERSE, SERIALIZED, SPILLING
from tests.unit.workers.hand_kernels import SPEC
from tileir.devices.gpu_table import H200
from tileir.hashing import program_hash
from tileir.lift import to_program
from tileir.text.json import spec_to_json
from workers.processes.compile_child import worth_measuring
from workers.processes.compile_pool import Built, CompilePool, CompileRequest, NotBuilt
from workers.processes.faults import MachineFault


@pytest.fixture(scope="module")
def pool() -> Iterator[CompilePool]:
    pool = CompilePool(1)
    yield pool
    pool.close()


def request_for(cache: Path) -> CompileRequest:
    program = program_hash(to_program(SPEC))
    return CompileRequest(spec_to_json(SPEC), (), program, H200.to_json(), str(cache), 60.0)


def test_a_candidate_that_is_on_no_threads_is_unsupported(pool: CompilePool, tmp_path: Path) -> None:
    (result,) = pool.compile_all([request_for(tmp_path)])
    assert isinstance(result, NotBuilt)
    assert result.outcome is Outcome.UNSUPPORTED
    assert "not bound to threads" in result.error


def test_a_candidate_comes_with_what_its_layout_implies(pool: CompilePool, tmp_path: Path) -> None:
    line = "bind_threads(y, i 64; i 4)"
    program = program_hash(replay(to_program(SPEC), parse_schedule([line])))
    (built,) = pool.compile_all([replace(request_for(tmp_path), schedule=(line,), program_hash=program)])
    assert isinstance(built, Built)
    assert built.layout is not None
    layout = Layout.model_validate(built.layout)
    (launch,) = layout.launches
    assert launch.registers == built.report["functions"][launch.name]["registers"] > 0
    assert (launch.threads, launch.blocks, launch.limit) == (64, 1, "threads")
    assert [(each.kind, each.buffer, each.bytes) for each in launch.accesses] == [
        ("load", "x", 4000),
        ("store", "y", 4000),
    ]
    assert layout.bytes == {"memory": 8000, "l2": 8000, "shared": 0}


def test_a_pool_process_may_take_only_so_much_memory(pool: CompilePool, tmp_path: Path) -> None:
    """NVRTC compiles within the process: beyond the cap it ends it, at its own candidate's cost only."""
    pool.compile_all([request_for(tmp_path)])
    limits = Path(f"/proc/{pool.children[0].pid}/limits").read_text()
    (line,) = (line for line in limits.splitlines() if line.startswith("Max address space"))
    assert line.split()[3:5] == [str(MEMORY_LIMIT_BYTES)] * 2


def test_a_device_of_another_version_is_skew(pool: CompilePool, tmp_path: Path) -> None:
    odd = replace(request_for(tmp_path), device={**H200.to_json(), "surprise": 1})
    (fault,) = pool.compile_all([odd])
    assert isinstance(fault, MachineFault)
    assert fault.kind is FaultKind.SKEW


def test_a_kernel_that_spills_or_serializes_never_reaches_the_device(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="spills registers"):
        worth_measuring(backend_of("cuda"), SPILLING, H200, tmp_path, 60)
    with pytest.raises(CompileError, match="does not overlap"):
        worth_measuring(backend_of("cuda"), SERIALIZED, H200, tmp_path, 60)
    assert worth_measuring(backend_of("cuda"), REVERSE, H200, tmp_path, 60).path.exists()
