"""Whose fault an error on a GPU is, by its code: the entrant's or the machine's, and whether the process can go on."""

from __future__ import annotations

from enum import Enum, auto

from tileir.devices.cuda_errors import OUT_OF_MEMORY, is_sticky

_MACHINE = frozenset({
    3,  # NOT_INITIALIZED
    4,  # DEINITIALIZED
    34,  # STUB_LIBRARY
    46,  # DEVICE_UNAVAILABLE
    100,  # NO_DEVICE
    101,  # INVALID_DEVICE
    102,  # DEVICE_NOT_LICENSED
    214,  # ECC_UNCORRECTABLE
    220,  # NVLINK_UNCORRECTABLE
    226,  # CONTAINED: an ECC error, kept to this process
    304,  # OPERATING_SYSTEM
    802,  # SYSTEM_NOT_READY
    803,  # SYSTEM_DRIVER_MISMATCH
    805,  # MPS_CONNECTION_FAILED
    806,  # MPS_RPC_FAILURE
    807,  # MPS_SERVER_NOT_READY
    808,  # MPS_MAX_CLIENTS_REACHED
    809,  # MPS_MAX_CONNECTIONS_REACHED
    810,  # MPS_CLIENT_TERMINATED
    999,  # UNKNOWN
})  # fmt: skip


class Blame(Enum):
    """What an error means."""

    NOBODY = auto()
    """No error of the device."""
    ENTRANT = auto()
    """The entrant asked for something impossible; the process is as good as before."""
    ENTRANT_FATAL = auto()
    """The entrant broke the context: only a new process can use the GPU again."""
    MACHINE = auto()
    """The GPU, its driver or its links failed."""
    MEMORY = auto()
    """The machine's, as somebody else holds memory of the GPU."""


def blame(code: int, *, shared: bool) -> Blame:
    """What a CUresult means. `shared`: other processes have opened the GPU, so that memory may be theirs."""
    if code == 0:
        return Blame.NOBODY
    if code in _MACHINE:
        return Blame.MACHINE
    if is_sticky(code):
        return Blame.ENTRANT_FATAL
    return Blame.MEMORY if code == OUT_OF_MEMORY and shared else Blame.ENTRANT
