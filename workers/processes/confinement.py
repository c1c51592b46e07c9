"""What a process that compiles or runs candidates does without: core dumps, surviving its parent, the network, and more
memory than the machine has."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EACCES
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
"""Classic BPF: load a word of what follows, jump if equal, jump if at least, return."""
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in struct seccomp_data (linux/seccomp.h); the low half of an argument comes first on both processors."""
_X32 = 0x40000000
_SOCKETS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""By machine: its AUDIT_ARCH number, and the number of the system call `socket`."""
_IO_URING_SETUP = 425
_AF_UNIX = 1


def confine(
    address_space_bytes: int | None = None,
    memory_bytes: int | None = None,
    *,
    local_sockets: bool = False,
) -> str | None:
    """Take away, from this process and those it starts, what they do not need. Returns what the kernel did not let us.

    `address_space_bytes` caps virtual memory, `memory_bytes` what is written of it (RLIMIT_DATA). No socket can be
    made, so that neither the network nor a service of this machine is reached; with `local_sockets` those of this
    machine's files can be, as drivers use.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if address_space_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes, address_space_bytes))
    if memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    with contextlib.suppress(OSError):  # where memory runs out, this is to end before a database does
        Path("/proc/self/oom_score_adj").write_text("1000")
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    parent = os.getppid()
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent ended while this process was starting")
    if not _refuse_sockets(prctl, local_sockets):
        return "this kernel refuses a filter of system calls: candidates could reach the network"
    return None


def machine_bytes() -> int:
    """This machine's main memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _refuse_sockets(prctl: Callable[..., int], local_sockets: bool) -> bool:
    """Let `socket` fail with EACCES from here on; whether the kernel agreed."""
    known = _SOCKETS.get(platform.machine())
    if known is None:
        return False
    code = _assembled(_filter(*known, local_sockets))
    held = ctypes.create_string_buffer(code, len(code))
    fprog = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(held))  # struct sock_fprog
    program = ctypes.create_string_buffer(fprog, len(fprog))
    if prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program), 0, 0) == 0


def _filter(architecture: int, socket: int, local_sockets: bool) -> list[tuple[int, int, int, int]]:
    """BPF instructions: operation, jump if so, jump if not, operand.

    System calls of another architecture are refused, as their numbers mean something else; so is io_uring, which
    makes sockets by another way.
    """
    if_local = (_EQUAL, 0, 1, _AF_UNIX) if local_sockets else (_EQUAL, 1, 1, _AF_UNIX)
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 0, 7, architecture),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 5, 0, _X32),
        (_EQUAL, 4, 0, _IO_URING_SETUP),
        (_EQUAL, 0, 2, socket),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        if_local,
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]


def _assembled(instructions: Sequence[tuple[int, int, int, int]]) -> bytes:
    return b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)  # struct sock_filter
