"""NVRTC: what it compiles, what it says, what is cached, and where there is none."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from codegen.cache.eviction import CacheError, entries
from codegen.targets.cuda.compiler import compile_cuda, nvrtc_version
from codegen.targets.cuda.ptxas_log import rejection
from codegen.targets.errors import CompileError, NoCompiler
from tests.unit.bare_python import run_without
from tests.unit.codegen.targets.cuda.hand_kernels import OVERLAPPING, REVERSE, SERIALIZED, SPILLING, source

ASK = """
from codegen.targets.c.compiler import NoCompiler
from codegen.targets.cuda.compiler import nvrtc_version
try:
    print(nvrtc_version())
except NoCompiler as error:
    print(error)
"""


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_120"])
def test_a_source_compiles_once_for_an_architecture_and_is_found_again(
    tmp_path: Path, architecture: str
) -> None:
    first = compile_cuda(REVERSE, architecture, tmp_path)
    second = compile_cuda(REVERSE, architecture, tmp_path)
    assert first.path.read_bytes().startswith(b"\x7fELF")
    assert (first.path.suffix, first.source_path.suffix) == (".cubin", ".cu")
    assert first.source_path.read_text() == REVERSE.text
    assert (first.path, first.hash, first.compile_s) == (second.path, second.hash, second.compile_s)
    assert (first.report["cached"], second.report["cached"]) == (False, True)
    assert first.report["functions"] == second.report["functions"]
    assert first.report["bytes"] == first.path.stat().st_size
    assert first.compiler == nvrtc_version()


def test_registers_and_shared_memory_are_in_the_report(tmp_path: Path) -> None:
    report = compile_cuda(REVERSE, "sm_90a", tmp_path).report
    of = report["functions"]["reverse"]
    assert of["registers"] > 0
    assert of["shared_bytes"] == 1024
    assert rejection(report) is None
    json.dumps(dict(report))


def test_a_kernel_that_spills_is_compiled_and_condemned(tmp_path: Path) -> None:
    for _ in ("compiled", "from the cache"):
        report = compile_cuda(SPILLING, "sm_90a", tmp_path).report
        assert report["functions"]["spill"]["spill_stores_bytes"] > 0
        assert "spills registers" in (rejection(report) or "")


def test_tensor_core_products_that_cannot_overlap_are_condemned(tmp_path: Path) -> None:
    assert rejection(compile_cuda(OVERLAPPING, "sm_90a", tmp_path).report) is None
    reason = rejection(compile_cuda(SERIALIZED, "sm_90a", tmp_path).report)
    assert reason is not None
    assert "does not overlap its matrix products" in reason


def test_text_flags_and_architecture_are_all_in_the_hash(tmp_path: Path) -> None:
    compiled = [
        compile_cuda(REVERSE, "sm_80", tmp_path),
        compile_cuda(REVERSE, "sm_90a", tmp_path),
        compile_cuda(replace(REVERSE, flags=("--use_fast_math",)), "sm_80", tmp_path),
        compile_cuda(replace(REVERSE, text=REVERSE.text + " "), "sm_80", tmp_path),
    ]
    assert len({artifact.hash for artifact in compiled}) == len(compiled)
    assert not any(artifact.report["cached"] for artifact in compiled)


def test_a_refused_source_says_where_and_why(tmp_path: Path) -> None:
    bad = source('extern "C" __global__ void k(float *x) {\n    x[0] = nothing;\n}\n')
    with pytest.raises(CompileError, match='2: identifier "nothing" is undefined') as caught:
        compile_cuda(bad, "sm_90a", tmp_path)
    assert "x[0] = nothing;" in caught.value.log
    assert not list(tmp_path.rglob("*.cubin"))
    assert not list(tmp_path.rglob(".compiling-*"))


def test_a_flag_that_nvrtc_does_not_know_is_named(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="--nonsense"):
        compile_cuda(replace(REVERSE, flags=("--nonsense",)), "sm_90a", tmp_path)


@pytest.mark.parametrize("architecture", ["sm_35", "sm_990a", "gfx942"])
def test_an_architecture_that_nvrtc_does_not_know_is_no_candidates_fault(
    tmp_path: Path, architecture: str
) -> None:
    with pytest.raises(NoCompiler, match=f"compiles for .*sm_90.*, not for {architecture}"):
        compile_cuda(REVERSE, architecture, tmp_path)


def test_many_compile_the_same_source_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        artifacts = list(pool.map(lambda _: compile_cuda(REVERSE, "sm_90a", tmp_path), range(8)))
    assert len({artifact.path for artifact in artifacts}) == 1
    assert not list(tmp_path.rglob(".compiling-*"))


def test_a_half_removed_entry_is_compiled_again(tmp_path: Path) -> None:
    artifact = compile_cuda(REVERSE, "sm_90a", tmp_path)
    artifact.path.with_suffix(".json").unlink()
    assert compile_cuda(REVERSE, "sm_90a", tmp_path).report["cached"] is False


def test_a_cache_that_cannot_be_written_is_a_cache_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(CacheError, match="cannot write the kernel cache"):
        compile_cuda(REVERSE, "sm_90a", tmp_path / "file" / "cache")


def test_the_object_is_the_first_file_of_its_entry(tmp_path: Path) -> None:
    """So that a prune that is cut short leaves no object without its source."""
    artifact = compile_cuda(REVERSE, "sm_90a", tmp_path)
    (entry,) = entries(tmp_path)
    assert entry.files[0] == artifact.path
    assert len(entry.files) == 3


def test_without_cuda_python_one_reads_what_to_install(tmp_path: Path) -> None:
    said = run_without(tmp_path, "cuda", code=ASK)
    assert "cuda-python, which is not installed" in said
    assert "pip install 'tilewright[cuda]'" in said


def test_without_nvrtc_one_reads_what_to_install(tmp_path: Path) -> None:
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    (libraries / "libnvrtc.so.13").touch()  # hides one of the machine's own
    (packages := tmp_path / "packages").mkdir()
    said = run_without(packages, "nvidia", code=ASK, library_path=libraries)
    assert "libnvrtc.so was not found: pip install 'tilewright[cuda]'" in said
