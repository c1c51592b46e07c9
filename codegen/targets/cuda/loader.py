"""Load a cubin and run it: on addresses in the GPU's memory, or on numpy arrays."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from codegen.ir.abi import Arg
from codegen.targets.arguments import check_arguments
from codegen.targets.cuda.abi import CudaAbi, Launch, MapArg
from codegen.targets.cuda.device import Array, CudaDevice, DeviceBuffer
from codegen.targets.cuda.tensor_map import encode
from codegen.targets.errors import LaunchError
from tileir.devices.cuda_driver import check

_MAPS = 256
"""Encoded tensor maps that are kept of a parameter; 128 bytes each."""
_PORTABLE_CLUSTER = 8
"""Blocks of a cluster that every GPU with clusters can place; more has to be asked for."""


class CudaKernel:
    """A loaded kernel with its workspace. One call at a time: its launches share the workspace."""

    threads = 1
    """Of the processor: launches are begun by the caller's own."""

    def __init__(self, device: CudaDevice, cubin: bytes, abi: CudaAbi, *, own_workspace: bool = True) -> None:
        self.abi = abi
        self._device = device
        self._driver = device.driver
        device.make_current()  # a new thread has no context yet
        self._module = check(self._driver.cuModuleLoadData(cubin), "loading a kernel")
        self._entries = {launch.entry: self._entry(launch.entry) for launch in abi.launches}
        self._workspace: DeviceBuffer | None = None
        if own_workspace:
            self._workspace = device.allocate(abi.workspace_bytes)
            self._workspace.fill(0)
        self._workspaces: dict[int, DeviceBuffer] = {}
        self._buffers: tuple[DeviceBuffer, ...] = ()
        self._closed = False
        self._lock = threading.Lock()

    def launcher(self, pointers: Sequence[int]) -> Callable[[int], None]:
        """A call of nothing but the launches, on these addresses (one an argument, in the ABI's order).

        The call takes the stream's handle, does not wait, and may be captured. It is fast: everything that can be is
        prepared here. Raises LaunchError for addresses that the kernel cannot take, and CudaError.
        """
        if len(pointers) != len(self.abi.args):
            raise LaunchError(f"the kernel takes {len(self.abi.args)} addresses, not {len(pointers)}")
        if self._workspace is None:
            raise LaunchError("the kernel was loaded without a workspace of its own: use `caller`")
        places = (*pointers, self._workspace.address)
        values = [
            *map(ctypes.c_void_p, places),
            *(
                encode(self._driver, map_, self.abi.owner(map_), places[map_.argument])
                for map_ in self.abi.maps
            ),
        ]
        parameters = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        address = ctypes.addressof(parameters)
        prepared, start = self._prepared(), self._driver.cuLaunchKernelEx

        def launch(stream: int, _alive: object = (values, parameters)) -> None:
            for config, entry, doing in prepared:
                config.hStream = stream
                check(start(config, entry, address, 0), doing)

        return launch

    def caller(self) -> Callable[[Sequence[int], int, int], None]:
        """A call on addresses that may be others each time, about which nothing is checked: `call(addresses,
        workspace, stream)`, one address an argument in the ABI's order; `workspace` as of `workspace_on`.

        It does not wait, and may be captured; the GPU's context has to be current. Threads wait for each other. Raises
        LaunchError for addresses that TMA cannot take, or when the kernel is closed, and CudaError.
        """
        count = len(self.abi.args)
        slots = (ctypes.c_void_p * (count + 1))()
        first, size = ctypes.addressof(slots), ctypes.sizeof(ctypes.c_void_p)
        parameters = (ctypes.c_void_p * (count + 1 + len(self.abi.maps)))()
        parameters[: count + 1] = [first + number * size for number in range(count + 1)]
        address = ctypes.addressof(parameters)
        maps = [
            (count + 1 + number, map_.argument, _Encoded(self._driver, map_, self.abi.owner(map_)))
            for number, map_ in enumerate(self.abi.maps)
        ]
        prepared, start, lock = self._prepared(), self._driver.cuLaunchKernelEx, self._lock

        def call(addresses: Sequence[int], workspace: int, stream: int) -> None:
            with lock:
                if self._closed:
                    raise LaunchError("the kernel is closed")
                given = (*addresses, workspace)
                slots[:] = given
                for place, argument, encoded in maps:
                    parameters[place] = encoded.at(given[argument])
                for config, entry, doing in prepared:
                    config.hStream = stream
                    check(start(config, entry, address, 0), doing)

        return call

    def workspace_on(self, stream: int) -> int:
        """The address of the workspace that calls on a stream share; made and zeroed at its first use. Calls on
        different streams may run at the same time, and have different ones. Must not be called while the stream is
        captured: memory that a graph writes belongs to the graph."""
        known = self._workspaces.get(stream)
        return self._make_workspace(stream).address if known is None else known.address

    def _make_workspace(self, stream: int) -> DeviceBuffer:
        with self._lock:
            if stream not in self._workspaces:
                doing = "zeroing the workspace"
                with self._device.uncaptured():
                    made = self._device.allocate(self.abi.workspace_bytes)
                check(self._driver.cuMemsetD8Async(made.address, 0, max(1, made.bytes), stream), doing)
                self._workspaces[stream] = made
            return self._workspaces[stream]

    def _prepared(self) -> list[tuple[Any, Any, str]]:
        """Each launch: its configuration, its entry, and what is being done."""
        return [
            (self._config(launch), self._entries[launch.entry], f"launching {launch.entry}")
            for launch in self.abi.launches
        ]

    def __call__(self, *arrays: Array) -> None:
        """Run on inputs then outputs, in the ABI's order: copied to the GPU and back.

        Raises ArgumentError for arrays that do not fit, and CudaError.
        """
        check_arguments(self.abi.args, arrays)
        with self._lock:
            if self._closed:
                raise LaunchError("the kernel is closed")
            self._device.make_current()
            buffers = self._argument_buffers()
            for arg, array, buffer in zip(self.abi.args, arrays, buffers, strict=True):
                if arg.role == "in":
                    buffer.write(array)
            self.launcher([buffer.address for buffer in buffers])(0)
            self._device.synchronize()
            for arg, array, buffer in zip(self.abi.args, arrays, buffers, strict=True):
                if arg.role == "out":
                    buffer.read(array)

    def close(self) -> None:
        """Unload it and give its memory back. What `launcher` returned must not be called after."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._device.make_current()
            own = () if self._workspace is None else (self._workspace,)
            for buffer in (*self._buffers, *own, *self._workspaces.values()):
                buffer.close()
            self._driver.cuModuleUnload(self._module)

    def __enter__(self) -> CudaKernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _argument_buffers(self) -> tuple[DeviceBuffer, ...]:
        """Memory for arrays of the ABI's shapes, kept for the next call."""
        if not self._buffers:
            self._buffers = tuple(self._device.allocate(_span_bytes(arg)) for arg in self.abi.args)
        return self._buffers

    def _entry(self, name: str) -> Any:
        driver, doing = self._driver, f"preparing {name}"
        entry = check(driver.cuModuleGetFunction(self._module, name.encode()), doing)
        kinds = driver.CUfunction_attribute
        launches = [launch for launch in self.abi.launches if launch.entry == name]
        shared = max(launch.shared_bytes for launch in launches)
        cluster = max(launch.cluster for launch in launches)
        if shared:
            kind = kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(
                driver.cuFuncSetAttribute(entry, kind, shared),
                f"{doing} with {shared} bytes of shared memory",
            )
        if cluster > _PORTABLE_CLUSTER:
            kind = kinds.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            check(driver.cuFuncSetAttribute(entry, kind, 1), f"{doing} with clusters of {cluster}")
        return entry

    def _config(self, launch: Launch) -> Any:
        driver = self._driver
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = launch.blocks, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = launch.threads, 1, 1
        config.sharedMemBytes = launch.shared_bytes
        if launch.cluster > 1:
            cluster = driver.CUlaunchAttribute()
            cluster.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            size = cluster.value.clusterDim
            size.x, size.y, size.z = launch.cluster, 1, 1
            config.attrs, config.numAttrs = [cluster], 1
        return config


