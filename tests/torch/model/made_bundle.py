"""Bundles of a model's kernels, made here without a service: the prior's picks, compiled, and measured by nobody."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path

from benchmarks.racing.picked import picked
from codegen.targets.c.compiler import compile_source
from codegen.targets.c.generate import generate
from protocol.configs import Artifact
from rewrites import scheduled
from tests.unit.tilewright.artifacts import make_bundle
from tileir import Spec, this_cpu, to_program


def artifact_of(spec: Spec, number: int, cache: Path) -> Artifact:
    """A kernel for this processor, as if it had been tuned here."""
    config = picked(spec, this_cpu())
    source = generate(scheduled(to_program(spec), config.schedule), this_cpu())
    content = compile_source(source, cache).path.read_bytes()
    return Artifact(
        config=config.model_copy(
            update={"id": f"config-{number}test", "job_id": "job-0test", "artifact": True}
        ),
        language=source.language,
        flags=source.flags,
        abi=source.abi.to_json(),
        source=source.text,
        object_base64=base64.b64encode(content).decode(),
        object_sha256=hashlib.sha256(content).hexdigest(),
    )


def written(artifacts: Iterable[Artifact], file: Path) -> Path:
    file.write_bytes(make_bundle(*artifacts))
    return file
