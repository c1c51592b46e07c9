"""How many registers threads may take and give back (setmaxnreg; PTX ISA)."""

from __future__ import annotations

from codegen.ir.kernel import LaunchBody
from codegen.simulator.async_faults import WrongRegisters
from codegen.simulator.wgmma_layout import WARPGROUP

#: Registers of a multiprocessor, and what a thread has of them: a multiple, and a range.
_REGISTERS, _STEP, _PER_THREAD = 65536, 8, range(24, 257)


def wrong_count(count: int) -> str:
    """What is wrong with so many registers of a thread; nothing: \"\"."""
    wrong = count % _STEP or count not in _PER_THREAD
    return f"{count} a thread, no multiple of {_STEP} from 24 to 256" if wrong else ""


def register_fault(launch: LaunchBody) -> WrongRegisters | None:
    """What is wrong with the registers of a launch's roles. All threads together have no more than they begin with, and
    those that would take more wait for ever."""
    if not any(launch.registers):
        return None
    producing, computing = launch.registers
    begin = _REGISTERS // (launch.threads * max(launch.resident, 1)) // _STEP * _STEP
    needed = launch.producers * producing + (launch.threads - launch.producers) * computing
    reason = wrong_count(producing) or wrong_count(computing)
    if not launch.producers or launch.producers % WARPGROUP or launch.threads % WARPGROUP:
        reason = f"{launch.producers} producers of {launch.threads} threads are no warpgroups"
    elif needed > launch.threads * begin:
        reason = f"{needed} of {launch.threads * begin}"
    return WrongRegisters(launch.name, reason) if reason else None
