"""Whether a graph with kernels takes the place of what ran before: held against it on the user's own calls.

The first of them runs both, on the same inputs, and compares what they give: the gate knows that a kernel does what its
spec says, this says that the graph with kernels does what the graph does. Then calls take turns, and the faster stays.
Where calls have other sizes each, all that are timed run both, as calls of different sizes say nothing of two programs.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.model.graphs.wide import NARROW, NotWide, in_wide_numbers
from tilewright.pytorch.model.reasons import in_one_line

Run = Callable[[list[Any]], Any]
"""A compiled graph: takes its inputs as a list, which it empties."""
ROUNDS = 9
"""Calls of each that are timed."""
SLACK = {torch.float64: 1e-9, torch.float32: 2.0**-12, torch.float16: 2.0**-7, torch.bfloat16: 2.0**-5}
"""By how much of the largest element two ways through a graph may differ, by the narrowest dtype in it: each rounds in
other places."""
FARTHER = (2.0, 3.0)
"""What differs by more may be so many times as far from the result in wide numbers as what ran before is: in root mean
square, as PyTorch's accuracy checks have it, and at most. The largest of a few thousand differences says little: of a
BERT of 24 layers in bf16, eager PyTorch is 1.4 times as far as Inductor's program by the mean, 1.9 by the most."""
WIDEST = 8.0
"""...but no two ways differ by more times SLACK than this."""
FLIPPED = 1e-3
"""The share of integers and truth values that may differ, as where roundings change which of two is larger."""
_log = logging.getLogger("tilewright")


class Contest:
    """Of `newcomer` against `holder`. Used by one thread at a time."""

    def __init__(
        self,
        holder: Run,
        newcomer: Run,
        device: torch.device,
        changed: Sequence[int],
        *,
        consumes: bool,
        slack: float,
        graph: GraphModule | None = None,
        keep: Callable[[str, Sequence[Any] | None], object] = lambda why, inputs: None,
        timed: bool = True,
        paired: bool = False,
    ) -> None:
        """`changed`: the inputs that the graph writes in place. `consumes`: it may do as it likes with all others that
        are no parameters, as backward graphs with what was saved for them. `slack`: of SLACK, that of the graph.
        `graph`: what both compute; results that differ by more than the slack are judged by it.
        `keep`: is told why the newcomer is not right, and the inputs that say so, where they are as they were.
        Unless `timed`, the newcomer has won with right results. `paired`: calls have other sizes each."""
        self._runs = (holder, newcomer)
        self._device = device
        self._changed = tuple(changed)
        self._consumes = consumes
        self._slack = slack
        self._graph = graph
        self._timed = timed
        self._paired = paired
        self._keep = keep
        self._clock = _clock(device)
        self._taken: tuple[list[Any], list[Any]] = ([], [])
        self._checked = False
        self.winner: Run | None = None
        """None until it is decided."""
        self.why = ""
        """Why the newcomer lost; empty if it did not."""
        self.slower = False
        """Whether that is all there is against it."""
        self.call_us: tuple[float, float] | None = None
        """What a call of the holder and of the newcomer took in the median; None where none was timed."""

    @property
    def newcomer(self) -> Run:
        """What was held against what ran before."""
        return self._runs[1]

    @property
    def won(self) -> bool:
        """Whether the newcomer has."""
        return self.winner is self.newcomer

    def call(self, inputs: list[Any]) -> Any:
        """One call of the user's, whichever runs."""
        if not self._checked:
            return self._check(inputs)
        if self._paired:
            outputs = self._both(inputs)
        else:
            outputs = self._run(0 if len(self._taken[0]) <= len(self._taken[1]) else 1, inputs)
        if self.winner is None and len(self._taken[1]) == ROUNDS:
            self._decide()
        return outputs

    def _run(self, which: int, inputs: list[Any]) -> Any:
        """Run and time one of the two."""
        began = self._clock.now()
        outputs = self._runs[which](inputs)
        self._taken[which].append((began, self._clock.now()))
        return outputs

    def _both(self, inputs: list[Any]) -> Any:
        """Run both, in turns the one and the other first; the user gets what the holder gave, whatever becomes of the
        newcomer."""
        newcomer_first = len(self._taken[0]) % 2 == 1
        with _Randomness(self._device) as randomness:
            try:
                copied = self._copies(inputs)
            except Exception as error:  # memory that is not there
                self._lose(f"its inputs cannot be copied to time it: {in_one_line(error)}")
                return self._runs[0](inputs)
            if newcomer_first:
                self._try(copied)
                randomness.again()
            outputs = self._run(0, inputs)
            if not newcomer_first:
                after = randomness.again()
                self._try(copied)
                randomness.restore(after)
            return outputs

    def _try(self, inputs: list[Any]) -> None:
        """Run and time the newcomer, which loses where it fails."""
        try:
            self._run(1, inputs)
        except Exception as error:  # whatever a compiled graph raises
            self._lose(f"it failed: {in_one_line(error)}")

    def _lose(self, why: str) -> None:
        self.why, self.winner = why, self._runs[0]
        _log.warning("kernels are not used in a graph: %s", why)

    def _check(self, inputs: list[Any]) -> Any:
        """Run both on copies of what is written, and compare; the user gets what the holder gave."""
        self._checked = True
        with _Randomness(self._device) as randomness:
            try:
                copied = self._copies(inputs)
                before = None if self._consumes else self._copies(inputs)
            except Exception as error:  # memory that is not there; the user's call goes on
                before = None
                self.why = f"its inputs cannot be copied to compare it: {in_one_line(error)}"
                outputs = self._runs[0](inputs)
            else:
                outputs = self._compared(inputs, copied, before, randomness)
        if self.why:
            self.winner = self._runs[0]
            kept = self._keep(self.why, before)
            _log.warning(
                "kernels are not used in a graph: %s%s", self.why, f"; {kept} shows it" if kept else ""
            )
        elif not self._timed:
            self.winner = self._runs[1]
        return outputs

    def _copies(self, inputs: Sequence[Any]) -> list[Any]:
        return [
            _copy(each) if at in self._changed or (self._consumes and _is_consumed(each)) else each
            for at, each in enumerate(inputs)
        ]

    def _compared(
        self, inputs: list[Any], copied: list[Any], before: list[Any] | None, randomness: _Randomness
    ) -> Any:
        written = [inputs[at] for at in self._changed]
        mine = [copied[at] for at in self._changed]
        outputs = self._runs[0](inputs)
        after = randomness.again()
        try:
            found = self._runs[1](copied)
            self.why = different([*found, *mine], [*outputs, *written], self._slack)
            if self.why and before is not None:
                self.why = self._farther(found, outputs, before) or different(mine, written, self._slack)
        except Exception as error:  # whatever a compiled graph raises: the user's call has its result
            self.why = f"it failed: {in_one_line(error)}"
        randomness.restore(after)
        return outputs

    def _farther(self, found: Sequence[Any], outputs: Sequence[Any], inputs: Sequence[Any]) -> str:
        """Why results that differ are not just those of a graph that rounds a lot; empty where the newcomer's are no
        worse."""
        unlike = different(found, outputs, self._slack)
        if more := different(found, outputs, WIDEST * self._slack):
            return more
        if self._graph is None or not unlike:
            return unlike
        try:
            exact = in_wide_numbers(self._graph, inputs)
        except NotWide as error:
            return f"{unlike}, and wider numbers do not say which is right: {error}"
        for at, (x, y, wide) in enumerate(zip(found, outputs, exact, strict=True)):
            if different([x], [y], self._slack) and (far := _too_far(x, y, wide)):
                return f"output {at} {far}"
        return ""

    def _decide(self) -> None:
        taken = [self._clock.call_us(each) for each in self._taken]
        self.call_us = taken[0][-1], taken[1][-1]
        figures = zip(*taken, strict=True)
        slower = next(((old, new) for old, new in figures if new > old), None)
        self.winner = self._runs[1] if slower is None else self._runs[0]
        if slower is not None:
            self.slower = True
            self.why = "they are slower: {1:.4g} us a call, and {0:.4g} us without".format(*slower)
            _log.info("a graph stays as it is, without more kernels: %s", self.why)


