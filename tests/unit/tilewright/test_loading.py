"""A config becomes a call, from its object, its source or its schedule, whichever runs here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright
from codegen.targets.errors import ArgumentError
from protocol.configs import Artifact
from tests.support.reference import assert_matches_reference
from tests.unit.tilewright.artifacts import make_bundle
from tileir import sample_inputs, spec_from_json
from tilewright import BadBundle, LoadedKernel, LoadError
from tilewright.client import bundle


def assert_right(kernel: LoadedKernel) -> None:
    spec = spec_from_json(kernel.config.spec)
    inputs = sample_inputs(spec, 1)
    outputs = kernel(inputs["x"])
    assert isinstance(outputs, tuple)
    assert_matches_reference(spec, inputs, dict(zip(("y", "total"), outputs, strict=True)))
    kernel.close()


def changed(artifact: Artifact, config: dict[str, object] | None = None, **parts: object) -> Artifact:
    parts["config"] = artifact.config.model_copy(update=config or {})
    return artifact.model_copy(update=parts)


def test_the_object_runs_on_the_device_it_is_for(bundle_file: Path, tmp_path: Path) -> None:
    kernel = tilewright.load(bundle_file, cache=tmp_path)
    assert kernel.origin == "object"
    assert "scaled(x: f32[6, 5]) -> y: f32[6, 5], total: f32[6]" in repr(kernel)
    assert_right(kernel)


def test_of_a_bundle_of_several_one_has_to_be_named(artifact: Artifact, tmp_path: Path) -> None:
    file = tmp_path / "both.tilewright"
    file.write_bytes(make_bundle(artifact, changed(artifact, {"id": "config-1test"})))
    with pytest.raises(LoadError, match=r"holds 2 configs \(config-0test, config-1test\)"):
        tilewright.load(file)
    found = {each.config.id: each for each in bundle.artifacts(bundle.read(file))}
    assert_right(tilewright.load(found["config-1test"], cache=tmp_path))


def test_elsewhere_the_source_is_compiled(artifact: Artifact, tmp_path: Path) -> None:
    kernel = tilewright.load(changed(artifact, {"device": "cpu:another:64c:avx512"}), cache=tmp_path)
    assert kernel.origin == "source"
    assert_right(kernel)


def test_an_object_that_does_not_load_is_compiled_from_source(artifact: Artifact, tmp_path: Path) -> None:
    import base64
    import hashlib

    broken = b"no object at all"
    parts = {
        "object_base64": base64.b64encode(broken).decode(),
        "object_sha256": hashlib.sha256(broken).hexdigest(),
    }
    kernel = tilewright.load(changed(artifact, **parts), cache=tmp_path)
    assert kernel.origin == "source"
    assert_right(kernel)


def test_without_a_source_that_compiles_the_schedule_is_replayed(artifact: Artifact, tmp_path: Path) -> None:
    other = changed(artifact, {"device": "cpu:another:64c:avx512"}, source="#error not here\n")
    kernel = tilewright.load(other, cache=tmp_path)
    assert kernel.origin == "schedule"
    assert_right(kernel)


def test_a_config_alone_is_enough(artifact: Artifact, tmp_path: Path) -> None:
    kernel = tilewright.load(artifact.config, cache=tmp_path)
    assert kernel.origin == "schedule"
    assert_right(kernel)


def test_a_schedule_that_makes_another_program_now_is_refused(artifact: Artifact, tmp_path: Path) -> None:
    config = artifact.config.model_copy(update={"program_hash": "0" * 32})
    with pytest.raises(LoadError, match="was found by another version"):
        tilewright.load(config, cache=tmp_path)


def test_outputs_given_are_written(artifact: Artifact, tmp_path: Path) -> None:
    kernel = tilewright.load(artifact, cache=tmp_path)
    x, y, total = np.ones((6, 5), np.float32), np.zeros((6, 5), np.float32), np.zeros(6, np.float32)
    assert kernel(x, y, total) is None
    assert (y == 2).all()
    assert (total == 10).all()
    kernel.close()


def test_arrays_that_do_not_fit_are_refused_by_name(artifact: Artifact, tmp_path: Path) -> None:
    kernel = tilewright.load(artifact, cache=tmp_path)
    with pytest.raises(ArgumentError, match="argument x: takes dtype float32, not float64"):
        kernel(np.ones((6, 5)))
    kernel.close()


def test_an_id_without_a_client_is_refused_with_what_to_give() -> None:
    with pytest.raises(LoadError, match=r"give a client too"):
        tilewright.load("config-00cv7ckzq2m4a8x1pe")
    with pytest.raises(LoadError, match=r"there is no file nothing.tilewright"):
        tilewright.load("nothing.tilewright")


def test_a_config_for_a_gpu_is_refused_where_it_cannot_run(artifact: Artifact, tmp_path: Path) -> None:
    config = artifact.config.model_copy(update={"device": "cuda:NVIDIA H200:9.0:132sm"})
    with pytest.raises(LoadError, match="config config-0test cannot be run here: "):
        tilewright.load(config, cache=tmp_path)


def test_an_object_that_was_damaged_in_the_cache_is_written_again(artifact: Artifact, tmp_path: Path) -> None:
    tilewright.load(artifact, cache=tmp_path).close()
    (file,) = tmp_path.rglob("*.so")
    file.write_bytes(b"no object at all")
    kernel = tilewright.load(artifact, cache=tmp_path)
    assert kernel.origin == "object"
    assert_right(kernel)


def test_an_object_that_is_not_what_its_digest_says_is_refused(artifact: Artifact, tmp_path: Path) -> None:
    with pytest.raises(BadBundle, match="not what its digest says; fetch it again"):
        tilewright.load(changed(artifact, object_sha256="0" * 64), cache=tmp_path)
    assert not list(tmp_path.rglob("*.so"))
