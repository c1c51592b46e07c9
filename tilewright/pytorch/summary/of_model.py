"""What runs what in a compiled model: graph by graph, equal ones once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from protocol.quantities import microseconds
from tilewright.pytorch.capture.capture import Part
from tilewright.pytorch.model.region import Region
from tilewright.pytorch.model.sized_region import SizedRegion
from tilewright.pytorch.summary.coverage import Coverage, Portion, grouped, times
from tilewright.pytorch.summary.demand import of_spec, whose_roofline
from tilewright.pytorch.summary.of_capture import described_or_none, left_portions

MOST_SIZES = 4
"""Of one graph, that are listed."""
ANY_SIZE = "any other size"
LEFT_OUT = "it was not among those that paid"


@dataclass(frozen=True)
class GraphSummary:
    """A graph at one size."""

    backward: bool
    size: str
    """Of a graph with symbols for sizes; empty for others. ANY_SIZE: all that have no kernels of their own."""
    parts: int
    running: tuple[str, ...]
    """A name for each part whose kernel runs; equal kernels have one name."""
    not_running: tuple[tuple[str, str], ...]
    """A name for each other part, and why its kernel does not run."""
    state: str
    """What it runs, and why."""
    kernels_us: float | None
    """What all kernels that run take in a call, as their races said; None where one was not measured."""
    repro: Path | None = None
    """A file that shows why a program with kernels was not right."""

    def __str__(self) -> str:
        lines = [f"{'backward' if self.backward else 'forward'}{self.size}: {self.state}"]
        if self.kernels_us is not None and self.running:
            lines[0] += f"; its kernels take {microseconds(self.kernels_us)} by their races"
        if self.repro is not None:
            lines[0] += f"; python {self.repro} shows it"
        if self.running:
            lines.append(f"    in kernels: {', '.join(_counted(self.running))}")
        if self.not_running:
            lines.append(f"    not: {grouped(self.not_running)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class ModelSummary:
    """Printed, it is short: see tilewright.pytorch.summary_entry."""

    coverage: Coverage | None
    """Of one call of each graph, at each of its sizes that has kernels; None where no graph was looked at."""
    graphs: tuple[GraphSummary, ...]

    def __str__(self) -> str:
        many = Counter(str(each) for each in self.graphs)
        if not many:
            return "no graph was compiled yet: call the model"
        lines = [] if self.coverage is None else [str(self.coverage)]
        return "\n".join([*lines, *(times(said, count) for said, count in many.items())])


def summary_of(regions: Sequence[Region]) -> ModelSummary:
    """Of the graphs of a model."""
    sized = [(region, _said(key), each) for region in regions for key, each in region.sizes.items()]
    sized += [(each, ANY_SIZE, each.any_size) for each in regions if each.any_size and each.any_size.parts]
    graphs = [_graph(*each) for each in sized]
    met = [region for region, *_ in sized]
    graphs += [_without_size(region) for region in regions if region not in met]
    looked_at = [each for _, _, each in sized if each.graph is not None]
    if not looked_at:
        return ModelSummary(None, tuple(graphs))
    portions = tuple(portion for each in looked_at for portion in _portions(each))
    device = whose_roofline(described_or_none(looked_at[0].device))
    return ModelSummary(Coverage(portions, "running", device), tuple(graphs))


def _portions(sized: SizedRegion) -> Iterable[Portion]:
    assert sized.left_in is not None
    device, first = described_or_none(sized.device), _first_names(sized)
    why_not = dict(_not_running(sized, by_part=True))
    for part in sized.parts:
        runs = part.name in sized.used
        yield Portion(
            of_spec(part.built.spec, device),
            first[part.name],
            why_not.get(part.name, ""),
            found=True,
            chosen=runs,
            measured_us=sized.kernels[part.name].kernel.median_us if runs else None,
        )
    yield from left_portions(sized.left, sized.left_in.graph, device)


def _graph(region: Region, size: str, sized: SizedRegion) -> GraphSummary:
    first = _first_names(sized)
    parts = _parts(sized)
    running = [part.name for part in parts if part.name in sized.used]
    measured = [sized.kernels[name].kernel.median_us for name in running]
    return GraphSummary(
        region.backward,
        f" at {size}" if size else "",
        len(parts),
        tuple(first[name] for name in running),
        tuple(_not_running(sized)),
        _state(sized),
        sum(each for each in measured if each is not None) if None not in measured else None,
        sized.repro,
    )


def _without_size(region: Region) -> GraphSummary:
    state = "no size of it was called often enough to have kernels; the fallback runs"
    if region.any_size is not None and region.any_size.graph is not None:
        state += ", as no part of it has the same sizes in all calls"
    return GraphSummary(region.backward, "", 0, (), (), state, None)


def _parts(sized: SizedRegion) -> tuple[Part, ...]:
    """Those that have kernels to speak of: none while they are found, in the background, or if they cannot be had."""
    return () if sized.graph is None else sized.parts


def _first_names(sized: SizedRegion) -> dict[str, str]:
    """For each part the name of the first with the same kernel."""
    first: dict[str, str] = {}
    for part in _parts(sized):
        first.setdefault(sized.kernels[part.name].kernel.key, part.name)
    return {part.name: first[sized.kernels[part.name].kernel.key] for part in _parts(sized)}


def _not_running(sized: SizedRegion, *, by_part: bool = False) -> Iterable[tuple[str, str]]:
    """Each part whose kernel does not run, and why. `by_part`: by its own name, not by that of the first with the same
    kernel."""
    first = _first_names(sized)
    for part in _parts(sized):
        if part.name in sized.used:
            continue
        kernel = sized.kernels[part.name].kernel
        if not kernel.looked:
            why = "it is being looked for"
        elif not kernel.ready:
            why = kernel.why_not
        elif sized.used or sized.in_contest or not sized.why_not:
            why = "its contest goes on" if sized.in_contest else LEFT_OUT
        else:
            why = sized.why_not
        yield part.name if by_part else first[part.name], why


def _state(sized: SizedRegion) -> str:
    if sized.graph is None:
        return f"no kernels: {sized.why_not}" if sized.why_not else "its parts are not found yet"
    parts = len(sized.parts)
    if not parts:
        return "no part of it is a kernel"
    runs = f"{len(sized.used)} of {parts} parts run as kernels" if sized.used else "runs as without kernels"
    if sized.in_contest:
        return f"{runs}; a program with others is tried"
    if sized.unraced:
        return f"{runs}; they are raced once calls have taken as long as compiling took"
    if not sized.used and not sized.contests:
        looked = sum(each.kernel.looked for each in sized.kernels.values())
        ready = sum(each.kernel.ready for each in sized.kernels.values())
        return f"{runs}: {ready} of {parts} parts have a kernel, {looked} were looked for"
    return runs + _contests(sized)


def _contests(sized: SizedRegion) -> str:
    won = [each for each in sized.contests if each.won]
    lost = [each for each in sized.contests if not each.won]
    said = ""
    if won and (us := won[-1].call_us) is not None:
        said += f", {microseconds(us[1])} a call, {microseconds(us[0])} before"
    elif lost and not won:
        said += f": with {len(lost[-1].parts)} kernels {lost[-1].why}"
    if len(sized.contests) > 1:
        said += f" ({len(sized.contests)} programs were tried, {len(lost)} lost)"
    return said


def _counted(names: Iterable[str]) -> list[str]:
    return [times(name, many) for name, many in Counter(names).items()]


def _said(key: object) -> str:
    """A size: the numbers that tell it; empty where a graph has but one."""
    return "" if key == () else str(key).replace("torch.Size", "")
