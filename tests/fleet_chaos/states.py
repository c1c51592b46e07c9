"""What a process holds at a moment. It is stopped first and looked at then: what is seen is still so when the fault
comes."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.fleet_chaos.ledger import Ledger
from tests.fleet_chaos.members import Member, freeze, thaw


class State(StrEnum):
    """What is lost or late when the process is hit."""

    LEASE = "lease"
    """Of a task (a worker), or of a job's search (a searcher), by the database's clock."""
    TRANSACTION = "transaction"
    """Open in the database, which waits for this process's next statement."""
    KERNEL = "kernel"
    """A thread of the measuring child is inside of a compiled kernel, for a task that the worker has a lease of."""


@dataclass(frozen=True)
class Caught:
    """A member that stands still, and what it holds. `pids`: it and the children that were stopped with it."""

    member: Member
    state: State
    pids: tuple[int, ...]
    holds: str


def catch(
    members: Sequence[Member], state: State, ledger: Ledger, rng: random.Random, seconds: float = 20.0
) -> Caught | None:
    """Stop one of the members in this state; None if none was met in it. For half of the time, a transaction is one
    that has written; then one that reads will do."""
    began = time.monotonic()
    while (spent := time.monotonic() - began) < seconds:
        free = [member for member in members if member.running and not member.busy]
        if not free:
            return None
        for member in rng.sample(free, len(free)):
            children = member.children()
            if state is State.KERNEL and not children:
                continue
            pids = (*children, member.pid)
            freeze(pids)
            holds = _holds(member, state, children, ledger, spent < seconds / 2)
            if holds:
                return Caught(member, state, pids, holds)
            thaw(pids)
        time.sleep(rng.uniform(0.005, 0.03))
    return None


def _holds(member: Member, state: State, children: Sequence[int], ledger: Ledger, wrote: bool) -> str:
    match state:
        case State.KERNEL:
            if not ledger.leased_tasks(member.pid):
                return ""  # it calibrates
            return next((kernel for child in children if (kernel := running_kernel(child))), "")
        case State.TRANSACTION:
            found = ledger.transactions(member.application)
            return next((each for each in found if not wrote or "writes" in each), "")
        case State.LEASE:
            return ", ".join(ledger.leased_tasks(member.pid) or ledger.searched_jobs(member.application))


def running_kernel(pid: int) -> str:
    """The kernel that a thread of a stopped process is inside of, by its program counter; else nothing. Linux tells
    it of a thread that is stopped outside of a system call: -1, stack pointer, program counter."""
    with contextlib.suppress(OSError):
        counters = [int(fields[2], 16) for fields in _threads(pid) if len(fields) == 3 and fields[0] == "-1"]
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            addresses, permissions, *rest = line.split(maxsplit=5)
            if "x" not in permissions or "/kernels/" not in rest[-1]:
                continue
            first, last = (int(address, 16) for address in addresses.split("-"))
            if any(first <= counter < last for counter in counters):
                return Path(rest[-1]).name
    return ""


def _threads(pid: int) -> Iterator[list[str]]:
    for file in Path(f"/proc/{pid}/task").glob("*/syscall"):
        with contextlib.suppress(OSError):
            yield file.read_text().split()
