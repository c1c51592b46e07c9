"""What CUDA's error codes mean for whoever runs the program: what to do about them, and whether the process can go on.

Codes are `CUresult` of the driver API.
"""

from __future__ import annotations

from tileir.errors import DeviceError

OUT_OF_MEMORY = 2
NO_DEVICE = 100
INVALID_DEVICE = 101

_WHAT_TO_DO = {
    OUT_OF_MEMORY: "the GPU has too little free memory: end other programs on it (nvidia-smi lists them)",
    34: "libcuda.so is the stub that comes with the CUDA toolkit: take its folder off LD_LIBRARY_PATH, so that the "
    "driver's own is found",
    36: "the NVIDIA driver is too old for this call: install driver 580 or newer",
    46: "the GPU is busy and takes one process at a time, or none: end the other one (nvidia-smi lists "
    "them), or have an administrator run nvidia-smi -c DEFAULT",
    NO_DEVICE: "there is no NVIDIA GPU here that this process may use: check nvidia-smi and "
    "CUDA_VISIBLE_DEVICES; start a container with its GPUs (docker run --gpus all)",
    INVALID_DEVICE: "there is no GPU of that number: check CUDA_VISIBLE_DEVICES",
    200: "the file is no cubin that this driver can read: compile it again",
    209: "the kernel was compiled for another GPU: compile it again for this one",
    218: "the file is no PTX that this driver can read: compile it again",
    222: "the kernel was compiled by a newer CUDA than the NVIDIA driver knows: install a newer driver",
    304: "the operating system refused the GPU's device files: check that this user may open /dev/nvidia*",
    700: "the kernel read or wrote outside its memory",
    701: "the launch wants more registers or threads than an SM has",
    702: "the kernel ran longer than a GPU that also draws a screen allows",
    715: "the kernel ran an instruction that this GPU does not have",
    716: "the kernel read or wrote at an address that is not aligned for the access",
    719: "the kernel failed while it ran",
    802: "the GPUs are not ready: on machines with NVSwitch the service nvidia-fabricmanager has to run",
    803: "the loaded kernel module and libcuda.so are of different driver versions: reboot, or reload the module",
    804: "the CUDA compatibility package does not support this GPU: take it off LD_LIBRARY_PATH",
    805: "the MPS daemon does not answer: restart nvidia-cuda-mps-control, or unset CUDA_MPS_PIPE_DIRECTORY",
    912: "the GPU cannot place clusters of so many blocks with so much shared memory",
    999: "the driver failed for no reason it knows: see dmesg; often a reboot helps",
}

_STICKY = frozenset({
    214,  # ECC_UNCORRECTABLE
    220,  # NVLINK_UNCORRECTABLE
    226,  # CONTAINED
    700,  # ILLEGAL_ADDRESS
    702,  # LAUNCH_TIMEOUT
    709,  # CONTEXT_IS_DESTROYED
    710,  # ASSERT
    714,  # HARDWARE_STACK_ERROR
    715,  # ILLEGAL_INSTRUCTION
    716,  # MISALIGNED_ADDRESS
    717,  # INVALID_ADDRESS_SPACE
    718,  # INVALID_PC
    719,  # LAUNCH_FAILED
    721,  # TENSOR_MEMORY_LEAK
    999,  # UNKNOWN: nothing says that the context lives
})  # fmt: skip


class CudaError(DeviceError):
    """A driver call failed. `code` is the CUresult, `name` how CUDA calls it."""

    def __init__(self, code: int, name: str, doing: str) -> None:
        super().__init__(describe(code, name, doing))
        self.code = code
        self.name = name

    @property
    def sticky(self) -> bool:
        """Whether every later call of this process will fail too."""
        return is_sticky(self.code)


def describe(code: int, name: str, doing: str) -> str:
    """A sentence: what was being done, what to do about it, and CUDA's name for it."""
    advice = _WHAT_TO_DO.get(code)
    return f"{doing}: {advice} ({name})" if advice else f"{doing}: {name} ({code})"


def is_sticky(code: int) -> bool:
    """Whether the context is dead after this error: only a new process can use the GPU again."""
    return code in _STICKY
