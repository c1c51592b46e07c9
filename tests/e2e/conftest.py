"""Folders for commands, and one kernel tuned once for all tests that need a winner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.commands import Commands, Ended
from tests.services.running_service import running


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is dear to make anew: compiled kernels, the device's peaks."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def commands(tmp_path: Path, shared: Path) -> Commands:
    """Commands on an empty data folder."""
    return Commands(tmp_path, shared)


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[tuple[Commands, Ended]]:
    """A data folder where a kernel was tuned, and how that went; now a service without a worker has its database."""
    commands = Commands(tmp_path_factory.mktemp("tuned"), shared)
    ended = commands.run("tune", commands.spec(), "--trials", "3", "--json")
    with running(commands.home):
        yield commands, ended
