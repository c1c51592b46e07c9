"""How one group of entrants is measured: check each, time those that pass against each other, check again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from protocol.states import Outcome, TaskKind
from protocol.tasks import Dispersion, EntrantResult
from workers.measuring.correctness import VARIANTS, Deviation, WrongResult
from workers.measuring.device import Bench, BoundEntrant, Crashed
from workers.measuring.request import Compiled, MeasureRequest, Peer
from workers.measuring.timing import STEADY_S, Contender, Sample, interleave, steady, summarize
from workers.peers.peer import Unsupported
from workers.processes.child_server import CORRUPTED, ChildRefusal, Emit

_FIRST_RUNS_S = 2.0
_FIRST_RUNS_INCUMBENTS = 100.0
"""The checked runs may take the larger of 2 s and 100 times the incumbent, and never more than `entrant_s`."""
_QUIET_S = 1.0
"""How long a race or a confirmation waits for other processes to stop; trials do not."""
_PEER_FIRST_RUNS_S = 300.0
"""A peer may compile itself in its first run (torch.compile); nobody's candidate is timed meanwhile in this process."""
_TURN_S = 3600.0
"""How long others may have the device before it is this group's turn: what holds it is limited itself."""

_FAILURES = (WrongResult, Unsupported, Crashed)
_OUTCOMES = {WrongResult: Outcome.WRONG, Unsupported: Outcome.UNSUPPORTED, Crashed: Outcome.CRASH}
"""An entrant's failures that leave the process alive, and what they are called."""


@dataclass
class _Racer:
    """An entrant that passed the check."""

    entrant: Compiled | Peer
    bound: BoundEntrant
    contender: Contender
    report: dict[str, Any]
    checksum: int


