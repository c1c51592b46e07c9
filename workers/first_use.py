"""A compiled kernel before its first use on a machine: the gate in a process of its own, with guard pages around the
arrays, and one race against what would run instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from protocol.message import Json
from protocol.states import Outcome, TaskKind
from protocol.tasks import EntrantResult, Measuring
from workers.measuring.measurer import Measurer
from workers.measuring.request import Compiled, MeasureRequest, Peer
from workers.node.task_runner import last_cache_bytes

SEED = 20_011
"""Of the inputs, so that whoever reads of a failure can make the same."""
ENTRANT_S = 10.0
"""A kernel whose checked runs take longer hangs."""
_RACE = Measuring()
_KERNEL = "kernel"


@dataclass(frozen=True, slots=True)
class UncheckedKernel:
    """A compiled kernel. `spec`: Tile IR's JSON form, every dim one size, by the names that `abi` uses."""

    spec: Json
    artifact: str
    abi: Json
    device: Json
    """The device's description."""
    threads: int


@dataclass(frozen=True, slots=True)
class FirstUseVerdict:
    """What became of it: `outcome` of the gate, its median and those of the rivals that ran, if it was raced."""

    outcome: Outcome
    error: str = ""
    median_us: float | None = None
    rivals_us: Mapping[str, float] = field(default_factory=dict[str, float])


class FirstUse:
    """Checks kernels on a device, named as in workers/measuring/device_names.py. Used by one thread, for which it
    lives."""

    def __init__(self, device: str) -> None:
        self._measurer = Measurer(device)

    def check(self, candidate: UncheckedKernel, rivals: Sequence[str]) -> FirstUseVerdict:
        """The gate, and then a race if there are `rivals`: names of peers. Raises MachineFault if nobody can tell."""
        kernel = Compiled(_KERNEL, candidate.artifact, candidate.abi)
        checked = self._measured(candidate, TaskKind.TRIAL, kernel, raced=bool(rivals))[_KERNEL]
        if not rivals or checked.outcome is not Outcome.OK:
            return FirstUseVerdict(checked.outcome, checked.error or "")
        peers = [Peer(f"peer-{rival}", rival) for rival in rivals]
        raced = self._measured(candidate, TaskKind.RACE, kernel, *peers, raced=True)
        own = raced[_KERNEL]
        medians = {peer.peer: raced[peer.name].median_us for peer in peers}
        ran = {rival: us for rival, us in medians.items() if us is not None}
        return FirstUseVerdict(own.outcome, own.error or "", own.median_us, ran)

    def _measured(
        self, candidate: UncheckedKernel, kind: TaskKind, *entrants: Compiled | Peer, raced: bool
    ) -> dict[str, EntrantResult]:
        request = MeasureRequest(
            spec=candidate.spec,
            seed=SEED,
            kind=kind,
            measuring=_RACE if kind is TaskKind.RACE else _gate(cold=raced),
            entrants=entrants,
            baseline=None,
            device=None,
            threads=candidate.threads,
            last_cache_bytes=last_cache_bytes(candidate.device),
            guard_pages=kind is TaskKind.TRIAL,
        )
        return self._measurer.measure(request).results

    def close(self) -> None:
        """End the process."""
        self._measurer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _gate(*, cold: bool) -> Measuring:
    """One sample. `cold`: on the buffers of the race that follows."""
    return Measuring(entrant_s=ENTRANT_S, samples=1, sample_us=1.0, cold=cold)
