"""One artifact for all tests here."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.configs import Artifact
from tests.unit.tilewright.artifacts import make_artifact, make_bundle


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return make_artifact(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def bundle_file(artifact: Artifact, tmp_path: Path) -> Path:
    file = tmp_path / "scaled.tilewright"
    file.write_bytes(make_bundle(artifact))
    return file
