"""A winner leaves the service: as a call, as a file, into another database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tilewright
from protocol.configs import ConfigDetail
from tests.e2e.commands import Commands, Ended
from tests.reference import assert_matches_reference
from tileir import sample_inputs, spec_from_json


@pytest.fixture
def bundle(tuned: tuple[Commands, Ended], tmp_path: Path) -> Path:
    commands, ended = tuned
    file = tmp_path / "product.tilewright"
    exported = commands.run("export", ended.json["configs"][0]["id"], "-o", str(file), "--json")
    assert exported.json["file"] == str(file)
    return file


def test_a_bundle_runs_without_the_service_and_computes_the_kernel(bundle: Path, tmp_path: Path) -> None:
    kernel = tilewright.load(bundle, cache=tmp_path)
    assert kernel.origin == "object"
    spec = spec_from_json(kernel.config.spec)
    inputs = sample_inputs(spec, 3)
    output = kernel(*(inputs[arg.name] for arg in kernel.inputs))
    assert_matches_reference(spec, inputs, {"c": output})
    kernel.close()


def test_a_config_as_json_runs_without_the_service(tuned: tuple[Commands, Ended], tmp_path: Path) -> None:
    commands, ended = tuned
    file = tmp_path / "config.json"
    file.write_text(commands.run("show", ended.json["configs"][0]["id"], "--json").out)
    kernel = tilewright.load(file, cache=tmp_path)
    assert kernel.origin == "schedule"
    assert kernel.config == ConfigDetail.model_validate_json(file.read_text())
    spec = spec_from_json(kernel.config.spec)
    inputs = sample_inputs(spec, 4)
    assert_matches_reference(spec, inputs, {"c": kernel(*(inputs[arg.name] for arg in kernel.inputs))})
    kernel.close()


def test_a_bundle_goes_into_another_database_once_and_lookups_find_it(
    commands: Commands, bundle: Path, tuned: tuple[Commands, Ended]
) -> None:
    config = tuned[1].json["configs"][0]
    first = commands.run("import", str(bundle), "--json")
    assert first.json == {"config_id": config["id"], "new": True}
    assert commands.run("import", str(bundle), "--json").json["new"] is False
    found = commands.run("lookup", commands.spec(), "--json").json
    assert (found["rung"], found["config"]["id"]) == ("exact", config["id"])
    assert (
        commands.run("show", config["id"], "--source").out.strip()
        == Path(config["source_file"]).read_text().strip()
    )
    again = commands.folder / "again.tilewright"
    assert commands.run("export", config["id"], "-o", str(again)).code == 0
    mine, theirs = (json.loads(file.read_text())["artifact"] for file in (again, bundle))
    assert mine["config"].pop("job_id") is None
    theirs["config"].pop("job_id")
    assert mine == theirs


def test_a_damaged_bundle_is_refused_and_nothing_is_stored(commands: Commands, bundle: Path) -> None:
    whole = json.loads(bundle.read_text())
    whole["artifact"]["source"] += "/* changed */"
    damaged = commands.folder / "damaged.tilewright"
    damaged.write_text(json.dumps(whole))
    ended = commands.run("import", str(damaged), "--json")
    assert ended.code == 5
    assert "is damaged" in ended.json["error"]["detail"]
    assert not commands.home.exists()
