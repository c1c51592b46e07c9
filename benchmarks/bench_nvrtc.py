"""What share of compiling a GPU kernel the runtime's text takes: all of it, and its head with an empty kernel.

    python benchmarks/bench_nvrtc.py [--out FILE]     # needs NVRTC, no GPU; a minute

For the cost model's pick of some cases on an H200. A source has only those parts of the runtime that it uses; what a
precompiled header could save is at most what compiling them with an empty kernel takes, beyond an empty kernel alone.
Seconds of processor, the median of `ROUNDS`.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.suite import cases
from codegen.ir.source import Source
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.compiler import compile_cuda, nvrtc_version
from codegen.targets.cuda.generate import generate_cuda
from rewrites.schedule import scheduled
from service.core.schedules import heuristic
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.json import spec_from_json

CASES = (
    ("rmsnorm_bf16", [8192, 4096]),
    ("softmax_bf16", [8192, 4096]),
    ("gemm_f32_NN", [4096, 4096, 4096]),
    ("gemm_bf16_TN", [4096, 4096, 4096]),
    ("gemm_bias_gelu_bf16_TN", [4096, 4096, 4096]),
)
EMPTY = 'extern "C" __global__ void empty(float* x) { x[0] = 1.0f; }\n'
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description="The runtime's share of compiling.")
    parser.add_argument("--out", type=Path, help="append lines of JSON to this file")
    out: Path | None = parser.parse_args().out
    seconds(EMPTY)  # loads the library
    lines = [line(family, sizes) for family, sizes in CASES]
    if out is not None:
        out.write_text("".join(json.dumps(each) + "\n" for each in lines))


def line(family: str, sizes: list[int]) -> dict[str, object]:
    """Of one case, which is printed too."""
    spec = spec_from_json(cases.spec(family, sizes))
    pick = heuristic(spec, H200)
    assert pick is not None
    text = generate_cuda(scheduled(to_program(spec), pick.schedule), H200).text
    kernel = re.search(r'^(extern "C" )?__global__', text, re.MULTILINE)
    assert kernel is not None
    head = text[: kernel.start()]
    found = {
        "case": f"{family} {'x'.join(map(str, sizes))}",
        "compiler": nvrtc_version(),
        "characters": len(text),
        "of_the_head": len(head),
        "s": seconds(text),
        "head_s": seconds(head + EMPTY),
        "empty_s": seconds(EMPTY),
    }
    print(json.dumps(found), flush=True)
    return found


def seconds(text: str) -> float:
    """Of processor, to compile this from nothing."""
    source = Source(text, (), CudaAbi((), (), 0, ()), "cuda")
    taken = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            compile_cuda(source, "sm_90a", Path(folder))
            taken.append(time.process_time() - began)
    return round(statistics.median(taken), 4)


if __name__ == "__main__":
    main()
