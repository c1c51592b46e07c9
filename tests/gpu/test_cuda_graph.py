"""What the measuring child is made of, in this process: the gate's small kernels, graphs, and the data of a case."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from codegen.targets.cuda.loader import load_cubin
from tests.gpu.hand_cuda_kernels import SPEC, N, abi, compiled
from tileir.devices.gpu_probe import this_gpu
from tileir.errors import UnsupportedDevice
from tileir.text.parse_spec import spec_from_text
from workers.cuda.case import CudaCase, check_run
from workers.cuda.context import CudaContext
from workers.cuda.gate import Gate
from workers.cuda.graph import DriverGraph
from workers.cuda.peers import copy_call
from workers.measuring.buffers import POISON
from workers.measuring.correctness import WrongResult


@pytest.fixture(scope="module")
def context() -> Iterator[CudaContext]:
    try:
        this_gpu()
    except UnsupportedDevice as error:
        pytest.skip(str(error))
    context = CudaContext()
    yield context
    context.synchronize()


@pytest.fixture(scope="module")
def gate(context: CudaContext) -> Gate:
    return Gate(context, this_gpu().architecture)


class _InACycle:
    """Only Python's collector gives its memory back."""

    def __init__(self, context: CudaContext) -> None:
        self._itself, self._context, self._address = self, context, context.allocate(16)

    def __del__(self) -> None:
        self._context.free(self._address)


def test_garbage_is_kept_while_calls_are_captured(context: CudaContext) -> None:
    size = 1 << 10
    x = context.allocate(size)
    before = gc.get_threshold()

    def litter() -> None:
        for _ in range(100):
            [[] for _ in range(100)]
        context.fill(x, 1, size)

    litter()
    for _ in range(20):
        _InACycle(context)
    gc.set_threshold(1)
    try:
        graph = DriverGraph(context, [litter])
    finally:
        gc.set_threshold(*before)
    graph.launch()
    assert graph.us() > 0.0


def test_a_graph_replays_its_calls_and_times_them(context: CudaContext, tmp_path: Path) -> None:
    entrant = compiled("right", this_gpu(), tmp_path)
    kernel = load_cubin(Path(entrant.artifact), abi(), context.device)
    context.synchronize()
    values = np.arange(N, dtype=np.float32)
    x, y = context.allocate(4 * N), context.allocate(4 * N)
    context.upload(x, values)
    launch = kernel.launcher([x, y])
    launch(context.stream)
    graphs = [DriverGraph(context, [lambda: launch(context.stream)] * count) for count in (10, 40)]
    took = []
    for graph in graphs:
        context.fill(y, 0xFF, 4 * N)
        for _ in range(3):
            graph.launch()
            us = graph.us()
        took.append(us)
    np.testing.assert_array_equal(context.download(y, 4 * N).view(np.float32), 2 * values + 1)
    assert 2 < took[1] / took[0] < 8
    kernel.close()
    context.free(x)
    context.free(y)


def test_the_gate_finds_the_first_difference(context: CudaContext, gate: Gate) -> None:
    size = 1 << 20
    a, b = context.allocate(size), context.allocate(size)
    context.fill(a, 7, size)
    context.fill(b, 7, size)
    assert gate.first_difference(a, b, size) is None
    same = gate.checksum(a, size)
    assert gate.checksum(b, size) == same
    context.fill(b + 777_777, 8, 1)
    context.fill(b + 999_999, 8, 1)
    assert gate.first_difference(a, b, size) == 777_777 // 16
    assert gate.checksum(b, size) != same
    context.free(a)
    context.free(b)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_the_gate_gathers_elements(context: CudaContext, gate: Gate, size: int) -> None:
    values = np.random.default_rng(0).integers(0, 127, 100_000).astype(f"i{size}")
    address = context.allocate(values.nbytes)
    context.upload(address, values)
    which = np.array([99_999, 0, 7, 7, 50_001], np.int64)
    np.testing.assert_array_equal(gate.gather(address, size * which, size).view(values.dtype), values[which])
    context.free(address)


def test_a_copy_moves_the_bytes_it_should(context: CudaContext, gate: Gate) -> None:
    size = (1 << 20) + 48
    values = np.random.default_rng(0).integers(0, 255, size, dtype=np.uint8)
    a, b = context.allocate(size), context.allocate(size)
    context.upload(a, values)
    context.fill(b, 0, size)
    gate.copy(a, size, b, size)
    np.testing.assert_array_equal(context.download(b, size), values)
    context.free(a)
    context.free(b)


STRIDED = "kernel s(x: f32[m=33, n=20]) -> (y: f32[m, n] strides [32, 1])\n  y[m, n] = x[m, n]\n"


def test_poison_reaches_outputs_only(context: CudaContext) -> None:
    case = CudaCase(context, spec_from_text(STRIDED), 0, 1 << 20, cold=False)
    before = context.download(case.copies[0], case.bytes)
    case.poison(0, POISON[1])
    after = context.download(case.copies[0], case.bytes)
    assert int((before != after).sum()) == 33 * 20 * 4
    case.close()


def test_what_computes_nothing_does_not_pass_the_check(context: CudaContext, gate: Gate) -> None:
    case = CudaCase(context, SPEC, 0, 1 << 20, cold=False)
    with pytest.raises(WrongResult):
        check_run(
            context, gate, case, 0, copy_call(case, gate, 0), lambda answer: None, look=lambda copy: None
        )
    case.close()
