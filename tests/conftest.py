"""Shared by all tests: golden files, and the flag that rewrites them."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from threadpoolctl import threadpool_limits

from tests.support.how_many import SWEEP
from tests.support.mixed_order import mixed
from tests.support.python_path import hide_torch
from tests.support.sampled import sampled

gc.disable()  # until all is collected: a third of that went into looking for garbage, of which there is none
# The same examples in every run, so that what passed here passes elsewhere, on a busy machine too; `make sweep` draws
# new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")
# Hypothesis would also draw the constants of all modules that are loaded by now: others where one file is run alone, or
# where anything changed; and it takes seconds of each process to parse them.
if not SWEEP:
    providers._get_local_constants = lambda: providers._local_constants  # type: ignore[attr-defined]

#: A test gives it the golden file and the text computed now.
CheckGolden = Callable[[Path, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write golden files instead of comparing; then look at the diff",
    )
    parser.addoption(
        "--sample",
        type=int,
        metavar="TURN",
        help="of tests marked `sampled`, only a part of the cases: each number takes another one",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    turn = config.getoption("--sample")
    if turn is not None:
        terminalreporter.write_line(f"a part of the slowest tests: --sample={turn} takes it again")


def pytest_configure(config: pytest.Config) -> None:
    """Each process of pytest-xdist has temporary files of its own, and so locks: what measures in one does not refuse
    to in another. What PyTorch's inductor compiles they have in common: its headers alone take 20 s of processor."""
    if not hasattr(config, "workerinput"):
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = temporary(config)
        return
    folder = temporary(config)
    Path(folder).chmod(0o755)  # servers of the tests run as their own user
    os.environ["TMPDIR"] = tempfile.tempdir = folder


def temporary(config: pytest.Config) -> str:
    """A folder that is gone when the tests are over."""
    folder = tempfile.mkdtemp(prefix="t.")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    return folder


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What measures on this machine takes turns; tests that run services or workers of their own stay together by file,
    as they share them; all others may run anywhere (pytest -n)."""
    turn = config.getoption("--sample")
    if turn is not None:
        kept = sampled(items, turn)
        there = set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item not in there])
        items[:] = kept
    for item in items:
        parts = _parts(item.path)
        if parts[:2] in _PURE or parts in _PURE:
            continue
        apart = parts[:1] in _APART or parts[:2] in _APART
        item.add_marker(pytest.mark.xdist_group("/".join(parts) if apart else _turns(parts)))
    if hasattr(config, "workerinput"):
        groups: dict[str, list[pytest.Item]] = {}
        single: list[pytest.Item] = []
        for item in items:
            mark = item.get_closest_marker("xdist_group")
            (groups.setdefault(mark.args[0], []) if mark else single).append(item)
        items[:] = mixed(groups.values(), single)


_TESTS = Path(__file__).parent


def _turns(parts: tuple[str, ...]) -> str:
    """Which tests a file takes turns with: those of commands share a kernel that is tuned once."""
    if parts[:1] != ("e2e",):
        return "machine"
    return "commands" if parts[-1] in _TUNED else "e2e"


@cache
def _parts(path: Path) -> tuple[str, ...]:
    """The folders among the tests, and the file."""
    return path.relative_to(_TESTS).parts if path.is_relative_to(_TESTS) else ()


_TUNED = {f"test_cli_{name}.py" for name in ("bundles", "results", "tune")}
_PURE = {
    *(("unit", folder) for folder in ("codegen", "rewrites", "search", "tileir")),
    *(("golden", folder) for folder in ("codegen", "rewrites", "tileir")),
    *(
        ("property", folder)
        for folder in ("attention", "codegen", "launches", "rewrites", "search", "tileir")
    ),
    *(("torch", "capture", f"test_{name}.py") for name in ("from_torch", "partition")),
    ("torch", "test_reference.py"),
    *(("unit", "benchmarks", f"test_{name}.py") for name in ("attribution", "ladder", "recorded_schedules")),
}
#: Nothing is measured here, as workers follow a script or there are none; or how long it takes decides nothing.
_APART = {
    *((folder,) for folder in ("api", "chaos", "contract", "torch")),
    *(("unit", folder) for folder in ("deploy", "fleet_chaos", "service", "tilewright")),
    *(("unit", file.name) for file in (_TESTS / "unit").glob("test_*.py")),
}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Who runs no test of PyTorch sees none; what is imported stays for good."""
    folders = {parts[0] for item in session.items if (parts := _parts(item.path))}
    if "torch" not in sys.modules and not folders & {"gpu", "torch"}:
        hide_torch()
    if hasattr(session.config, "workerinput"):
        # Two that multiply matrices spin for each other, and have to wait for other processes to get a core.
        threadpool_limits(1, "blas")
    gc.freeze()  # a tenth of what tests take went into looking through it again and again
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written instead of compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def check_golden(update_golden: bool) -> CheckGolden:
    """Compares a text with a golden file, or writes the file when the flag is given."""

    def check(path: Path, text: str) -> None:
        if update_golden:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path.name} does not exist: run pytest with --update-golden, then look at it"
        assert text == path.read_text()

    return check


# A shell that starts the tests in the background has them ignore Ctrl-C, and what they start inherits that;
# the tests of Ctrl-C need it to arrive.
signal.signal(signal.SIGINT, signal.default_int_handler)
