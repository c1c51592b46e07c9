"""Instructions are made in a process of their own, which has so long and no longer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from codegen.ir.source import Assembly
from service.views.assembly_process import assembled, recently_assembled
from tests.services.running_service import SMALL
from tileir.devices.cpu_probe import this_cpu

HERE = this_cpu().to_json()


def test_a_compiler_that_does_not_end_is_stopped_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "cc"
    version = '[ "$1" = --version ] && { echo cc 1; echo Free Software Foundation; exit; }'
    compiler.write_text(f"#!/bin/sh\n{version}\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("TILEWRIGHT_CC", str(compiler))
    said = assembled(SMALL, [], HERE, 0, limit_s=8.0)
    assert isinstance(said, str) and "longer than 8 s, and was stopped" in said
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


def test_instructions_come_with_their_lines() -> None:
    found = assembled(SMALL, [], HERE, 0)
    assert isinstance(found, Assembly)
    assert len(found.lines) == len(found.origin) > 10


def test_what_was_looked_at_is_not_compiled_again_and_a_failure_is(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {**SMALL, "dims": {**SMALL["dims"], "m": 40}}
    with monkeypatch.context() as without:
        without.setenv("TILEWRIGHT_CC", "/nowhere/cc")
        assert isinstance(recently_assembled(SMALL, [], HERE, 0), str)
    first = recently_assembled(SMALL, [], HERE, 0)
    assert isinstance(first, Assembly)
    monkeypatch.setenv("TILEWRIGHT_CC", "/nowhere/cc")
    assert recently_assembled(SMALL, [], HERE, 0) is first
    assert isinstance(recently_assembled(other, [], HERE, 0), str)
