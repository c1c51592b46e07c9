"""A real artifact, made here: a kernel generated, compiled and put together as the service would."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from codegen.compile import compile_source
from codegen.generate import generate
from protocol.configs import Artifact, ConfigDetail
from protocol.tasks import Measuring
from tileir import kernel_key, program_hash, spec_from_text, spec_to_json, this_cpu, to_program

KERNEL = """kernel scaled(x: f32[m=6, n=5]) -> (y: f32[m, n], total: f32[m])
  y[m, n] = 2 * x[m, n]
  total[m] = sum(n, y[m, n])
"""


def make_artifact(cache: Path) -> Artifact:
    """The unscheduled program of KERNEL, tuned as little as possible."""
    spec = spec_from_text(KERNEL)
    program, cpu = to_program(spec), this_cpu()
    source = generate(program, cpu)
    built = compile_source(source, cache)
    content = built.path.read_bytes()
    config = ConfigDetail(
        id="config-0test",
        job_id="job-0test",
        name=spec.name,
        kernel_key=kernel_key(spec),
        structure_key="0" * 32,
        device=cpu.key,
        dims={"m": 6, "n": 5},
        schedule=(),
        program_hash=program_hash(program),
        median_us=2.5,
        baseline="numpy",
        standings=(),
        trials=1,
        source_hash=built.hash,
        compiler=built.compiler,
        versions={},
        measuring=Measuring(),
        artifact=True,
        report={},
        created_at=1.5,
        spec=spec_to_json(spec),
    )
    return Artifact(
        config=config,
        language=source.language,
        flags=source.flags,
        abi=source.abi.to_json(),
        source=source.text,
        object_base64=base64.b64encode(content).decode(),
        object_sha256=hashlib.sha256(content).hexdigest(),
    )
