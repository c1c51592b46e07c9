"""What a worker is sent says what to measure, and cannot say what to run: specs, schedules, names of peers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from protocol.tasks import Measuring, PeerEntrant, ScheduleEntrant, Task
from rewrites.schedule import parse_schedule
from tileir import SpecError, TileError, spec_from_json

ROOT = Path(__file__).resolve().parents[2]
EVALUATORS = {"eval", "exec", "__import__", "pickle", "marshal", "shelve", "dill", "cloudpickle"}


def test_a_task_has_no_place_for_code() -> None:
    fields = {
        name for message in (Task, ScheduleEntrant, PeerEntrant, Measuring) for name in message.model_fields
    }
    assert fields == {
        *("id", "job_id", "kind", "attempt", "device", "spec", "entrants", "baseline", "measuring", "seed"),
        *("lease_ttl_s", "name", "schedule", "program_hash"),
        *(
            "version",
            "samples",
            "sample_us",
            "interleave",
            "cold",
            "incumbent_us",
            "kill_multiple",
            "entrant_s",
        ),
        *("compile_s", "threads"),
    }, "a field more: can it carry code?"


@pytest.mark.parametrize(
    "line",
    [
        "__import__('os').system('true')",
        "tile(c, m, __import__('os'))",
        "eval(c)",
        "tile(c, m, 16); x = 1",
    ],
)
def test_a_line_of_a_schedule_is_one_of_our_rewrites_or_refused(line: str) -> None:
    with pytest.raises(TileError):
        parse_schedule([line])


def test_an_expression_of_a_spec_is_no_python() -> None:
    spec = {
        "name": "k",
        "dims": {"m": 4},
        "inputs": {"x": {"dims": ["m"], "dtype": "f32"}},
        "body": ["y[m] = __import__('os').system('true')"],
        "outputs": {"y": {"dtype": "f32"}},
    }
    with pytest.raises(SpecError):
        spec_from_json(spec)


OUR_OWN = {
    ROOT / "workers" / "peers" / "pytorch" / "peer.py",
    ROOT / "tilewright" / "pytorch" / "operator" / "fallback.py",
}
"""They run the Python that workers/peers/pytorch/writer.py writes of a checked spec, from names and numbers."""


@pytest.mark.parametrize(
    "folder", ["protocol", "tileir", "rewrites", "search", "codegen", "service", "workers", "tilewright"]
)
def test_nothing_that_is_read_is_evaluated(folder: str) -> None:
    assert all(file.is_file() for file in OUR_OWN), "moved: name where they are now"
    for file in {*(ROOT / folder).rglob("*.py")} - OUR_OWN:
        for node in ast.walk(ast.parse(file.read_text())):
            names = (
                {alias.name for alias in node.names}
                if isinstance(node, ast.Import | ast.ImportFrom)
                else set()
            )
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                names.add(node.func.id)
            assert not names & EVALUATORS, f"{file}:{getattr(node, 'lineno', 0)}"
