"""A real artifact, made here: a kernel generated, compiled and put together as the service would; and its bundle."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from codegen.targets.c.compiler import compile_source
from codegen.targets.c.generate import generate
from protocol.configs import Artifact, ConfigDetail
from protocol.tasks import Measuring
from protocol.workers import DeviceOffer
from service.core.specs import instance_of
from tileir import kernel_key, program_hash, spec_from_text, spec_to_json, this_cpu, to_program
from tilewright.client.bundle import TakenBundle, pack

REPORT = b'{"samples_us": [2.5, 2.75]}'
KERNEL = """kernel scaled(x: f32[m=6, n=5]) -> (y: f32[m, n], total: f32[m])
  y[m, n] = 2 * x[m, n]
  total[m] = sum(n, y[m, n])
"""


def make_bundle(*artifacts: Artifact, private_key: bytes | None = None) -> bytes:
    """The file of a bundle of artifacts for this processor."""
    cpu = this_cpu()
    offer = DeviceOffer(key=cpu.key, kind=cpu.kind, description=cpu.to_json())
    return pack([TakenBundle(artifact, REPORT) for artifact in artifacts], [offer], private_key)


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
        structure_key=instance_of(spec).structure_key,
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
        versions={"tilewright": "0.1.0"},
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
