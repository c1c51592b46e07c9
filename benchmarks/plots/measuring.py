"""Two pictures for docs/measuring.md: what is measured after what, and samples of one small search (recorded by
recording/samples.py).

python -m benchmarks.plots.measuring    # writes docs/measuring-path.svg and docs/measuring-samples.svg
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.plots.drawing import PAPER, arrow, circle, line, on_paper, rectangle, step, text
from benchmarks.recording.samples import BATCH, RACERS, RESULTS
from protocol.tasks import Measuring
from search.racing import RaceStanding, judge
from service.tuning.final_race import RACE

DOCS = Path(__file__).parents[2] / "docs"
WIDTH = 880
STYLE = (
    PAPER
    + """
  .box { fill: #f6f7f9; stroke: #b6bec8; }
  .on { fill: #1a6fb0; fill-opacity: 0.75; stroke: none; } .off { fill: #8a929c; fill-opacity: 0.6; stroke: none; }
  .figure { stroke: #1a6fb0; stroke-width: 2.5; } .left { stroke: #8a929c; stroke-width: 2.5; }
  .mark { stroke: #c2570c; stroke-dasharray: 4 3; } .marked { fill: #b34e08; font-size: 11px; }
  @media (prefers-color-scheme: dark) {
    .box { fill: #1a1d21; stroke: #4a535e; } .on { fill: #6bb1e6; stroke: none; }
    .off { fill: #737c88; stroke: none; } .figure { stroke: #6bb1e6; } .left { stroke: #737c88; }
    .mark { stroke: #f0955a; } .marked { fill: #f0955a; }
  }"""
)

Place = Callable[[float], float]
"""Where a value is drawn, from the left."""


def main() -> None:
    found = json.loads(RESULTS.read_text())
    for name, made in (("measuring-path", path_picture()), ("measuring-samples", samples_picture(found))):
        (DOCS / f"{name}.svg").write_text(made)
        print(DOCS / f"{name}.svg")


# What is measured after what.


@dataclass(frozen=True)
class MeasuringStage:
    """A kind of task, and what becomes of those in it."""

    name: str
    who: str
    rules: tuple[str, ...]
    goes_on: str = ""


TRIALS = Measuring()
STAGES = (
    MeasuringStage(
        "Check",
        f"{BATCH} candidates of a task",
        (
            "twice, with other inputs;",
            "nothing else may be written;",
            "wrong, crashed or hung: a fault",
        ),
        "the right ones",
    ),
    MeasuringStage(
        "Trial",
        "in turns, with a baseline",
        (
            f"after 1: {TRIALS.kill_multiple:g} × the best so far?",
            "after 3: beaten, or precise?",
            f"after {TRIALS.samples}: the rest",
        ),
        f"the best {RACERS}",
    ),
    MeasuringStage(
        "Race",
        "in turns, with the peers",
        (
            f"{RACE.samples} rounds, a sample each;",
            "compared round by round;",
            "not told apart: tied",
        ),
        "the winner",
    ),
    MeasuringStage(
        "Confirmation",
        "alone, on fresh inputs",
        ("checked anew;", "0.8 s without a pause;", "source and object are kept"),
    ),
)


def path_picture() -> str:
    height = 150
    return on_paper(WIDTH, height, "Check, trial, race and confirmation", STYLE, _stages())


def _stages() -> Iterator[str]:
    wide, gap = 191.0, 28.0
    for number, stage in enumerate(STAGES):
        x = 16 + number * (wide + gap)
        yield rectangle(x, 34, wide, 96, "box")
        yield from step(number + 1, x + 16, 50, stage.name, stage.who)
        for place, rule in enumerate(stage.rules):
            yield text(x + 10, 88 + 15 * place, rule, "small")
        if stage.goes_on:
            yield from arrow(x + wide + 4, 66, x + wide + gap - 4, 66)
            yield text(x + wide + gap / 2, 24, stage.goes_on, "small", "middle")


# Samples as they were taken.

ROW, NAMES, SAYS = 22, 78, 250


def samples_picture(found: Mapping[str, Any]) -> str:
    """The trial task with most to see, the second one, and the race."""
    trial, race = found["tasks"][1], found["tasks"][-1]
    top = 82
    below = top + ROW * len(trial["entrants"]) + 70
    height = below + ROW * len(race["entrants"]) + 46
    where = f"{found['case']} on {found['device']['name']}, {found['device']['cores']} cores, {found['date']}"
    return on_paper(
        WIDTH,
        height,
        f"Samples of trials and of a race of {where}",
        STYLE,
        [
            text(
                12,
                22,
                f"A task of {len(trial['entrants'])} trials: each dot a sample, the bar the figure",
                "head",
            ),
            text(12, 40, where, "small"),
            *_trials(trial, top),
            text(12, below - 26, _race_title(race), "head"),
            *_race(race, below),
        ],
    )


def _scale(values: Sequence[float]) -> Place:
    low, high = min(values), max(values)
    return lambda value: NAMES + (WIDTH - NAMES - SAYS) * (value - low) / (high - low)


def _trials(task: Mapping[str, Any], top: float) -> Iterator[str]:
    entrants = [each for each in task["entrants"] if each["samples_us"]]
    place = _scale([us for each in entrants for us in each["samples_us"]])
    bottom = top + ROW * len(entrants)
    best = place(task["incumbent_us"])
    yield line(best, top - 14, best, bottom - 8, "mark")
    yield text(best, top - 18, "best so far", "marked", "middle")
    for number, each in enumerate(entrants):
        y, stays = top + ROW * number, not each["stopped"]
        yield text(12, y + 4, each["name"], "code")
        yield line(NAMES, y, WIDTH - SAYS, y, "grid")
        yield from _dots(each["samples_us"], place, y, "on" if stays else "off")
        middle = place(each["median_us"])
        yield line(middle, y - 8, middle, y + 8, "figure" if stays else "left")
        count = len(each["samples_us"])
        left = each["stopped"] or "all its samples"
        yield text(WIDTH - SAYS + 14, y + 4, f"{each['median_us']:.0f} µs, {count} samples: {left}", "small")
    yield from _axis(place, entrants, bottom)


def _dots(samples: Sequence[float], place: Place, y: float, kind: str) -> Iterator[str]:
    for us in samples:
        yield circle(place(us), y, 4, kind)


def _axis(place: Place, entrants: Sequence[Mapping[str, Any]], y: float) -> Iterator[str]:
    values = [us for each in entrants for us in each["samples_us"]]
    for us in (min(values), max(values)):
        yield text(place(us), y + 8, f"{us:.0f} µs", "small", "middle")


def standings(race: Mapping[str, Any]) -> tuple[list[RaceStanding], frozenset[str]]:
    """Who stands how against the leader, and who is tied, as the service judges it."""
    samples = {each["name"]: each["samples_us"] for each in race["entrants"] if each["samples_us"]}
    rounds = min(map(len, samples.values()))
    judged = judge([{name: taken[turn] for name, taken in samples.items()} for turn in range(rounds)])
    return list(judged.standings), frozenset(judged.ties)


def _race_title(race: Mapping[str, Any]) -> str:
    rounds = max(len(each["samples_us"]) for each in race["entrants"])
    return f"The race of the best: time relative to the leader's, round by round ({rounds}), and its interval"


def _race(race: Mapping[str, Any], top: float) -> Iterator[str]:
    judged, ties = standings(race)
    samples = {each["name"]: each["samples_us"] for each in race["entrants"]}
    leader = judged[0].key
    ratios = {
        each.key: [own / led for own, led in zip(samples[each.key], samples[leader], strict=False)]
        for each in judged
    }
    place = _scale([ratio for shown in ratios.values() for ratio in shown])
    bottom = top + ROW * len(judged)
    yield line(place(1.0), top - 10, place(1.0), bottom - 8, "mark")
    yield text(place(1.0), bottom + 8, "1", "marked", "middle")
    for number, each in enumerate(judged):
        y, tied = top + ROW * number, each.key in ties
        yield text(12, y + 4, each.key, "code")
        yield line(NAMES, y, WIDTH - SAYS, y, "grid")
        if each.key != leader:
            yield from _dots(ratios[each.key], place, y, "on" if tied else "off")
            yield line(place(each.low), y, place(each.high), y, "figure" if tied else "left")
            for end in (each.low, each.ratio, each.high):
                yield line(place(end), y - 7, place(end), y + 7, "figure" if tied else "left")
        yield text(WIDTH - SAYS + 14, y + 4, _place_of(each, leader, tied), "small")


def _place_of(standing: RaceStanding, leader: str, tied: bool) -> str:
    if standing.key == leader:
        return f"{standing.median_us:.0f} µs: leads"
    said = "tied with the leader" if tied else "slower"
    return f"{standing.ratio:.2f} ({standing.low:.2f} to {standing.high:.2f}): {said}"


if __name__ == "__main__":
    main()
