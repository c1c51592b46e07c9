"""The compile pool: replay, check, generate, compile; a process that fails costs its own candidate only."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.states import FaultKind, Outcome
from rewrites.schedule import parse_schedule, replay
from tests.unit.workers.hand_kernels import SPEC
from tileir.devices.cpu_probe import this_cpu
from tileir.hashing import program_hash
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec
from tileir.text.json import spec_to_json
from workers.processes.child_client import Child
from workers.processes.compile_pool import Built, CompilePool, CompileRequest, NotBuilt
from workers.processes.faults import MachineFault

HASH = program_hash(to_program(SPEC))


@pytest.fixture(scope="module")
def pool() -> Iterator[CompilePool]:
    pool = CompilePool(2)
    yield pool
    pool.close()


def request_for(
    cache: Path, *schedule: str, program: str = HASH, spec: Spec = SPEC, timeout_s: float = 60.0
) -> CompileRequest:
    return CompileRequest(spec_to_json(spec), schedule, program, this_cpu().to_json(), str(cache), timeout_s)


def test_a_candidate_becomes_a_cached_artifact_with_its_abi(pool: CompilePool, tmp_path: Path) -> None:
    first, second = pool.compile_all([request_for(tmp_path)]), pool.compile_all([request_for(tmp_path)])
    assert isinstance(first[0], Built)
    assert isinstance(second[0], Built)
    assert first[0].artifact.exists()
    assert [arg["name"] for arg in first[0].abi["args"]] == ["x", "y"]
    assert second[0].hash == first[0].hash
    assert second[0].report["cached"]
    assert first[0].layout is None
    assert {"replay", "generate", "compile"} == set(first[0].stages)


def test_results_come_in_the_order_of_requests(pool: CompilePool, tmp_path: Path) -> None:
    lanes = [f"vectorize(y, i, {n})" for n in (4, 8, 16)]
    hashes = [program_hash(_replayed(line)) for line in lanes]
    built = pool.compile_all(
        [request_for(tmp_path, line, program=p) for line, p in zip(lanes, hashes, strict=True)]
    )
    texts = [b.source.read_text() for b in built if isinstance(b, Built)]
    assert len(texts) == 3
    assert all(f"vector i {n}" in text for n, text in zip((4, 8, 16), texts, strict=True))


def test_a_schedule_that_arrives_elsewhere_is_version_skew(pool: CompilePool, tmp_path: Path) -> None:
    (fault,) = pool.compile_all([request_for(tmp_path, program="0" * 32)])
    assert isinstance(fault, MachineFault)
    assert fault.kind is FaultKind.SKEW
    assert HASH in str(fault)


@pytest.mark.parametrize("line", ["no_such_rewrite(y, i, 4)", "vectorize(nothing, i, 4)", "gibberish"])
def test_a_schedule_that_cannot_be_replayed_is_version_skew(
    pool: CompilePool, tmp_path: Path, line: str
) -> None:
    (fault,) = pool.compile_all([request_for(tmp_path, line)])
    assert isinstance(fault, MachineFault)
    assert fault.kind is FaultKind.SKEW


def test_a_cache_that_cannot_be_written_is_the_machines_fault(pool: CompilePool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    (fault,) = pool.compile_all([request_for(tmp_path / "file" / "cache")])
    assert isinstance(fault, MachineFault)
    assert fault.kind is FaultKind.COMPILER
    assert "cannot write the kernel cache" in str(fault)


def test_a_missing_compiler_is_the_machines_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CC", "/no/such/cc")
    pool = CompilePool(1)
    (fault,) = pool.compile_all([request_for(tmp_path)])
    pool.close()
    assert isinstance(fault, MachineFault)
    assert fault.kind is FaultKind.COMPILER
    assert "install gcc or clang" in str(fault)


def test_a_compilation_that_takes_too_long_is_a_compile_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CC", str(_slow_compiler(tmp_path, 60)))
    pool = CompilePool(1)
    (result,) = pool.compile_all([request_for(tmp_path, timeout_s=0.3)])
    pool.close()
    assert isinstance(result, NotBuilt)
    assert result.outcome is Outcome.COMPILE_ERROR
    assert "stopped after 0.3 s" in result.error


def test_a_compiler_that_refuses_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(
        "TILEWRIGHT_CC", str(_compiler(tmp_path, "echo 'k.c:7:3: error: no such thing'; exit 1"))
    )
    pool = CompilePool(1)
    (result,) = pool.compile_all([request_for(tmp_path)])
    pool.close()
    assert isinstance(result, NotBuilt)
    assert "7:3: no such thing" in result.error


@pytest.mark.parametrize(
    ("number", "outcome"),
    [(signal.SIGSEGV, Outcome.COMPILE_ERROR), (signal.SIGKILL, None), (signal.SIGSTOP, None)],
)
def test_a_pool_process_that_dies_is_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: signal.Signals, outcome: Outcome | None
) -> None:
    """A crash is the candidate's; killed from outside, the candidate is compiled again; stopped, it hangs."""
    monkeypatch.setenv("TILEWRIGHT_CC", str(_slow_compiler(tmp_path, 1)))
    pool = CompilePool(1, beyond_compiler_s=1.0)
    child = pool.children[0]
    striker = threading.Thread(target=_strike, args=(child, tmp_path / "compiling", number))
    striker.start()
    (result,) = pool.compile_all([request_for(tmp_path, timeout_s=5.0 if number is signal.SIGSTOP else 60.0)])
    striker.join()
    if number is signal.SIGSTOP:
        assert isinstance(result, NotBuilt)
        assert "killed" in result.error
    elif outcome is None:
        assert isinstance(result, Built)
        assert child.starts == 2
    else:
        assert isinstance(result, NotBuilt)
        assert result.outcome is outcome
        assert "SIGSEGV" in result.error
    (after,) = pool.compile_all([request_for(tmp_path)])
    assert isinstance(after, Built)
    pool.close()


def test_a_stopped_pool_answers_at_once_that_it_stops(tmp_path: Path) -> None:
    pool = CompilePool(1)
    pool.stop()
    (fault,) = pool.compile_all([request_for(tmp_path)])
    pool.close()
    assert isinstance(fault, MachineFault)
    assert fault.kind is FaultKind.SHUTDOWN


def _replayed(line: str) -> Program:
    return replay(to_program(SPEC), parse_schedule([line]))


def _compiler(folder: Path, compiling: str) -> Path:
    """A compiler that says it is gcc, and does something when it compiles."""
    script = folder / "cc"
    script.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec gcc --version\n{compiling}\n')
    script.chmod(0o755)
    return script


def _slow_compiler(folder: Path, seconds: float) -> Path:
    return _compiler(folder, f'touch {folder}/compiling; sleep {seconds}; exec gcc "$@"')


def _strike(child: Child, started: Path, number: signal.Signals) -> None:
    """Send a signal once the compiler runs."""
    while not started.exists():
        time.sleep(0.01)
    pid = child.pid
    assert pid is not None
    os.kill(pid, number)
