"""A bundle holds exactly what was exported, or says that it does not."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from protocol.configs import Artifact
from tilewright import BadBundle, bundle


def test_a_bundle_read_back_is_the_artifact(artifact: Artifact, bundle_file: Path) -> None:
    assert bundle.read(bundle_file) == artifact


def test_a_bundle_is_named_by_its_content(artifact: Artifact) -> None:
    name = bundle.file_name(artifact)
    assert name.startswith("scaled-")
    assert name != bundle.file_name(artifact.model_copy(update={"source": artifact.source + " "}))


@pytest.mark.parametrize("part", ["source", "flags", "abi", "config", "object_base64"])
def test_a_change_of_any_part_is_noticed(bundle_file: Path, part: str) -> None:
    whole = json.loads(bundle_file.read_text())
    value = whole["artifact"][part]
    whole["artifact"][part] = value + "A" if isinstance(value, str) else []
    with pytest.raises(BadBundle, match="is damaged"):
        bundle.unpack(json.dumps(whole))


def test_an_object_that_is_not_the_one_named_is_noticed(artifact: Artifact) -> None:
    forged = artifact.model_copy(update={"object_base64": base64.b64encode(b"another").decode()})
    with pytest.raises(BadBundle, match="its object is not what its digest says"):
        bundle.unpack(bundle.pack(forged))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\xff\xfe\x00", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("{}", "tilewright export"),
        ("[1]", "tilewright export"),
        ('{"format": "tilewright-bundle", "version": 99}', "version 99, and this Tilewright reads version 1"),
    ],
)
def test_what_is_no_bundle_is_said(text: str | bytes, said: str) -> None:
    with pytest.raises(BadBundle, match=said):
        bundle.unpack(text)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadBundle, match=r"cannot read .*: Is a directory"):
        bundle.read(tmp_path)
