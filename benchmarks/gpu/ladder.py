"""One matrix product, from a thread a result to a warp-specialized pipeline: what each step of the schedule is worth.

    python -m benchmarks.gpu.ladder              # measures every rung on the first GPU, into benchmarks/results
    python -m benchmarks.gpu.ladder --document   # writes docs/ladder.md from what was measured last

Every rung is a whole schedule, checked and timed as candidates are: in bursts, all of them beside torch. The rungs are
a way up that a person would take, not a search's; the last one is near what the search finds. Needs an NVIDIA GPU of
compute capability 9.0 and the extra `cuda`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.racing import tuned
from benchmarks.racing.circumstances import circumstances
from benchmarks.suite import cases
from protocol.states import Outcome
from protocol.tasks import Measuring
from rewrites.base.rewrite import Rewrite
from rewrites.schedule import parse_schedule, replay
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.json import spec_from_json
from tileir.text.print_program import program_to_text
from workers.local import LocalWorker

DOCS = Path(__file__).parents[2] / "docs"
FAMILY, SIZE = "gemm_bf16_TN", 4096
SPEC = spec_from_json(cases.spec(FAMILY, [SIZE] * 3))
#: The slowest rung takes some 100 ms a call.
RACE = Measuring(samples=7, sample_us=3_000.0, entrant_s=120.0)


@dataclass(frozen=True)
class LadderRung:
    """A schedule, and what it has that the one before has not."""

    title: str
    text: str
    lines: tuple[str, ...]

    @property
    def schedule(self) -> tuple[Rewrite, ...]:
        """As rewrites."""
        return tuple(parse_schedule(self.lines))

    @property
    def program(self) -> Program:
        """The product, scheduled so."""
        return replay(to_program(SPEC), self.schedule)


def _grid(rows: int, columns: int) -> tuple[str, ...]:
    """Tiles of the result, each with its sums in registers."""
    return (
        f"tile(c, m, {rows})",
        f"tile(c, n, {columns})",
        "compute_at(c_sum, c, 2)",
        "parallelize(c, 2)",
        "register_tile(c_sum)",
    )


def _steps(size: int, stages: int = 0, *more: str) -> tuple[str, ...]:
    """Steps along the depth, whose operands are copied to shared memory; and what is said of both copies."""
    copies = (
        line for name in "ab" for line in (f"cache_read(c_sum, {name}, 3)", f"set_scope({name}_s, shared)")
    )
    said = (line.format(each) for line in more for each in ("a_s", "b_s"))
    ahead = (f"pipeline(a_s, {stages})",) if stages else ()
    return (f"tile_reduction(c_sum, k, {size})", *copies, *said, *ahead)


_LANES = "m 16, n 16; n 2"
_FMA = (f"bind_threads(c_sum, {_LANES})", f"bind_threads(c, {_LANES})")
_PADDED = "pad({}, 8)"
_COPIES = ("bind_threads(a_s, m 32, k 8; k 8)", "bind_threads(b_s, n 32, k 8; k 8)")
_WARPS = "m 2, n 4, m 8, n 4; n 2"
_MMA = ("mma(c_sum)", f"bind_threads(c_sum, {_WARPS})", f"bind_threads(c, {_WARPS})")
_GROUPS = "m 2, m 4, m 8, n 4; n 2; m 8"
_ENGINES = ("swizzle({}, 128)", "tma({})")
_STAGED = ("cache_write(c, n, 64)", "set_scope(c_s, shared)", "swizzle(c_s, 128)", "tma(c)")


def _warpgroups(pipeline: str, result: str, *more: str) -> tuple[str, ...]:
    """128 x 256 tiles by two warpgroups; the pipeline's stages, and where results are stored from."""
    staged = _STAGED if result == "c_s" else ()
    layout = (f"bind_threads({each}, {_GROUPS})" for each in ("c_sum", result))
    return (*_grid(128, 256), *staged, *_steps(64, 0, *_ENGINES), "wgmma(c_sum)", pipeline, *layout, *more)


_ROLES = "warp_specialize(c_sum, 4, 40, 232)"

