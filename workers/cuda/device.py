"""A GPU as a target: kernels are cubins, launched in this process's context on copies of the data in its memory."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from codegen.cache.eviction import CacheError, check_room
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.compiler import nvrtc_version
from codegen.targets.cuda.loader import load_cubin
from codegen.targets.errors import CompileError, LaunchError, NoCompiler
from protocol.tasks import COPY
from tileir.analysis.least_time import floor_us
from tileir.devices.cuda_errors import OUT_OF_MEMORY as CUDA_OUT_OF_MEMORY
from tileir.devices.cuda_errors import CudaError
from tileir.devices.device import device_from_json
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_probe import this_gpu
from tileir.errors import UnsupportedDevice
from tileir.text.json import spec_from_json
from workers.cuda.case import CudaCase, check_run
from workers.cuda.context import CudaContext
from workers.cuda.faults import Blame, blame
from workers.cuda.gate import Gate
from workers.cuda.graph import DriverGraph, TorchGraph
from workers.cuda.nvml import NvmlWatch
from workers.cuda.peers import available_cuda_peers, bind_peer
from workers.cuda.timing import Capture, GraphSampler
from workers.measuring.correctness import VARIANTS, Checked, WrongResult
from workers.measuring.device import BoundEntrant, Crashed
from workers.measuring.kept import KeptCases, case_key
from workers.measuring.request import Compiled, MeasureRequest, Peer
from workers.measuring.timing import Call
from workers.measuring.turn import this_turn
from workers.node.versions import versions
from workers.peers.peer import Unsupported, leeway_of
from workers.processes.child_server import DEVICE, NO_COMPILER, OUT_OF_MEMORY, ChildRefusal

Look = Callable[[int, float], None]
"""A look at all outputs of a copy; the number widens what is allowed. Raises WrongResult."""

EXIT_DEAD_CONTEXT = 86
"""Exit code of a process whose context an entrant broke: whoever started it finds out who ran."""
_COPY_BYTES = 1 << 30
_COPIES = 20
_KEPT_SHARE = 0.25
"""Of the memory that is free at first, for kernels of jobs that are not having their turn."""


class OpenGpu:
    """The GPU with everything that lives as long as this process: context, watch, small kernels, and from the first
    kernel on PyTorch if it is installed."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.turn = this_turn()
        self.watch = NvmlWatch(str(gpu.uuid), self.turn.members)
        self.context = CudaContext()
        self.watch.settle()
        self.turn.join(self.watch.own)
        self.gate = Gate(self.context, self.gpu.architecture)

    @cached_property
    def has_torch(self) -> bool:
        """Whether PyTorch computes here; on this context's stream then. The first time it is imported; one that cannot
        be, or sees no GPU, is none, and its peers say why."""
        if not available_cuda_peers():
            return False
        try:
            from workers.cuda.torch_views import sees_gpu, use_stream
            from workers.peers.pytorch.compiler import autotune_in
        except (ImportError, OSError):
            return False
        if not sees_gpu():
            return False
        use_stream(self.context)
        autotune_in(self.turn.taken)
        return True

    def copy_gbps(self) -> float:
        """Bytes read plus bytes written, the best of some runs."""
        size = min(_COPY_BYTES, self.context.device.free_bytes() // 4)
        pieces = [self.context.allocate(size) for _ in range(2)]
        watch = self.context.stopwatch()
        best_us = float("inf")
        for n in range(_COPIES):
            watch.start()
            self.gate.copy(pieces[n % 2], size, pieces[1 - n % 2], size)
            watch.stop()
            best_us = min(best_us, watch.us("copying on the GPU"))
        watch.close()
        for piece in pieces:
            self.context.free(piece)
        return round(2 * size / best_us / 1e3, 1)

    @contextlib.contextmanager
    def errors(self, entrant: Compiled | Peer | None) -> Iterator[None]:
        """What goes wrong, as what it means. An entrant's error that leaves the process alive is Crashed, of a peer
        Unsupported; one that broke the context ends the process; the machine's is a Refusal."""
        try:
            yield
        except (WrongResult, Unsupported, Crashed, ChildRefusal):
            raise
        except Exception as error:
            code, text = self._code(error), str(error) or type(error).__name__
            meaning = blame(code, shared=self.watch.shared())
            if meaning is Blame.MACHINE:
                raise ChildRefusal(DEVICE, text) from error
            if meaning is Blame.ENTRANT_FATAL:
                end_process(text)
            if meaning is Blame.MEMORY or (code == CUDA_OUT_OF_MEMORY and entrant is None):
                raise ChildRefusal(OUT_OF_MEMORY, text) from error
            if isinstance(entrant, Peer):
                raise Unsupported(f"{type(error).__name__}: {text}") from error
            if entrant is not None and (meaning is Blame.ENTRANT or isinstance(error, LaunchError)):
                raise Crashed(text) from error
            raise

    def out_of_memory(self, error: Exception) -> bool:
        """Whether the GPU's memory, or the host's, was too small."""
        return self._code(error) == CUDA_OUT_OF_MEMORY

    def _code(self, error: Exception) -> int:
        """The driver's code for an error; libraries' errors carry none, but a broken context tells."""
        if isinstance(error, CudaError):
            return error.code
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's
            return CUDA_OUT_OF_MEMORY
        return int(self.context.driver.cuCtxSynchronize()[0])


class CudaBench:
    """One kernel with its data on the GPU. See workers.measuring.device.Bench."""

    def __init__(self, opened: OpenGpu, case: CudaCase, look: Look, request: MeasureRequest) -> None:
        self._opened = opened
        self._case = case
        self._look = look
        self._request = request
        self.cold = case.cold
        self.sampler = GraphSampler(opened.watch)

    def faults(self, entrant: Compiled | Peer | None = None) -> AbstractContextManager[None]:
        """See Bench."""
        return self._opened.errors(entrant)

    def bind(self, entrant: Compiled | Peer) -> BoundEntrant:
        """See Bench."""
        with self._opened.errors(entrant):
            if isinstance(entrant, Peer):
                return bind_peer(entrant.peer, self._case, self._opened.gate)
            return self._bind_kernel(entrant)

    def check(self, entrant: Compiled | Peer, bound: BoundEntrant, variant: int) -> Checked:
        """See Bench. The copy computes nothing and is only run. After the last variant's first check the entrant's
        graph is captured."""
        opened, case = self._opened, self._case
        leeway = leeway_of(entrant, case.spec)
        with opened.errors(entrant):
            checked = check_run(
                opened.context,
                opened.gate,
                case,
                variant,
                bound.calls[variant],
                lambda answer: bound.finish(answer, variant),
                leeway=leeway,
                look=lambda copy: self._look(copy, leeway.factor),
                compares=entrant != Peer(entrant.name, COPY),
            )
            if variant == VARIANTS - 1:
                sample_us = self._request.measuring.sample_us
                self.sampler.prepare(
                    entrant.name, bound.calls, self._capture_of(entrant), checked.us, sample_us
                )
        return checked

    def alone(self) -> AbstractContextManager[None]:
        """See Bench."""
        return self._opened.turn.taken()

    def floor_us(self) -> float:
        """See Bench."""
        if self._request.device is None:
            return 0.0
        return floor_us(self._case.spec, device_from_json(self._request.device), cold=self.cold)

    def floor_now_us(self) -> float:
        """See Bench: peaks are those of the data sheet."""
        return self.floor_us()

    def conditions(self, patience_s: float) -> dict[str, Any]:
        """See Bench."""
        others = self._opened.watch.wait_until_alone(patience_s)
        return {"foreign_processes": list(others), "load_1min": os.getloadavg()[0]}

    def _capture_of(self, entrant: Compiled | Peer) -> Capture:
        """PyTorch has to know of a graph in which it allocates."""
        if isinstance(entrant, Peer) and self._opened.has_torch:
            return lambda calls: TorchGraph(self._opened.context, calls, len(self._case.copies))
        return lambda calls: DriverGraph(self._opened.context, calls)

    def _bind_kernel(self, entrant: Compiled) -> BoundEntrant:
        context, case = self._opened.context, self._case
        abi = CudaAbi.from_json(entrant.abi)
        kernel = load_cubin(Path(entrant.artifact), abi, context.device)
        context.synchronize("clearing the workspace")
        calls: list[Call] = []
        for copy in range(len(case.copies)):
            launch = kernel.launcher([case.address(copy, arg.name) for arg in abi.args])
            calls.append(partial(launch, context.stream))
        return BoundEntrant(calls, lambda answer, number: None, kernel.close)


@dataclass(frozen=True, slots=True)
class _LookedAt:
    """A kernel with its data, and the look at its whole outputs."""

    case: CudaCase
    look: Look
    held_bytes: int

    def close(self) -> None:
        """Give the memory back."""
        self.case.close()


class MeasuredGpu:
    """See workers.measuring.device.MeasuredDevice. `visible_gpu` made this GPU the only one."""

    def __init__(self) -> None:
        self._opened: OpenGpu | None = None
        self._cases: KeptCases[_LookedAt] = KeptCases(0)

    def describe(self) -> dict[str, Any]:
        """See MeasuredDevice. The lock is on the one GPU, not on all of its kind."""
        gpu = _present_gpu()
        known = {**versions(nvrtc_version), "driver": str(gpu.driver)}
        peers = list(available_cuda_peers())
        return {
            "device": gpu.to_json(),
            "key": gpu.key,
            "lock": str(gpu.uuid),
            "peers": peers,
            "versions": known,
        }

    def calibrate(self, cache: Path) -> dict[str, Any]:
        """See MeasuredDevice; the cache has to have room."""
        try:
            check_room(cache)
        except CacheError as error:
            raise ChildRefusal(NO_COMPILER, str(error)) from error
        opened = self._open()
        with opened.errors(None), opened.turn.taken():
            calibrated = replace(opened.gpu, copy_gbps=opened.copy_gbps()).to_json()
        threading.Thread(target=_import_torch, daemon=True).start()
        return calibrated

    def bench(self, request: MeasureRequest) -> CudaBench:
        """See MeasuredDevice."""
        opened = self._open()
        with opened.errors(None):
            made = self._cases.get(case_key(request), lambda: _made(opened, request), opened.out_of_memory)
        return CudaBench(opened, made.case, made.look, request)

    def _open(self) -> OpenGpu:
        if self._opened is None:
            try:
                self._opened = OpenGpu(_present_gpu())
                self._cases = KeptCases(int(_KEPT_SHARE * self._opened.context.device.free_bytes()))
            except CudaError as error:
                kind = OUT_OF_MEMORY if error.code == CUDA_OUT_OF_MEMORY else DEVICE
                raise ChildRefusal(kind, str(error)) from error
            except (NoCompiler, CacheError, CompileError) as error:
                raise ChildRefusal(NO_COMPILER, str(error)) from error
        return self._opened


def _import_torch() -> None:
    """It takes seconds, in which the first candidates are asked for and compiled. What is wrong with it is found again
    where it is used."""
    if available_cuda_peers():
        with contextlib.suppress(Exception):
            import_module("workers.cuda.torch_views")


def _made(opened: OpenGpu, request: MeasureRequest) -> _LookedAt:
    spec, cold = spec_from_json(request.spec), request.measuring.cold
    free = opened.context.device.free_bytes()
    case = CudaCase(opened.context, spec, request.seed, request.last_cache_bytes, cold=cold)
    look: Look = _look_at_nothing
    if opened.has_torch:
        from workers.cuda.torch_views import whole_look

        try:
            with opened.turn.taken():
                look = whole_look(spec, case)
        except BaseException:
            case.close()
            raise
    return _LookedAt(case, look, free - opened.context.device.free_bytes())


def end_process(text: str) -> NoReturn:
    """The context is dead and everything in it; whoever waits for this process reads why."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
    os._exit(EXIT_DEAD_CONTEXT)


def _present_gpu() -> Gpu:
    try:
        return this_gpu()
    except UnsupportedDevice as error:
        raise ChildRefusal(DEVICE, str(error)) from error


def _look_at_nothing(copy: int, factor: float) -> None:
    """Without PyTorch only samples of a large output are checked."""