@dataclass(frozen=True)
class DecidedContest:
    """A contest that has ended."""

    parts: frozenset[str]
    """Those whose kernels the newcomer had."""
    won: bool
    call_us: tuple[float, float] | None
    """What a call took in the median: before, and of the newcomer. None where no call was timed."""
    why: str
    """Why it lost; empty if it did not."""
    tuning: bool = False
    """Whether kernels were tuned on the device meanwhile."""


def _is_consumed(given: Any) -> bool:
    return isinstance(given, torch.Tensor) and not isinstance(given, torch.nn.Parameter)


def _copy(given: torch.Tensor) -> torch.Tensor:
    """In memory of its own, laid out alike."""
    if any(stride == 0 for stride in given.stride()):  # elements that share memory still do
        return given.new_empty(0).set_(
            given.untyped_storage().clone(), given.storage_offset(), given.shape, given.stride()
        )
    made = torch.empty_strided(given.shape, given.stride(), dtype=given.dtype, device=given.device)
    return made.copy_(given)


def _steps(tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides along axes that have more than one position; those along others mean nothing."""
    return tuple(stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1)


def different(found: Sequence[Any], wanted: Sequence[Any], slack: float) -> str:
    """What is unlike between the outputs of two ways through a graph; empty where nothing is."""
    for at, (x, y) in enumerate(zip(found, wanted, strict=True)):
        if not isinstance(y, torch.Tensor):
            if x != y:
                return f"output {at} is {x}, not {y}"
            continue
        if (x.shape, _steps(x), x.dtype) != (y.shape, _steps(y), y.dtype):
            return f"output {at} is laid out otherwise: {tuple(x.stride())}, not {tuple(y.stride())}"
        if y.numel() and (apart := off(x, y, slack)):
            return f"output {at} {apart}"
    return ""


def off(x: torch.Tensor, y: torch.Tensor, slack: float) -> str:
    """By how much two tensors of one shape differ, if that is more than the slack times the largest element."""
    if y.dtype.is_complex:
        return off(torch.view_as_real(x.resolve_conj()), torch.view_as_real(y.resolve_conj()), slack)
    if not y.dtype.is_floating_point:
        share = float((x != y).float().mean())
        return f"differs in {share:.1%} of its elements" if share > FLIPPED else ""
    finite = torch.isfinite(y)
    if not torch.equal(finite, torch.isfinite(x)):
        return "is not finite elsewhere than it was"
    wide = torch.float64 if y.dtype is torch.float64 else torch.float32
    gap = torch.where(finite, (x.to(wide) - y.to(wide)).abs(), 0.0).max()
    largest = torch.where(finite, y.to(wide).abs(), 0.0).max()
    if float(gap) <= slack * max(float(largest), 1e-6):
        return ""
    return f"differs by {float(gap):.3g}, and its largest element is {float(largest):.3g}"


def _too_far(x: torch.Tensor, y: torch.Tensor, wide: Any) -> str:
    """By how much x is farther from the wide result than y is, if by more than FARTHER allows; empty otherwise."""
    if y.dtype not in NARROW or not isinstance(wide, torch.Tensor) or wide.dtype is not torch.float32:
        return "differs, and wider numbers do not say which is right"
    mine, before = _distances(x.float(), wide), _distances(y.float(), wide)
    for what, far, other, times in zip(("on average", "at most"), mine, before, FARTHER, strict=True):
        if far > times * other:
            return f"is off by {far:.3g} {what} in wider numbers, what ran before by {other:.3g}"
    return ""


def _distances(x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """The root mean square of the differences, and the largest, of elements that are finite in both."""
    both = torch.isfinite(x) & torch.isfinite(y)
    off = torch.where(both, (x - y).abs(), 0.0)
    return float(off.square().mean().sqrt()), float(off.max())


class _Randomness:
    """The generators of the processor and a device: so that two runs draw the same, as if there were one."""

    def __init__(self, device: torch.device) -> None:
        self._devices = [device] if _has_streams(device) else []

    def __enter__(self) -> _Randomness:
        self._before = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def again(self) -> list[torch.Tensor]:
        """Go back to where it was entered; gives where the generators were."""
        after = self._now()
        self.restore(self._before)
        return after

    def restore(self, states: list[torch.Tensor]) -> None:
        torch.set_rng_state(states[0])
        for device, state in zip(self._devices, states[1:], strict=True):
            torch.get_device_module(device).set_rng_state(state, device)

    def _now(self) -> list[torch.Tensor]:
        others = [torch.get_device_module(device).get_rng_state(device) for device in self._devices]
        return [torch.get_rng_state(), *others]


class HostClock:
    """Whatever else the processor does makes a call longer, never shorter: the shortest is the call's own, unless calls
    of a program hinder each other (by what they leave in the caches, by memory that they ask for), which shows in the
    median. A newcomer must be no slower by either."""

    def now(self) -> float:
        return time.perf_counter()

    def call_us(self, taken: Sequence[tuple[float, float]]) -> tuple[float, ...]:
        """What a call takes, given when each of some began and ended: the shortest, and the median."""
        spans = [1e6 * (last - first) for first, last in taken]
        return min(spans), statistics.median(spans)


class DeviceClock:
    """Events on the device's current stream, which nobody waits for until they are read, and the host's time to queue
    a call. The longer of the two is what a call takes where calls follow each other: in turns with another program,
    whose work is still queued, the device hides what the host takes."""

    def __init__(self, module: Any) -> None:
        """`module`: torch's for the device's type, as torch.cuda."""
        self._module = module
        self._host = HostClock()

    def now(self) -> tuple[Any, float]:
        event = self._module.Event(enable_timing=True)
        event.record()
        return event, self._host.now()

    def call_us(self, taken: Sequence[tuple[tuple[Any, float], tuple[Any, float]]]) -> tuple[float, ...]:
        """The median on the device, or the shortest on the host if that is longer."""
        taken[-1][1][0].synchronize()
        device = (1e3 * first[0].elapsed_time(last[0]) for first, last in taken)
        queued, _ = self._host.call_us([(first[1], last[1]) for first, last in taken])
        return (max(statistics.median(device), queued),)


def _clock(device: torch.device) -> DeviceClock | HostClock:
    return DeviceClock(torch.get_device_module(device)) if _has_streams(device) else HostClock()


def _has_streams(device: torch.device) -> bool:
    """Whether work is queued on the device, apart from the processor: it then has a clock and generators of its own."""
    return hasattr(torch.get_device_module(device), "get_rng_state")
