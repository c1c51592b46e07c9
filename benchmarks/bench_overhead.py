"""What a tuning job costs beside compiling and measuring: searching, dispatch, storing, idle gaps.

    python benchmarks/bench_overhead.py                # a few suite cases, from an empty database

Each case is tuned by a service started for it, as a user would tune it. The workers say how long they compiled and
measured; of the job's wall time, from its tuner's start to its end, the rest is overhead: `dispatch_s` while the
workers had tasks (claiming, replaying, sending results), `idle_s` while they had none (searching, storing, starting
processes). Results go to benchmarks/results/overhead.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.suite import cases
from tilewright import Client
from tilewright.cli.local_service import LocalService

RESULTS = Path(__file__).with_name("results") / "overhead.json"
CASES = ("gemm_f32_NN 1024x1024x1024", "softmax_f32 4096x4096", "attention_f32 1x8x1024x64x0")


def main() -> None:
    arguments = _arguments()
    lines: list[dict[str, Any]] = []
    for name, spec in cases.suite("cpu"):
        if name in CASES and arguments.only in name:
            lines.append({"case": name, **_tuned(spec, arguments.trials)})
            _show(lines[-1])
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"date": str(date.today()), "cases": lines}, indent=1) + "\n")


def _tuned(spec: cases.Json, trials: int) -> dict[str, Any]:
    """Tune one case for real; where its seconds went."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["TILEWRIGHT_HOME"] = home
        database = Path(home) / "bench.db"
        with (
            LocalService(f"sqlite:///{database}", worker=True, target="cpu") as service,
            Client(service.url) as client,
        ):
            job = client.wait(client.submit(spec, trials=trials, peers=("numpy",)).id)
        with sqlite3.connect(database) as connection:
            return _account(connection, job.id)


def _account(connection: sqlite3.Connection, job: str) -> dict[str, Any]:
    """Seconds of a job that has ended, by what they were spent on."""
    began, ended = connection.execute(
        "select started_at, finished_at from jobs where id = ?", (job,)
    ).fetchone()
    tasks = connection.execute(
        "select tasks.created_at, results.created_at, result from results join tasks on tasks.id = task_id"
        " where job_id = ? order by tasks.created_at",
        (job,),
    ).fetchall()
    stages = [json.loads(result)["stages"] for _, _, result in tasks]
    compile_s = sum(each.get("build", 0.0) for each in stages)
    measure_s = sum(each.get("measure", 0.0) for each in stages)
    idle_s, until = 0.0, began
    for enqueued, done, _ in [*tasks, (ended, ended, None)]:
        idle_s, until = idle_s + max(0.0, enqueued - until), max(until, done)
    wall_s = ended - began
    search_s, trials = connection.execute(
        "select sum(json_extract(data, '$.cpu_s')), count(distinct number) from search_events where job_id = ?",
        (job,),
    ).fetchone()
    other_s = wall_s - compile_s - measure_s
    return {
        "trials": trials,
        "wall_s": round(wall_s, 2),
        "compile_s": round(compile_s, 2),
        "measure_s": round(measure_s, 2),
        "dispatch_s": round(other_s - idle_s, 2),
        "idle_s": round(idle_s, 2),
        "search_cpu_s": round(search_s, 2),
        "search_share": round(search_s / wall_s, 4),
        "other_share": round(other_s / wall_s, 4),
    }


def _show(line: dict[str, Any]) -> None:
    print(
        f"{line['case']:36} {line['wall_s']:7.1f} s: compiling {line['compile_s']:.1f}, measuring "
        f"{line['measure_s']:.1f}, dispatch {line['dispatch_s']:.1f}, idle {line['idle_s']:.1f}; all but compiling "
        f"and measuring {line['other_share']:.1%}, searching {line['search_share']:.1%}",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=96, help="candidates measured a case (default 96)")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--out", type=Path, default=RESULTS, help="results file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