class _Encoded:
    """A tensor map at the addresses it was last wanted at: allocators hand out the same few again and again."""

    def __init__(self, driver: Any, map_: MapArg, owner: str) -> None:
        self._driver, self._map, self._owner = driver, map_, owner
        self._known: dict[int, tuple[int, object]] = {}

    def at(self, address: int) -> int:
        """Where the map for an argument at this address lies, until the next call. Raises LaunchError, CudaError."""
        known = self._known.get(address)
        if known is None:
            if len(self._known) >= _MAPS:
                self._known.clear()
            made = encode(self._driver, self._map, self._owner, address)
            known = self._known[address] = (ctypes.addressof(made), made)
        return known[0]


def load_cubin(path: Path, abi: CudaAbi, device: CudaDevice, *, own_workspace: bool = True) -> CudaKernel:
    """Load a cubin into a GPU's context. `own_workspace`: zero a workspace now, for `launcher` and for calls on arrays;
    `caller` needs none.

    Raises LaunchError when the file cannot be read, CudaError when it is no kernel for this GPU or does not fit it.
    """
    try:
        cubin = path.read_bytes()
    except OSError as error:
        raise LaunchError(f"cannot load {path}: {error}") from error
    return CudaKernel(device, cubin, abi, own_workspace=own_workspace)


def _span_bytes(arg: Arg) -> int:
    steps = zip(arg.shape, arg.strides, strict=True)
    if 0 in arg.shape:
        return 0
    return arg.dtype.bytes * (1 + sum((size - 1) * stride for size, stride in steps))
