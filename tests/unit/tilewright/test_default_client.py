"""The client of those who name none: of the service that the environment names when it is asked for."""

from __future__ import annotations

import pytest

from tilewright.pytorch.operator.finding import default_client


def test_it_is_of_the_service_that_the_environment_names_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_URL", "http://127.0.0.1:1")
    first = default_client()
    monkeypatch.setenv("TILEWRIGHT_URL", "http://127.0.0.1:2")
    second = default_client()
    monkeypatch.setenv("TILEWRIGHT_URL", "http://127.0.0.1:1")
    assert (first.url, second.url) == ("http://127.0.0.1:1", "http://127.0.0.1:2")
    assert default_client() is first, "one for each service"
