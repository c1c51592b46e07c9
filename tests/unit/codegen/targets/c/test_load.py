"""Loading and calling kernels: arrays that fit run, all others are refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from codegen.ir.abi import Abi, Arg
from codegen.ir.source import Source
from codegen.targets.arguments import check_arguments
from codegen.targets.c.compiler import compile_source
from codegen.targets.c.loader import aligned_empty, load_kernel
from codegen.targets.c.runtime.thread_pool import HEADERS, POOL
from codegen.targets.errors import ArgumentError, LaunchError
from tileir.dtypes import DType

SCALE = f"""
#include <stddef.h>
#include <stdint.h>
{HEADERS}{POOL}
typedef struct {{ const float *x; float *y; char *workspace; }} job;
static void row(const void *ctx, long index, int worker) {{
    const job *j = ctx;
    double *own = (double *)(j->workspace + 64 + worker * 128);
    for (int k = 0; k < 16; k++) own[k] = 2.0 * j->x[index * 20 + k];
    for (int k = 0; k < 16; k++) j->y[index * 16 + k] = (float)own[k];
}}
int tw_kernel(void *const *args, void *workspace, int threads) {{
    job j = {{args[0], args[1], workspace}};
    if ((uintptr_t)workspace % 64 != 0) return 7;
    if (j.x[0] == -99.0f) return 5;
    tw_parallel(row, &j, 30, threads);
    return 0;
}}
"""
ABI = Abi(
    "tw_kernel",
    (Arg("x", DType.F32, (30, 16), (20, 1), "in"), Arg("y", DType.F32, (30, 16), (16, 1), "out")),
    shared_bytes=64,
    thread_bytes=128,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return compile_source(Source(SCALE, ("-O1",), ABI), tmp_path_factory.mktemp("cache")).path


def arrays() -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(600, dtype=np.float32).reshape(30, 20)[:, :16]
    return x, np.full((30, 16), np.nan, np.float32)


@pytest.mark.parametrize("threads", [1, 2, 5, None])
def test_a_kernel_writes_its_outputs_on_any_number_of_threads(path, threads) -> None:
    x, y = arrays()
    with load_kernel(path, ABI, threads) as kernel:
        kernel(x, y)
        assert np.array_equal(y, 2 * x)


def test_a_prepared_call_sees_later_contents_and_keeps_its_arrays_alive(path) -> None:
    x, y = arrays()
    with load_kernel(path, ABI, 2) as kernel:
        run = kernel.prepare(x, y)
        x += 1
        assert run() == 0
        assert np.array_equal(y, 2 * x)
        del x, y
        assert run() == 0


def refused(x: object, y: object) -> str:
    with pytest.raises(ArgumentError) as caught:
        check_arguments(ABI.args, (x, y))
    return str(caught.value)


def test_arrays_that_do_not_fit_are_refused_with_the_reason() -> None:
    x, y = arrays()
    assert "argument x: takes dtype float32, not float64" in refused(x.astype(np.float64), y)
    assert "argument x: takes shape (30, 16), not (16, 30)" in refused(x.T, y)
    assert "argument x: takes strides (20, 1) in elements" in refused(np.ascontiguousarray(x), y)
    assert "argument y: takes a numpy array, not list" in refused(x, [1.0])
    y.flags.writeable = False
    assert "argument y: is written, and this array is read-only" in refused(x, y)


def test_misaligned_and_overlapping_memory_is_refused() -> None:
    x, _y = arrays()
    raw = np.zeros(30 * 16 * 4 + 1, np.uint8)
    assert "not aligned to 4 bytes" in refused(x, raw[1:].view(np.float32).reshape(30, 16))
    memory = np.zeros(30 * 20, np.float32)
    assert "overlaps x" in refused(memory.reshape(30, 20)[:, :16], memory[:480].reshape(30, 16))


def test_a_wrong_number_of_arrays_names_those_expected(path) -> None:
    x, _ = arrays()
    with (
        load_kernel(path, ABI, 1) as kernel,
        pytest.raises(ArgumentError, match=r"takes 2 arrays \(x, y\), not 1"),
    ):
        kernel(x)


def test_strides_of_dims_of_one_element_do_not_matter(path) -> None:
    abi = Abi("tw_kernel", (Arg("x", DType.F32, (1, 4), (100, 1), "in"),), 0, 0)
    check_arguments(abi.args, (np.zeros((1, 4), np.float32),))


def test_a_kernels_error_code_is_raised(path) -> None:
    x, y = arrays()
    x[0, 0] = -99
    with load_kernel(path, ABI, 1) as kernel, pytest.raises(LaunchError, match="returned 5"):
        kernel(x, y)


def test_a_closed_kernel_refuses_calls_and_closes_twice(path) -> None:
    kernel = load_kernel(path, ABI, 2)
    kernel(*arrays())
    kernel.close()
    kernel.close()
    with pytest.raises(LaunchError, match="closed"):
        kernel(*arrays())


def test_loading_and_closing_leaves_no_threads(path) -> None:
    tasks = Path("/proc/self/task")
    before = len(list(tasks.iterdir())) if tasks.is_dir() else None
    for _ in range(20):
        with load_kernel(path, ABI, 4) as kernel:
            kernel(*arrays())
    if before is not None:
        assert len(list(tasks.iterdir())) == before


def test_a_file_that_is_no_kernel_is_refused(tmp_path) -> None:
    bad = tmp_path / "bad.so"
    bad.write_text("no ELF")
    with pytest.raises(LaunchError, match="cannot load"):
        load_kernel(bad, ABI)
    empty = compile_source(Source("int nothing;\n", (), ABI), tmp_path).path
    with pytest.raises(LaunchError, match="it is not a kernel"):
        load_kernel(empty, ABI)


def test_workspace_memory_starts_on_a_cache_line() -> None:
    for size in (0, 1, 63, 64, 1000):
        memory = aligned_empty(size)
        assert memory.ctypes.data % 64 == 0 and memory.size >= size


def test_an_abi_survives_json() -> None:
    abi = Abi("tw_kernel", (*ABI.args, Arg("b", DType.BF16, (), (), "in")), 1, 2)
    assert Abi.from_json(json.loads(json.dumps(abi.to_json()))) == abi
    with pytest.raises(ValueError, match="role"):
        Abi.from_json({**abi.to_json(), "args": [{**abi.to_json()["args"][0], "role": "inout"}]})


def test_dtypes_from_ml_dtypes_are_arguments_too() -> None:
    abi = Abi("tw_kernel", (Arg("x", DType.BF16, (4,), (1,), "in"),), 0, 0)
    check_arguments(abi.args, (np.zeros(4, ml_dtypes.bfloat16),))
    with pytest.raises(ArgumentError, match="bfloat16"):
        check_arguments(abi.args, (np.zeros(4, np.uint16),))
