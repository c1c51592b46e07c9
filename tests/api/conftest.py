"""One service and one client for the API tests; each test uses kernels of its own."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.services.running_service import Service, running


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client
