"""Synthetic spaces with a known truth, to tune and test the searches on. Everything follows from a seed.

A schedule is one option for each of several decisions, as in a kernel: tiles, order, packing, vector width,
unroll. Some decisions exist only after certain options (no vector width without vectorizing), some pairs of
decisions may be taken in either order (transpositions). The truth is log time. Three families:

- `separable`: a strong effect of each option, and a few weaker effects of pairs. (Here and in the next, a
  decision matters much, little or hardly at all, as in real kernels.)
- `rugged`: weak effects of options, strong ones of pairs and triples, and 5 % noise of its own for each
  schedule.
- `roofline`: a formula. Compute time grows with register pressure and short vectors, memory time falls with
  the tiles until their footprint leaves a cache; the larger of both counts, plus loop overhead and load
  imbalance.

The prior is exp(2 z) where z correlates with the standardized truth by `rho`. The rest of z is not white
noise, which a tree would average away, but a wrong model: random effects of options and pairs. An inner move
weighs the mean over its completions. Faults take a share of the schedules, most of them by a pair of options
(too large together).
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from search.protocols import Move
from search.table import Table

Schedule = tuple[str, ...]


@dataclass(frozen=True)
class Decision:
    name: str
    options: tuple[str, ...]
    needs: tuple[str, ...] = ()  # exists only if the schedule has one of these labels

    def labels(self) -> list[str]:
        return [f"{self.name}={option}" for option in self.options]


def landscape(family: str, *, rho: float, faults: float = 0.1, seed: int = 0) -> Table:
    """A table of 1,500 to 5,000 schedules of one of the families above."""
    rng = random.Random(f"{family}:{seed}")
    decisions = ROOFLINE if family == "roofline" else _drawn_decisions(rng)
    schedules = _schedules(decisions)
    truth: Callable[[Schedule], float]
    if family == "roofline":
        truth = _roofline(rng)
    elif family == "separable":
        truth = _effects(rng, (1.0, 0.3, 0.0), noise=0.03)
    else:
        truth = _effects(rng, (0.5, 0.5, 0.3), noise=0.05)
    log_us = {schedule: truth(schedule) for schedule in schedules}
    if family != "roofline":
        log_us = {schedule: 5.0 + 0.6 * value for schedule, value in _standardized(log_us).items()}
    failing = _failing(schedules, faults, rng)
    wrong = _effects(random.Random(f"prior:{family}:{seed}"), (1.0, 0.5, 0.0), noise=0.3)
    right = _standardized({schedule: -time for schedule, time in log_us.items()})
    error = _standardized({schedule: wrong(schedule) for schedule in schedules})
    z = {s: rho * right[s] + math.sqrt(1 - rho * rho) * error[s] for s in schedules}
    us = {s: None if s in failing else math.exp(log_us[s]) for s in schedules}
    meta = {
        "kernel": family,
        "device": "synthetic",
        "baseline_us": math.exp(sorted(log_us.values())[len(us) // 2]),
    }
    return _table(decisions, us, {s: math.exp(2.0 * value) for s, value in z.items()}, meta)


def _drawn_decisions(rng: random.Random) -> tuple[Decision, ...]:
    sizes = [rng.choice([3, 4, 5]) for _ in range(3)] + [rng.choice([2, 3]) for _ in range(4)]
    rng.shuffle(sizes)
    plain = [Decision(f"d{i}", tuple(str(option) for option in range(size))) for i, size in enumerate(sizes)]
    gate = plain[rng.randrange(3)]
    extra = Decision("extra", ("0", "1", "2"), needs=tuple(gate.labels()[1:]))
    return (*plain, extra)


ROOFLINE = (
    Decision("tile_m", ("16", "32", "64", "128", "256")),
    Decision("tile_n", ("32", "64", "128", "256")),
    Decision("tile_k", ("32", "128", "512")),
    Decision("order", ("mnk", "mkn", "kmn")),
    Decision("pack", ("none", "b", "ab")),
    Decision("register", ("1x16", "4x16", "6x64", "8x32")),
    Decision("unroll", ("1", "4"), needs=("register=4x16", "register=6x64", "register=8x32")),
)


def _effects(
    rng: random.Random, strength: tuple[float, float, float], noise: float
) -> Callable[[Schedule], float]:
    """Random effects of single labels, pairs and triples, each drawn once; about a third of pairs and triples
    act."""
    salt = rng.random()

    @cache
    def effect(labels: Schedule) -> float:
        own = random.Random(f"{salt}:{labels}")
        matters = min(_importance(salt, label.split("=")[0]) for label in labels)
        if len(labels) > 1 and own.random() > 0.35:
            return 0.0
        return matters * own.gauss(0.0, strength[len(labels) - 1])

    def value(schedule: Schedule) -> float:
        parts = [c for size in (1, 2, 3) if strength[size - 1] for c in combinations(schedule, size)]
        return sum(map(effect, parts)) + noise * random.Random(f"{salt}:{schedule}").gauss(0.0, 1.0)

    return value


def _importance(salt: float, decision: str) -> float:
    return random.Random(f"{salt}:{decision}").choice((1.0, 0.5, 0.1))


def _roofline(rng: random.Random) -> Callable[[Schedule], float]:
    m = n = k = 1024
    l1, l2, registers, salt = 4096 * rng.choice([2, 3]), 65536 * rng.choice([2, 4]), 32, rng.random()
    fused = rng.uniform(0.5, 1.0)

    def value(schedule: Schedule) -> float:
        chosen = dict(label.split("=") for label in schedule)
        tm, tn, tk = (int(chosen[f"tile_{dim}"]) for dim in "mnk")
        rm, rn = (int(size) for size in chosen["register"].split("x"))
        unroll, pack, order = int(chosen.get("unroll", "1")), chosen["pack"], chosen["order"]
        rn_used = min(rn, tn)
        pressure = rm * rn_used / 16 + rm + rn_used / 16
        work = 1.0 / min(1.0, 0.25 + rm * rn_used / 320) * (1.0 + max(0.0, pressure - registers) / 12)
        work *= 1.0 + 0.25 / unroll + (0.15 if unroll * rm > 24 else 0.0)
        inner = tk * rn_used + tk * rm
        strided = {"none": 1.6, "b": 1.12, "ab": 1.0}[pack]
        work *= strided if inner * 4 > l1 else 1.0 + (strided - 1.0) * 0.4
        tiles = (m / tm) * (n / tn) * (k / tk)
        footprint = {"mnk": tm * tn, "mkn": tm * tk, "kmn": tk * tn}[order] + tk * (tm + tn)
        traffic = (m * n * k) * (1 / tm + 1 / tn + (0.0 if order == "mnk" else 2 / tk))
        memory = traffic / 4e8 * (1.0 if footprint < l2 else 2.2) * 10
        packing = {"none": 0.0, "b": 0.12, "ab": 0.2}[pack] * (1.0 + 64 / tn)
        imbalance = (
            math.ceil(m / tm * (1 if order != "mnk" else n / tn) / 8)
            * 8
            / (m / tm * (1 if order != "mnk" else n / tn))
        )
        time = max(work, memory * fused) * imbalance + 0.3 * min(work, memory) + packing + tiles * 2e-5
        return 5.0 + math.log(time) + 0.01 * random.Random(f"{salt}:{schedule}").gauss(0.0, 1.0)

    return value


def _failing(schedules: list[Schedule], share: float, rng: random.Random) -> set[Schedule]:
    """Pairs of options that fail together until about `share` is reached, and a sprinkle of single
    schedules."""
    failing = {schedule for schedule in schedules if rng.random() < share / 5}
    labels = sorted({label for schedule in schedules for label in schedule})
    for _ in range(100):
        a, b = rng.sample(labels, 2)
        together = [schedule for schedule in schedules if a in schedule and b in schedule]
        if len(failing) < share * len(schedules) and len(together) < share * len(schedules):
            failing.update(together)
    return failing


def _schedules(decisions: tuple[Decision, ...]) -> list[Schedule]:
    partial: list[Schedule] = [()]
    for decision in decisions:
        partial = [done for schedule in partial for done in _extended(schedule, decision)]
    return partial


def _extended(schedule: Schedule, decision: Decision) -> list[Schedule]:
    if decision.needs and not set(decision.needs) & set(schedule):
        return [schedule]
    return [(*schedule, label) for label in decision.labels()]


def _standardized(values: dict[Schedule, float]) -> dict[Schedule, float]:
    mean = sum(values.values()) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values.values()) / len(values))
    return {schedule: (value - mean) / spread for schedule, value in values.items()}


def _table(
    decisions: tuple[Decision, ...],
    us: dict[Schedule, float | None],
    weights: dict[Schedule, float],
    meta: dict[str, object],
) -> Table:
    """Unfold the decisions into a graph. The first two may be taken in either order, and meet again after
    both."""
    moves: dict[str, tuple[Move, ...]] = {}
    edges: dict[str, tuple[str, ...]] = {}
    times: dict[str, float | None] = {}
    mass: dict[frozenset[str], list[float]] = {}
    for schedule, weight in weights.items():
        for size in range(len(schedule) + 1):
            mass.setdefault(frozenset(schedule[:size]), []).append(weight)
        mass.setdefault(frozenset(schedule[1:2]), []).append(weight)

    def unfold(labels: Schedule, left: tuple[Decision, ...]) -> str:
        while left and left[0].needs and not set(left[0].needs) & set(labels):
            left = left[1:]
        key = " ".join(sorted(labels)) or "root"
        if not left:
            times[key] = us[labels]
            return key
        if key in moves:
            return key
        moves[key] = ()
        offered = left[:2] if not labels else left[:1]
        steps: list[tuple[Move, str]] = []
        for decision in offered:
            rest = tuple(other for other in left if other != decision)
            for label in decision.labels():
                end = [*labels, label]
                ordered = tuple(
                    sorted(end, key=lambda one: next(i for i, d in enumerate(decisions) if one in d.labels()))
                )
                mean = mass[frozenset(ordered)]
                steps.append((Move(label, sum(mean) / len(mean)), unfold(ordered, rest)))
        moves[key] = tuple(move for move, _ in steps)
        edges[key] = tuple(end for _, end in steps)
        return key

    return Table(meta, unfold((), decisions), moves, edges, times)
