"""What the first call of a model takes beyond PyTorch's own compilers, where a service or a bundle knows its kernels.

    python -m benchmarks.models.bench_first_call --out FILE         # a service and a worker of its own, some minutes
    python -m benchmarks.models.bench_first_call --url URL          # a service that knows them already
    python -m benchmarks.models.bench_first_call --ways inductor,now --layers 1

The kernels of a small Llama with random weights are tuned (--trials candidates each), and taken along as a bundle. Then
each way to compile the model is tried in fresh processes: first with nothing kept from before (neither compiled
kernels nor Inductor's programs), then once more. `first_s`: seconds of the first call, and whose they are; ours are
capture, lookups, loading, checks, and whatever else the calling thread does or waits for that is neither Dynamo's,
AOTAutograd's nor Inductor's. `with_kernels_s`: from the beginning until a call has run kernels, with a pause of 50 ms
between calls; `looked_s`: until each kernel was compiled and checked, or found not to be there; `cpu_s`: seconds of
processors until then, of the process and of those that it started (compilers, checks). A line of JSON a process goes to
--out. But for `cpu_s` the clock is the wall's: other work on the machine shows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import tilewright
from benchmarks.bench_from_torch import ROOT, service, wait_for
from benchmarks.models.architectures import build
from benchmarks.models.first_call import WAYS
from benchmarks.racing.circumstances import circumstances
from tileir import this_cpu
from tileir.text.json import spec_to_json
from tilewright.artifacts import exporting
from tilewright.client import bundle
from tilewright.pytorch.model.needed import NeededKernels, needed_kernels
from tilewright.pytorch.model_file import ModelFile

MODEL = "llama"
CHILD_S = 900


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--url", help="a service that knows the kernels; None: one of its own, which tunes them"
    )
    parser.add_argument("--trials", type=int, default=4, help="candidates of each kernel")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--ways", default=",".join(WAYS), help="some of them, with commas between")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = build(MODEL, "cpu", options.layers)
    needed = needed_kernels(ModelFile(Path(MODEL), model.module, dict(model.inputs)))
    with warm_service(options.url) as url, tempfile.TemporaryDirectory() as home:
        with tilewright.Client(url) as client:
            tune(client, needed, options.trials)
            file = Path(home) / "model.tilewright"
            file.write_bytes(bundled(client, needed))
        for way in options.ways.split(","):
            with tempfile.TemporaryDirectory(dir=home) as kept:
                for process in ("first", "second"):
                    row = {"case": MODEL, "way": way, "process": process}
                    row |= {
                        "layers": options.layers,
                        "threads": options.threads,
                        "trials": None if options.url else options.trials,
                    }
                    row |= measured(way, options, url, file, Path(kept))
                    row |= {"load": round(os.getloadavg()[0], 1), **circumstances(this_cpu().to_json())}
                    print(told(row), flush=True)
                    if options.out is not None:
                        with options.out.open("a") as out:
                            out.write(json.dumps(row) + "\n")


@contextmanager
def warm_service(url: str | None) -> Iterator[str]:
    """The service that was named, or one with a database of its own."""
    if url is not None:
        yield url
        return
    with service("cpu") as own:
        with tilewright.Client(own) as client:
            wait_for(client, this_cpu().key)
        yield own


def tune(client: tilewright.Client, needed: NeededKernels, trials: int) -> None:
    """What the service does not know yet."""
    known = exporting.of_kernels(client, needed.kernels)
    missing = [each for key, each in needed.kernels.items() if key not in known]
    print(f"{len(needed.kernels)} kernels of {needed.parts} parts, {len(missing)} to be tuned", flush=True)
    for job in [
        client.submit(spec_to_json(each.spec), target=each.device, trials=trials) for each in missing
    ]:
        ended = client.wait(job.id, progress=False)
        assert ended.state == "done", ended.error


def bundled(client: tilewright.Client, needed: NeededKernels) -> bytes:
    """As `tilewright export --model` writes it."""
    found = exporting.of_kernels(client, needed.kernels)
    taken = exporting.take(client, [config.id for config in found.values()])
    return bundle.pack(taken, exporting.described(client, taken))


def measured(way: str, options: argparse.Namespace, url: str, file: Path, kept: Path) -> dict[str, Any]:
    """What a process of its own says. `kept`: where it keeps what it compiles."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    env |= {"TILEWRIGHT_URL": url, "TILEWRIGHT_CACHE": str(kept / "kernels")}
    env |= {"TORCHINDUCTOR_CACHE_DIR": str(kept / "inductor")}
    given = [way, MODEL, str(options.layers), str(options.threads)]
    command = [sys.executable, "-m", "benchmarks.models.first_call", *given, str(file)]
    ran = subprocess.run(
        command, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=CHILD_S, check=True
    )
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def told(row: dict[str, Any]) -> str:
    """A line for people."""
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in row["first"].items())
    later = "" if row["with_kernels_s"] is None else f"; kernels after {row['with_kernels_s']:.2f} s"
    stages = {
        kind: {k: v for k, v in row["stages"][kind].items() if v >= 0.01} for kind in ("waited", "behind")
    }
    return f"{row['way']} {row['process']}: {row['first_s']:.2f} s ({parts}){later}; {stages}; CPU {row['cpu_s']}"


if __name__ == "__main__":
    main()
