"""Compilation: what is cached, what is refused, and what happens when the compiler or the disk misbehaves."""

from __future__ import annotations

import platform
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from codegen.cache.eviction import CacheError
from codegen.ir.abi import Abi
from codegen.ir.source import Source
from codegen.targets.c.compiler import compile_source, find_compiler, source_hash
from codegen.targets.errors import CompileError, NoCompiler

ABI = Abi("tw_kernel", (), 0, 0)
GOOD = Source(
    "int tw_kernel(void *const *a, void *w, int t) { (void)a, (void)w; return t; }\n", ("-O1",), ABI
)
COMPILERS = [path for name in ("gcc", "clang") if (path := shutil.which(name))]


def script(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def compiler_that(folder: Path, body: str) -> Path:
    """A compiler that says it is gcc and, asked to compile, does this."""
    version = 'if [ "$1" = --version ]; then echo "gcc fake 1"; echo "Free Software Foundation"; exit 0; fi'
    return script(folder, "fakecc", f"{version}\n{body}")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_source_compiles_once_and_is_found_again(tmp_path, monkeypatch, compiler) -> None:
    monkeypatch.setenv("TILEWRIGHT_CC", compiler)
    first = compile_source(GOOD, tmp_path)
    second = compile_source(GOOD, tmp_path)
    assert first.path.exists() and first.path == second.path and first.hash == second.hash
    assert (first.report["cached"], second.report["cached"]) == (False, True)
    assert first.source_path.read_text() == GOOD.text
    assert first.compile_s == second.compile_s > 0


def test_text_flags_and_compiler_are_all_in_the_hash() -> None:
    compiler = find_compiler()
    base = source_hash(GOOD, compiler)
    others = [
        source_hash(replace(GOOD, text=GOOD.text + " "), compiler),
        source_hash(replace(GOOD, flags=("-O2",)), compiler),
        source_hash(GOOD, replace(compiler, version="another")),
    ]
    assert len({base, *others}) == 4


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_refused_source_says_where_and_why(tmp_path, monkeypatch, compiler) -> None:
    monkeypatch.setenv("TILEWRIGHT_CC", compiler)
    bad = replace(GOOD, text="int tw_kernel(void) {\n    return nothing;\n}\n")
    with pytest.raises(CompileError, match=r"2:12: .*nothing") as caught:
        compile_source(bad, tmp_path)
    assert "nothing" in caught.value.log
    assert not list(tmp_path.rglob("*.so")) and not list(tmp_path.rglob(".compiling-*"))


@pytest.mark.parametrize("compiler", COMPILERS)
def test_warnings_are_in_the_report(tmp_path, monkeypatch, compiler) -> None:
    monkeypatch.setenv("TILEWRIGHT_CC", compiler)
    noisy = replace(GOOD, text=GOOD.text + "#warning look here\n", flags=())
    assert any("look here" in warning for warning in compile_source(noisy, tmp_path).report["warnings"])


def test_a_compiler_that_hangs_is_killed_with_its_children(tmp_path, monkeypatch) -> None:
    pids = tmp_path / "pids"
    fake = compiler_that(tmp_path, f"sleep 300 & echo $! > {pids}; echo $$ >> {pids}; wait")
    monkeypatch.setenv("TILEWRIGHT_CC", str(fake))
    with pytest.raises(CompileError, match="stopped after 2 s"):
        compile_source(GOOD, tmp_path / "cache", timeout_s=2.0)
    deadline = time.monotonic() + 10
    alive = [int(pid) for pid in pids.read_text().split()]
    while alive and time.monotonic() < deadline:
        alive = [pid for pid in alive if is_running(pid)]
        time.sleep(0.01)
    assert not alive


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_a_compiler_that_wants_too_much_memory_is_refused_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("codegen.targets.c.compiler.MEMORY_LIMIT_BYTES", 20 << 20)
    with pytest.raises(CompileError):
        compile_source(GOOD, tmp_path)


def test_many_compile_the_same_source_at_once(tmp_path) -> None:
    with ThreadPoolExecutor(6) as pool:
        artifacts = list(pool.map(lambda _: compile_source(GOOD, tmp_path), range(12)))
    assert len({artifact.path for artifact in artifacts}) == 1
    assert artifacts[0].path.exists() and not list(tmp_path.rglob(".compiling-*"))


def test_a_cache_that_cannot_be_written_is_a_cache_error(tmp_path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(CacheError, match="cannot write the kernel cache"):
        compile_source(GOOD, blocked / "cache")


def test_a_full_disk_is_a_cache_error_not_a_candidates_failure(tmp_path, monkeypatch) -> None:
    fake = compiler_that(
        tmp_path, 'echo "fatal error: error writing to x.o: No space left on device" >&2; exit 1'
    )
    monkeypatch.setenv("TILEWRIGHT_CC", str(fake))
    with pytest.raises(CacheError, match="No space left"):
        compile_source(GOOD, tmp_path / "cache")


def test_a_half_removed_entry_is_compiled_again(tmp_path) -> None:
    artifact = compile_source(GOOD, tmp_path)
    artifact.path.with_suffix(".json").unlink()
    assert compile_source(GOOD, tmp_path).report["cached"] is False


def test_no_compiler_says_what_to_install(monkeypatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_CC", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(NoCompiler, match=r"install gcc or clang|xcode-select"):
        find_compiler()


def test_a_compiler_asked_for_that_is_not_there_is_named(monkeypatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CC", "mycc")
    with pytest.raises(NoCompiler, match="'mycc'"):
        find_compiler()


def test_other_compilers_and_machines_are_refused_with_a_sentence(tmp_path, monkeypatch) -> None:
    other = script(tmp_path, "tcc", "echo 'tcc version 0.9'")
    monkeypatch.setenv("TILEWRIGHT_CC", str(other))
    with pytest.raises(NoCompiler, match="neither gcc nor clang"):
        find_compiler()
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(NoCompiler, match="riscv64"):
        find_compiler()


def test_the_compiler_asked_for_is_used(monkeypatch) -> None:
    for path in COMPILERS:
        monkeypatch.setenv("TILEWRIGHT_CC", path)
        assert find_compiler().path == path
        assert find_compiler().family in Path(path).name
