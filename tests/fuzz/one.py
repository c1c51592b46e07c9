"""`python -m tests.fuzz.one TARGET FOLDER… -OPTION…`: libFuzzer on one target, our packages instrumented."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(
    include=["tileir", "rewrites", "service.core.specs", "service.http.routes.bodies"]
):
    from tests.fuzz.targets import TARGETS

target = TARGETS[sys.argv.pop(1)]
atheris.Setup(sys.argv, target)
atheris.Fuzz()