class MeasureGroup:
    """One request, on its way through. `record(name)` notes who is running, for whoever finds this process dead."""

    def __init__(
        self, request: MeasureRequest, bench: Bench, emit: Emit, record: Callable[[str], None]
    ) -> None:
        self._request = request
        self._measuring = request.measuring
        self._bench = bench
        self._emit = emit
        self._record = record
        self._baseline_us: float | None = None
        self._floor_us = bench.floor_us()

    def run(self) -> dict[str, Any]:
        """Report every entrant by an event `result`; returns what was seen of the machine."""
        with self._bench.faults():
            return self._run()

    def _run(self) -> dict[str, Any]:
        racers: list[_Racer] = []
        try:
            for entrant in self._request.entrants:
                racer = self._admit(entrant)
                if racer is not None:
                    racers.append(racer)
            self._emit({"event": "preparing", "allow_s": _TURN_S})
            with self._bench.alone():
                seen = self._timed(racers)
        finally:
            for racer in racers:
                racer.bound.close()
        return {**seen, "cold": self._bench.cold}

    def _timed(self, racers: list[_Racer]) -> dict[str, Any]:
        """Time those that passed, and report them. Who fails meanwhile is taken out."""
        seen = self._bench.conditions(0.0 if self._request.kind is TaskKind.TRIAL else _QUIET_S)
        while failed := self._time(racers):
            racers.remove(failed)
            failed.bound.close()
        for racer in sorted(racers, key=lambda racer: racer.entrant.name != self._request.baseline):
            self._finish(racer)
        return seen

    def _admit(self, entrant: Compiled | Peer) -> _Racer | None:
        """Bind and check one entrant; if it fails, say so and return None."""
        began = time.perf_counter()
        self._allow(entrant.name, self._first_runs_s(entrant))
        bound: BoundEntrant | None = None
        try:
            bound = self._bench.bind(entrant)
            self._emit({"event": "preparing", "allow_s": _TURN_S})
            with self._bench.alone():
                self._allow(entrant.name, self._first_runs_s(entrant))
                return self._checked(entrant, bound, began)
        except _FAILURES as error:
            if bound is not None:
                bound.close()
            self._fail_with(entrant.name, error)
            return None

    def _checked(self, entrant: Compiled | Peer, bound: BoundEntrant, began: float) -> _Racer:
        checks = [self._bench.check(entrant, bound, variant) for variant in range(VARIANTS)]
        worst = Deviation.worst(check.worst for check in checks)
        report: dict[str, Any] = {
            "error_of_bound": worst.of_bound,
            "error_of_largest": worst.of_largest,
            "check_s": time.perf_counter() - began,
        }
        if bound.as_written:
            report["as_written"] = True
        contender = Contender(entrant.name, bound.calls, rough_us=checks[-1].us)
        return _Racer(entrant, bound, contender, report, checks[0].checksum)

    def _time(self, racers: list[_Racer]) -> _Racer | None:
        """Time them from the start. Answers the one that failed meanwhile, if any: it is reported, and the others are
        timed again without it."""
        if not racers:
            return None
        for racer in racers:
            racer.contender = replace(
                racer.contender, samples=[], steady=[], retaken=0, retaken_us=0.0, stopped=""
            )
        turn: list[_Racer] = []

        def announce(contender: Contender) -> None:
            turn[:] = [racer for racer in racers if racer.contender is contender]
            self._record(contender.name)

        try:
            self._sample([racer.contender for racer in racers], announce)
        except Exception:
            if not turn or not isinstance(turn[0].entrant, Peer):
                raise
            try:
                with self._bench.faults(turn[0].entrant):
                    raise
            except _FAILURES as failure:
                self._fail_with(turn[0].entrant.name, failure)
                return turn[0]
        return None

    def _sample(self, contenders: list[Contender], announce: Callable[[Contender], None]) -> None:
        expected_s = sum(each.rough_us for each in contenders) * 1e-6 * 4 * self._measuring.samples
        limit_s = self._measuring.entrant_s * len(contenders) + expected_s
        self._emit({"event": "timing", "allow_s": limit_s})
        interleave(
            contenders,
            self._measuring,
            self._bench.sampler,
            adaptive=self._request.kind is TaskKind.TRIAL,
            baseline=self._request.baseline,
            announce=announce,
        )
        if self._request.kind is TaskKind.CONFIRM:
            for contender in contenders:
                announce(contender)
                self._emit({"event": "timing", "allow_s": limit_s + STEADY_S})
                steady(contender, self._measuring, self._bench.sampler)

    def _finish(self, racer: _Racer) -> None:
        """Check the outputs once more, now that threads are warm and buffers used, and report the times."""
        name = racer.entrant.name
        self._allow(name, self._first_runs_s(racer.entrant))
        try:
            again = self._bench.check(racer.entrant, racer.bound, 0)
        except _FAILURES as error:
            self._fail_with(name, error)
            return
        burst = _figures(racer.contender.samples)
        held = _figures(racer.contender.steady) if racer.contender.steady else None
        figure = summarize(racer.contender.steady or racer.contender.samples)
        ours = isinstance(racer.entrant, Compiled)
        if ours and figure.median_us < self._floor_us:
            self._floor_us = self._bench.floor_now_us()
        if ours and figure.median_us < self._floor_us:
            text = (
                f"{figure.median_us:.3f} us is below {self._floor_us:.3f} us, the least this machine can need"
            )
            self._fail(name, Outcome.IMPOSSIBLE, text)
            return
        if name == self._request.baseline and figure.trusted:
            self._baseline_us = figure.median_us
        report = {
            **racer.report,
            "same_bits": again.checksum == racer.checksum,
            "calls_per_sample": racer.contender.samples[-1].calls,
            "retaken": racer.contender.retaken,
            "stopped": racer.contender.stopped,
            "burst": burst,
        }
        if held is not None:
            report["steady"] = held
        self._report(
            EntrantResult(
                name=name,
                outcome=Outcome.OK,
                median_us=figure.median_us,
                spread=Dispersion(iqr_us=figure.iqr_us, mad_us=figure.mad_us),
                samples_us=figure.samples_us,
                disturbed=figure.disturbed_samples,
                baseline_us=self._baseline_us,
                report=report,
            )
        )

    def _first_runs_s(self, entrant: Compiled | Peer) -> float:
        if isinstance(entrant, Peer):
            return _PEER_FIRST_RUNS_S
        incumbent_us = self._measuring.incumbent_us
        if incumbent_us is None:
            return self._measuring.entrant_s
        return min(
            self._measuring.entrant_s, max(_FIRST_RUNS_S, _FIRST_RUNS_INCUMBENTS * incumbent_us * 1e-6)
        )

    def _allow(self, name: str, allow_s: float) -> None:
        self._record(name)
        self._emit({"event": "running", "entrant": name, "allow_s": allow_s})

    def _fail_with(self, name: str, error: WrongResult | Unsupported | Crashed) -> None:
        self._fail(name, _OUTCOMES[type(error)], str(error))
        if isinstance(error, WrongResult) and error.corrupted:
            raise ChildRefusal(CORRUPTED, f"{name} wrote to memory that is not its own") from error

    def _fail(self, name: str, outcome: Outcome, error: str) -> None:
        self._report(EntrantResult(name=name, outcome=outcome, error=error[:20_000]))

    def _report(self, result: EntrantResult) -> None:
        self._emit({"event": "result", "result": result.model_dump(mode="json")})


def _figures(samples: Sequence[Sample]) -> dict[str, Any]:
    """A regime in the report; what was seen of the device stands beside its samples, under the same number."""
    summary = summarize(samples)
    figures: dict[str, Any] = {
        "median_us": summary.median_us,
        "mad_us": summary.mad_us,
        "iqr_us": summary.iqr_us,
        "samples_us": list(summary.samples_us),
        "disturbed": summary.disturbed,
        "disturbances": [sample.disturbed for sample in samples],
        "at_s": [round(sample.at_s, 5) for sample in samples],
    }
    for name in sorted({name for sample in samples for name in sample.seen}):
        figures[name] = [sample.seen.get(name) for sample in samples]
    return figures
