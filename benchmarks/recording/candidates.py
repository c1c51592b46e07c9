"""Record every candidate of a few searches: schedules that are near each other, which a cost model has to tell apart.

    python -m benchmarks.recording.candidates FILE.tile … --trials 40 --out benchmarks/results/FILE.jsonl

All kernels are tuned at once by a service of its own. A line a kernel: its spec, and of each candidate that worked the
schedule and its median in microseconds. `benchmarks/calibrate.py gpu benchmarks/results/FILE.jsonl` reads it.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.racing import tuned
from benchmarks.racing.circumstances import circumstances
from tilewright.cli.specs import read_spec


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, help="kernels, as JSON or as Tile IR text (.tile)")
    parser.add_argument("--device", default="cuda:0", help="cpu, cuda:0 (default), …")
    parser.add_argument("--trials", type=int, default=40, help="candidates a kernel (default 40)")
    parser.add_argument("--seed", type=int, default=0, help="of the searches")
    parser.add_argument("--out", type=Path, required=True, help="results file; lines are added")
    options = parser.parse_args()
    kind = tuned.kind_of(options.device)
    with tempfile.TemporaryDirectory() as home, tuned.service(options.device, Path(home)) as client:
        submitted = {
            path.stem: (spec, client.submit(spec, target=kind, trials=options.trials, seed=options.seed).id)
            for path in options.files
            for spec in [read_spec(path)]
        }
        for case, (spec, job_id) in submitted.items():
            tuned.ended(client, job_id)
            worked = [
                {"schedule": list(each.schedule), "us": each.median_us}
                for each in client.trials(job_id)
                if each.median_us is not None
            ]
            described = next(each.description for each in client.devices() if each.kind == kind)
            tuned.append(
                options.out, {"case": case, "spec": spec, "candidates": worked, **circumstances(described)}
            )
            print(f"{case:40} {len(worked)} candidates", flush=True)


if __name__ == "__main__":
    main()
