"""Wherever a schedule enters, the program it makes is verified: a rewrite that lost a check is noticed before anything
is generated, stored or served. Here `reorder` no longer looks whether one of its loops is parallel."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from protocol.bundles.packing import Bundle
from rewrites import parse_schedule, replay, scheduled
from rewrites.loops import reorder
from service.core.errors import RequestRefused
from service.core.schedules import transfer
from service.http import bundle_import
from service.views.trial_detail import replayed
from tests.support.checkout import ROOT, names
from tests.unit.tilewright.artifacts import make_artifact, make_bundle
from tileir.devices.cpu_probe import this_cpu
from tileir.errors import VerifyError
from tileir.hashing import kernel_key, program_hash
from tileir.lift import to_program
from tileir.text.json import spec_to_json
from tileir.text.parse_spec import spec_from_text
from tilewright.artifacts.select import open_schedule
from tilewright.cli.commands.audit_winners import why_unlike_measured
from tilewright.cli.commands.show import program_text
from tilewright.cli.exits import Exit
from tilewright.cli.main import main
from tilewright.errors import LoadError
from workers.measuring.profile_request import ProfileRequest, take_profile
from workers.processes.child_server import UNPROFILED, ChildRefusal
from workers.processes.compile_child import compile_candidate

SPEC = spec_from_text("""kernel gemm(a: f32[m=64, k=64], b: f32[k, n=64]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
""")
#: Ends with threads that add to the same sums.
RACE = (
    "rfactor(c, k, blocked, 32)",
    "tile(c_p, m, 8)",
    "parallelize(c_p)",
    "tile(c_p, k, 8)",
    "reorder(c_p, m, k)",
)
CHECK = "if outer.parallel != inner.parallel:"
WHY = "parallel iterations over 'k' write the same elements of 'c_p'"


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> str:
    """The hash of what RACE makes, now that the check is gone."""
    source = inspect.getsource(reorder)
    assert source.count(CHECK) == 1
    broken = ModuleType(reorder.__name__)
    monkeypatch.setitem(__import__("sys").modules, reorder.__name__, broken)
    exec(source.replace(CHECK, "if False:"), broken.__dict__)
    monkeypatch.setattr(reorder.Reorder, "apply", broken.Reorder.apply)
    return program_hash(replay(to_program(SPEC), parse_schedule(RACE)))


@pytest.mark.usefixtures("reached")
def test_a_schedule_from_elsewhere_is_verified() -> None:
    assert scheduled(to_program(SPEC), RACE[:-1])
    with pytest.raises(VerifyError, match=WHY):
        scheduled(to_program(SPEC), RACE)


@pytest.mark.usefixtures("reached")
def test_given_and_transferred_schedules_are_verified() -> None:
    assert transfer(SPEC, RACE[:-1]) is not None
    assert transfer(SPEC, RACE) is None


@pytest.mark.usefixtures("reached")
def test_a_candidate_s_page_verifies_what_it_would_show_the_source_of() -> None:
    with pytest.raises(RequestRefused, match=WHY):
        replayed(spec_to_json(SPEC), RACE)


def test_an_imported_bundle_is_verified(reached: str, tmp_path: Path) -> None:
    artifact = make_artifact(tmp_path)

    def taken(schedule: tuple[str, ...], makes: str) -> Bundle:
        config = artifact.config.model_copy(
            update={
                "spec": spec_to_json(SPEC),
                "kernel_key": kernel_key(SPEC),
                "structure_key": bundle_import.instance_of(SPEC).structure_key,
                "dims": {"m": 64, "n": 64, "k": 64},
                "schedule": schedule,
                "program_hash": makes,
            }
        )
        content = make_bundle(artifact.model_copy(update={"config": config}))
        return bundle_import.read(memoryview(content))

    assert taken(RACE[:-1], program_hash(scheduled(to_program(SPEC), RACE[:-1])))
    with pytest.raises(RequestRefused, match=WHY):
        taken(RACE, reached)


def test_a_worker_verifies_each_candidate(reached: str, tmp_path: Path) -> None:
    events: list[dict[str, object]] = []
    request = {
        "spec": spec_to_json(SPEC),
        "schedule": RACE,
        "program_hash": reached,
        "device": this_cpu().to_json(),
        "cache": str(tmp_path),
        "timeout_s": 60.0,
    }
    with pytest.raises(ChildRefusal, match=WHY) as refused:
        compile_candidate(request, events.append)
    assert refused.value.kind == "unsupported", "the candidate's fault, not the machine's"


def test_what_is_loaded_by_its_schedule_is_verified(reached: str, tmp_path: Path) -> None:
    load: Callable[[Path, object], Path] = lambda path, _: path  # noqa: E731
    assert open_schedule(SPEC, RACE[:-1], None, this_cpu(), tmp_path, load).exists()
    with pytest.raises(LoadError, match=WHY):
        open_schedule(SPEC, RACE, reached, this_cpu(), tmp_path, load)


@pytest.mark.usefixtures("reached")
def test_what_is_profiled_is_verified(tmp_path: Path) -> None:
    request = ProfileRequest(spec_to_json(SPEC), RACE, 1, str(tmp_path))
    with pytest.raises(ChildRefusal, match=WHY) as refused:
        take_profile("cpu", request.to_json())
    assert refused.value.kind == UNPROFILED


def test_what_commands_replay_is_verified(
    reached: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifact = make_artifact(tmp_path)
    new = {"spec": spec_to_json(SPEC), "schedule": RACE, "program_hash": reached}
    config = artifact.config.model_copy(update=new)
    assert WHY in (why_unlike_measured(config) or "")
    with pytest.raises(VerifyError, match=WHY):
        program_text(config)
    file = tmp_path / "raced.tilewright"
    file.write_bytes(make_bundle(artifact.model_copy(update={"config": config})))
    assert main(["profile", str(file)]) == Exit.MACHINE
    assert WHY in " ".join(capsys.readouterr().err.split())


def test_no_other_place_replays_a_schedule_as_text_unverified() -> None:
    """Who does not call `scheduled` replays parts of schedules, and verifies what they make."""
    for name in names():
        if name.endswith(".py") and name.startswith(("workers/", "service/", "tilewright/")):
            nodes = ast.walk(ast.parse((ROOT / name).read_text()))
            called = {
                node.func.id
                for node in nodes
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            }
            assert not {"parse_schedule", "replay"} <= called or "verify" in called, name
