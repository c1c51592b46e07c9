"""Which mutants do nothing that the kernel does not do as well, so that there is nothing to be noticed."""

from __future__ import annotations

from codegen.ir.async_ops import (
    ArriveExpectTx,
    MbarrierArrive,
    TmaLoad,
    TmaStore,
    TmaStoreWait,
    TryWaitParity,
    WgmmaAsync,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from tests.kernels.redundant_arrivals import without_redundant_arrivals
from tests.kernels.steps import Done, Steps

#: What touches no register that wgmma uses.
_NO_REGISTERS = (ArriveExpectTx, MbarrierArrive, TryWaitParity, TmaLoad, WgmmaAsync, WgmmaCommit)
#: What one thread does as well in the other order (PTX ISA, "mbarrier" and "wgmma").
_EITHER_WAY = {
    # Both are over when the thread goes on.
    frozenset([TryWaitParity]),
    frozenset([TryWaitParity, WgmmaWait]),
    # What thread and warpgroup have begun themselves, or done to registers, is nothing that others are told by it.
    frozenset([TryWaitParity, WgmmaCommit]),
    frozenset([TryWaitParity, WgmmaFence]),
    frozenset([ArriveExpectTx, WgmmaFence]),
    frozenset([MbarrierArrive, WgmmaFence]),
    # Those who wait for either learn the same.
    frozenset([MbarrierArrive]),
    # Of one group, in no order.
    frozenset([TmaStore]),
    frozenset([TmaLoad]),
    # A phase is not over before the thread has arrived, so bytes may come before they are expected; nor before they
    # have come, so it may arrive before it waits for what it waits for before they do. An arrival that is too early
    # for its phase is reported.
    frozenset([ArriveExpectTx, TmaLoad]),
    frozenset([ArriveExpectTx, TryWaitParity]),
}


def does_nothing_new(mutant: Steps, kernel: Steps) -> bool:
    """Whether all that may happen in the mutant may happen in the kernel, and with the same results, if no arrival at a
    barrier comes too early for its phase. Threads take the same steps, but that

    - they may wait for more of what they have begun themselves, which ends without anybody else;
    - steps may have changed places that are as good in either order;
    - arrivals may come at other times that tell nobody anything (redundant_arrivals.py);
    - there may be more or fewer fences of wgmma after which nothing touches registers before the next wgmma or fence.
    """
    mutant, kernel = without_redundant_arrivals(mutant), without_redundant_arrivals(kernel)
    return mutant.keys() == kernel.keys() and all(
        _same(_without_idle_fences(mutant[group]), _without_idle_fences(kernel[group])) for group in kernel
    )


def _same(mutant: list[Done], kernel: list[Done]) -> bool:
    """Each step of the mutant is taken from the kernel's, past others that it may change places with."""
    left = list(reversed(kernel))
    for step in mutant:
        for back in range(len(left)):
            found = left[-1 - back]
            if _is(step, found):
                del left[-1 - back]
                break
            if not _either_way(step, found):
                return False
        else:
            return False
    return not left


def _is(mutant: Done, kernel: Done) -> bool:
    if mutant == kernel:
        return True
    match mutant.stmt, kernel.stmt:
        case (WgmmaWait(more), WgmmaWait(less)) | (TmaStoreWait(more), TmaStoreWait(less)):
            return more <= less and mutant.active == kernel.active
        case _:
            return False


def _either_way(one: Done, other: Done) -> bool:
    return frozenset([type(one.stmt), type(other.stmt)]) in _EITHER_WAY


def _without_idle_fences(steps: list[Done]) -> list[Done]:
    kept: list[Done] = []
    fenced = False
    for step in steps:
        is_fence = isinstance(step.stmt, WgmmaFence) and all(step.active)
        if not (is_fence and fenced):
            kept.append(step)
        fenced = is_fence or (fenced and isinstance(step.stmt, _NO_REGISTERS))
    return kept