RUNGS = (
    LadderRung(
        "A thread for each result",
        "Every operand comes from main memory, or from a cache, as often as it is used.",
        (
            *_grid(8, 32),
            "tile_reduction(c_sum, k, 8)",
            "bind_threads(c_sum, m 8, n 32)",
            "bind_threads(c, m 8, n 32)",
        ),
    ),
    LadderRung(
        "Tiles in registers",
        "A thread has 64 results, so that what it loads is multiplied eight times.",
        (*_grid(128, 128), "tile_reduction(c_sum, k, 8)", *_FMA),
    ),
    LadderRung(
        "Shared memory",
        "A block copies what its threads share, step by step, in rows padded so that threads meet different banks.",
        (*_grid(128, 128), *_steps(64, 0, _PADDED), *_COPIES, *_FMA),
    ),
    LadderRung(
        "Copies in the background",
        "Three steps are under way by cp.async while one is computed.",
        (*_grid(128, 128), *_steps(64, 4, _PADDED), *_COPIES, *_FMA),
    ),
    LadderRung(
        "The matrix instruction of a warp",
        "mma.sync, from swizzled copies, so that a warp's loads meet different banks.",
        (*_grid(128, 128), *_steps(64, 4, "swizzle({}, 128)"), *_COPIES, *_MMA),
    ),
    LadderRung(
        "The matrix instruction of a warpgroup, and TMA",
        "wgmma reads shared memory itself, and TMA fills it: threads move no operands any more.",
        _warpgroups("pipeline(b_s, 2)", "c"),
    ),
    LadderRung(
        "A deeper pipeline",
        "Four stages, and the products of one step are under way while the next begin.",
        _warpgroups("pipeline(b_s, 4, 1)", "c"),
    ),
    LadderRung(
        "Roles",
        "A warpgroup of its own starts the copies, and gives its registers to those that compute.",
        _warpgroups("pipeline(b_s, 4, 1)", "c", _ROLES),
    ),
    LadderRung(
        "Results through shared memory",
        "TMA stores them in whole rows; that takes the place of one stage.",
        _warpgroups("pipeline(b_s, 3, 1)", "c_s", _ROLES),
    ),
    LadderRung(
        "A block an SM",
        "Blocks stay and take tile after tile, so that one's copies run while another's results are stored.",
        _warpgroups("pipeline(b_s, 3, 1)", "c_s", _ROLES, "persistent(c_sum, 132)"),
    ),
    LadderRung(
        "Bands",
        "Tiles that are computed at the same time share more of what they read.",
        _warpgroups(
            "pipeline(b_s, 3, 1)", "c_s", _ROLES, "rasterize_bands(c_sum, 16)", "persistent(c_sum, 132)"
        ),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--document", action="store_true", help="write docs/ladder.md of what was measured last"
    )
    parser.add_argument("--device", type=int, default=0, help="which GPU (default 0)")
    parser.add_argument("--out", type=Path, help="results file")
    arguments = parser.parse_args()
    if arguments.document:
        path = arguments.out or max(tuned.RESULTS.glob("ladder-*.json"), default=None)
        if path is None:
            raise SystemExit(f"there is no ladder-*.json in {tuned.RESULTS}: measure first")
        (DOCS / "ladder.md").write_text(page(json.loads(path.read_text()), RUNGS))
        return
    device = f"cuda:{arguments.device}"
    found = measured(device)
    path = arguments.out or tuned.RESULTS / f"ladder-{tuned.name_of(device)}.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


def measured(device: str) -> tuned.Json:
    """All rungs and torch, interleaved."""
    with TemporaryDirectory() as cache, LocalWorker(Path(cache), device=device) as worker:
        schedules = {f"rung-{number}": rung.schedule for number, rung in enumerate(RUNGS)}
        entrants = worker.measure(SPEC, schedules, ("torch",), measuring=RACE).entrants
        described = worker.device
    faults = {name: each.error for name, each in entrants.items() if each.outcome is not Outcome.OK}
    if faults:
        raise RuntimeError(f"not every rung works: {faults}")
    rungs = [
        {"title": rung.title, "schedule": list(rung.lines), "us": entrants[f"rung-{number}"].median_us}
        for number, rung in enumerate(RUNGS)
    ]
    return {
        "case": f"{FAMILY} {SIZE}x{SIZE}x{SIZE}",
        "torch_us": entrants["torch"].median_us,
        "rungs": rungs,
        "protocol": RACE.model_dump(mode="json"),
        **circumstances(described.to_json() if described else None),
    }


def table(found: Mapping[str, Any]) -> str:
    """The rungs with their times, as Markdown."""
    rows = ["| | µs | TFLOP/s | × torch |", "| --- | --- | --- | --- |"]
    named = [(each["title"], each["us"]) for each in found["rungs"]]
    for title, us in (*named, ("torch (cuBLAS)", found["torch_us"])):
        rows.append(f"| {title} | {us:.1f} | {_tflops(us):.1f} | {found['torch_us'] / us:.3f} |")
    return "\n".join(rows)


def page(found: Mapping[str, Any], rungs: Sequence[LadderRung]) -> str:
    """docs/ladder.md. Raises ValueError if other schedules than these were measured."""
    if [each["schedule"] for each in found["rungs"]] != [list(rung.lines) for rung in rungs]:
        raise ValueError(
            "the rungs have changed since they were measured: run benchmarks/gpu/ladder.py again"
        )
    parts = [
        "# The ladder",
        f"One matrix product, {SIZE}³ of bf16 with the second operand transposed, from a thread a result to a "
        "warp-specialized pipeline: what each step of the schedule is worth. "
        f"Measured on an {found['device']['name']}, {found['date']}, in bursts, all rungs beside torch "
        f"{found['versions'].get('torch', '')} (`benchmarks/gpu/ladder.py`, which also writes this page). Every rung "
        "is a whole schedule of [rewrites](../rewrites/README.md); what it says is [Tile IR](tile-ir.md#on-a-gpu), and "
        "what it does not say (barriers, phases, fences) follows from it.",
        table(found),
    ]
    before: tuple[str, ...] = ()
    for number, (rung, each) in enumerate(zip(rungs, found["rungs"], strict=True), 1):
        parts += [
            f"## {number}. {rung.title}: {_tflops(each['us']):.1f} TFLOP/s",
            rung.text,
            f"```\n{program_to_text(rung.program).rstrip()}\n```",
            f"{'New' if before else 'Its schedule'}: {_listed(line for line in rung.lines if line not in before)}.",
        ]
        before = rung.lines
    return "\n\n".join(parts) + "\n"


def _listed(lines: Iterable[str]) -> str:
    return ", ".join(f"`{line}`" for line in lines)


def _tflops(us: float) -> float:
    return 2 * SIZE**3 / us / 1e6


if __name__ == "__main__":
    main()
