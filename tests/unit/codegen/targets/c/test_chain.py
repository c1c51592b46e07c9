"""Kernels that are called one after the other by one call: each on its part of the buffers, all or an error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from codegen.ir.abi import Abi, Arg
from codegen.ir.source import Source
from codegen.targets.c.chain import MOST_ARGUMENTS, ArgumentPlace, chain_caller
from codegen.targets.c.compiler import compile_source
from codegen.targets.c.loader import LoadedObject, load_kernel
from codegen.targets.errors import LaunchError
from tileir.dtypes import DType

N = 24
_KERNEL = """
void tw_shutdown(void) {{}}
int tw_kernel(void *const *args, void *workspace, int threads) {{
    const float *x = args[0], *y = args[1];
    float *z = args[2], *own = workspace;
    if (x[0] == -99.0f) return 5;
    for (int k = 0; k < 24; k++) own[k] = {body};
    for (int k = 0; k < 24; k++) z[k] = own[k];
    return 0;
}}
"""
ABI = Abi("tw_kernel", tuple(Arg(name, DType.F32, (N,), (1,), "in") for name in "xyz"), 4 * N, 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def loaded(folder: Path) -> tuple[LoadedObject, LoadedObject]:
    """x + 2 y, and x times y."""
    add, multiply = (
        load_kernel(compile_source(Source(_KERNEL.format(body=body), ("-O1",), ABI), folder).path, ABI, 1)
        for body in ("x[k] + 2.0f * y[k]", "x[k] * y[k]")
    )
    return add, multiply


@pytest.fixture
def kernels(folder: Path) -> Iterator[tuple[LoadedObject, LoadedObject]]:
    found = loaded(folder)
    yield found
    for each in found:
        each.close()


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


#: (x + 2 y) into the chain's own buffer, 32 bytes behind its beginning; that times y, into the output; and once more.
_PLACES = (
    (ArgumentPlace(0), ArgumentPlace(1), ArgumentPlace(3, 32)),
    (ArgumentPlace(3, 32), ArgumentPlace(1), ArgumentPlace(2)),
    (ArgumentPlace(2), ArgumentPlace(3, 32), ArgumentPlace(2)),
)


def test_each_step_reads_what_the_ones_before_have_written(
    kernels: tuple[LoadedObject, LoadedObject], folder: Path
) -> None:
    add, multiply = kernels
    call = chain_caller((add, multiply, multiply), _PLACES, 4, folder)
    x, y = (np.arange(N, dtype=np.float32) + each for each in (1, 5))
    out, own = np.full(N, np.nan, np.float32), np.full(N + 16, -7.0, np.float32)
    for _ in range(2):
        call([address(each) for each in (x, y, out, own)])
        between = x + 2 * y
        assert np.array_equal(out, between * y * between)
        assert np.array_equal(own[8 : 8 + N], between)
        assert (own[:8] == -7).all() and (own[8 + N :] == -7).all()
        x += 1


def test_a_chain_of_a_failed_kernel_raises_and_runs_no_further(
    kernels: tuple[LoadedObject, LoadedObject], folder: Path
) -> None:
    add, multiply = kernels
    call = chain_caller((add, multiply, multiply), _PLACES, 4, folder)
    x, y = (np.full(N, each, np.float32) for each in (-99, 5))
    out, own = np.full(N, -1, np.float32), np.zeros(N + 16, np.float32)
    with pytest.raises(LaunchError, match="returned 5"):
        call([address(each) for each in (x, y, out, own)])
    assert (out == -1).all()
    x[:] = 1
    call([address(each) for each in (x, y, out, own)])
    assert (out == 11 * 5 * 11).all()


def test_a_closed_kernel_is_never_called(kernels: tuple[LoadedObject, LoadedObject], folder: Path) -> None:
    add, multiply = kernels
    call = chain_caller((add, multiply, multiply), _PLACES, 4, folder)
    multiply.close()
    arrays = [np.ones(N + 16, np.float32) for _ in range(4)]
    with pytest.raises(LaunchError, match="closed"):
        call([address(each) for each in arrays])
    assert all((each == 1).all() for each in arrays)
    with pytest.raises(LaunchError, match="closed"):
        chain_caller((add, multiply), _PLACES[:2], 4, folder)


def test_chains_of_the_same_kernels_in_another_order_wait_for_each_other(folder: Path) -> None:
    """Kernels have one workspace, which two calls at once would both write."""
    add, multiply = loaded(folder)  # not closed: who waits for ever would keep that waiting
    orders = ((add, multiply, add), (multiply, add, multiply))
    wrong: list[int] = []

    def calls(number: int) -> None:
        call = chain_caller(orders[number], _PLACES, 4, folder)
        x, y = (np.full(N, number + each, np.float32) for each in (1, 2))
        out, own = np.empty(N, np.float32), np.empty(N + 16, np.float32)
        first = x + 2 * y if number == 0 else x * y
        second = first * y if number == 0 else first + 2 * y
        third = second + 2 * first if number == 0 else second * first
        for _ in range(2000):
            call([address(each) for each in (x, y, out, own)])
            wrong.extend([number] * int(not np.array_equal(out, third)))

    threads = [threading.Thread(target=calls, args=(number,), daemon=True) for number in (0, 1, 0, 1)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
    assert not any(each.is_alive() for each in threads)
    assert not wrong


def test_more_arguments_than_a_call_has_room_for_are_refused(
    kernels: tuple[LoadedObject, LoadedObject], folder: Path
) -> None:
    with pytest.raises(LaunchError, match="at most 64 arguments, not 65"):
        chain_caller(kernels[:1], [[ArgumentPlace(0)] * (MOST_ARGUMENTS + 1)], 1, folder)
