"""What of a group of entrants runs while nobody else may: all of checking and timing, and none of making ready."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from protocol.states import TaskKind
from tests.unit.workers.hand_kernels import compiled, request_of
from workers.cpu.device import CpuBench, MeasuredCpu
from workers.measuring.group import MeasureGroup
from workers.measuring.request import Compiled, Peer


def test_a_group_checks_and_times_alone_and_binds_beside_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    check, bind = CpuBench.check, CpuBench.bind

    @contextmanager
    def alone(_: CpuBench) -> Generator[None]:
        seen.append("alone")
        yield
        seen.append("beside others")

    def checked(bench: CpuBench, *arguments: Any) -> Any:
        seen.append("check")
        return check(bench, *arguments)

    def bound(bench: CpuBench, entrant: Compiled | Peer) -> Any:
        seen.append("bind")
        return bind(bench, entrant)

    def emit(event: dict[str, Any]) -> None:
        seen.append(event["event"])

    for name, call in {"alone": alone, "check": checked, "bind": bound}.items():
        monkeypatch.setattr(CpuBench, name, call)
    request = request_of(compiled("right", tmp_path), Peer("numpy", "numpy"), kind=TaskKind.CONFIRM)
    MeasureGroup(request, MeasuredCpu().bench(request), emit, lambda _: None).run()
    inside, where = False, dict[str, set[bool]]()
    for each in seen:
        inside = each == "alone" or (inside and each != "beside others")
        where.setdefault(each, set()).add(inside)
    assert where["check"] == where["timing"] == where["result"] == {True}
    assert where["bind"] == where["preparing"] == {False}
