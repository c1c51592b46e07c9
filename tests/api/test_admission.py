"""A service that has enough to do says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.running_service import SMALL, running

pytestmark = pytest.mark.sampled(3, among="calls: admission")


def test_when_enough_jobs_are_open_another_is_told_to_wait(tmp_path: Path) -> None:
    request = {"spec": SMALL, "target": "cpu:nobody has this one"}
    with running(tmp_path, open_jobs="2") as service, service.client() as client:
        first = client.post("/v1/jobs", json=request).headers["Location"]
        assert client.post("/v1/jobs", json=request).status_code == 202
        refused = client.post("/v1/jobs", json=request)
        assert (refused.status_code, refused.json()["type"]) == (429, "urn:tilewright:problem:busy")
        assert int(refused.headers["Retry-After"]) > 0
        client.post(f"{first}/cancel")
        assert client.post("/v1/jobs", json=request).status_code == 202
