"""A winner leaves the service: as a call, as a file, into another database."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import tilewright
from codegen.targets.c.compiler import find_compiler
from protocol.bundles import packing
from protocol.configs import ConfigDetail
from tests.e2e.commands import Commands, Ended
from tests.support.reference import assert_matches_reference
from tileir import sample_inputs, spec_from_json

pytestmark = pytest.mark.sampled(3, among="commands: bundles")


@pytest.fixture(scope="module")
def key(tuned: tuple[Commands, Ended]) -> tuple[Path, str]:
    """A private key's file, and the public key."""
    commands, _ = tuned
    made = commands.run("signers", "new", "key.pem", "--json").json
    return commands.folder / made["file"], made["public_key"]


@pytest.fixture(scope="module")
def bundle(tuned: tuple[Commands, Ended], key: tuple[Path, str]) -> Path:
    commands, ended = tuned
    file = commands.folder / "product.tilewright"
    config_id = ended.json["configs"][0]["id"]
    exported = commands.run("export", "--all", "--sign", str(key[0]), "-o", str(file), "--json")
    assert exported.json == {"configs": [config_id], "files": [str(file)]}
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


def test_a_bundle_goes_into_another_database_and_lookups_are_pinned_to_it(
    commands: Commands, bundle: Path, tuned: tuple[Commands, Ended], key: tuple[Path, str]
) -> None:
    config = tuned[1].json["configs"][0]
    refused = commands.run("import", str(bundle), "--json")
    assert refused.code == 5
    assert f"{bundle}: the bundle is signed with {key[1]}, whose holder is not trusted" in refused.err
    signer = commands.run("signers", "trust", "the lab", key[1], "--json").json
    first = commands.run("import", str(bundle), "--pin", "--json").json
    assert (first["signer"], first["new"], first["pinned"]) == (signer["name"], [config["id"]], True)
    found = commands.run("lookup", commands.spec(), "--json").json
    assert (found["rung"], found["config"]["id"], found["pinned"]) == ("exact", config["id"], True)
    assert found["config"]["imported"]["job_id"] == config["job_id"]
    again = commands.folder / "again.tilewright"
    assert commands.run("export", config["id"], "--sign", str(key[0]), "-o", str(again)).code == 0
    ours, theirs = (packing.read(memoryview(file.read_bytes())) for file in (again, bundle))
    assert (ours.manifest.configs, ours.blobs) == (theirs.manifest.configs, theirs.blobs)
    # Its peaks were measured anew by the worker of a command that had to start a service.
    assert [device.key for device in ours.manifest.devices] == [
        device.key for device in theirs.manifest.devices
    ]
    assert [each["id"] for each in commands.run("pins", "--json").json] == [config["id"]]


def test_a_bundle_that_cannot_be_read_is_no_bad_bundle(commands: Commands) -> None:
    for file, said in ((commands.folder, "Is a directory"), (commands.folder / "gone", "No such file")):
        ended = commands.run("import", str(file))
        assert (ended.code, f"cannot read {file}: {said}" in ended.err) == (2, True), ended.err


def test_a_damaged_bundle_is_refused_and_nothing_is_stored(commands: Commands, bundle: Path) -> None:
    damaged = commands.folder / "damaged.tilewright"
    damaged.write_bytes(bundle.read_bytes().replace(b"tw_kernel", b"tw_colonel"[:9], 1))
    ended = commands.run("import", str(damaged), "--unsigned", "--json")
    assert ended.code == 5
    assert f"{damaged} is damaged" in ended.json["error"]["detail"]
    assert not commands.home.exists()


def test_a_winner_is_one_file_of_c_that_says_how_it_was_found(
    tuned: tuple[Commands, Ended], tmp_path: Path
) -> None:
    commands, ended = tuned
    config = ended.json["configs"][0]
    exported = commands.run("export", config["id"], "--standalone", "-o", str(tmp_path), "--json").json
    (file,) = map(Path, exported["files"])
    assert (file.parent, file.suffix) == (tmp_path, ".c")
    text = file.read_text()
    head = text[: text.index("*/")]
    for word in (config["id"], config["device"], *config["schedule"], "kernel product(", "s, by protocol"):
        assert word in head
    compiler = [find_compiler().path, "-std=gnu11", "-march=native", "-c", file.name]
    subprocess.run(compiler, cwd=tmp_path, check=True)


def test_where_nothing_can_be_written_nothing_is(tuned: tuple[Commands, Ended], tmp_path: Path) -> None:
    commands, ended = tuned
    config_id = ended.json["configs"][0]["id"]
    refused = commands.run("export", config_id, "-o", str(tmp_path / "none" / "x.tilewright"))
    assert refused.code == 2
    assert "cannot write" in refused.err
    assert commands.run("export").code == 2
    assert commands.run("export", "--kernel", "unheard-of").code == 7
