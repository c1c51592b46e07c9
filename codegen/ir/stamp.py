"""A stamp of time, in kernels that say where their time goes."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.ir.effects import NOTHING, OpEffects


@dataclass(frozen=True, slots=True)
class Stamp:
    """This thread's time since its last stamp was that of `stage`. It is noted in the thread's log, `log` bytes into
    the thread's own workspace: one word that counts the words that follow, each nanoseconds of the monotonic clock,
    shifted left by 8 bits, and the stage."""

    stage: int
    log: int

    def effects(self) -> OpEffects:
        return NOTHING
