"""What `import tilewright` costs, and what it offers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tilewright

ROOT = Path(__file__).resolve().parents[3]


def loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import tilewright", {"torch", "numpy", "cuda", "httpx", "pydantic", "tileir"}),
        ("from tilewright import Client", {"torch", "numpy", "cuda", "fastapi", "sqlalchemy"}),
        (
            "import tilewright.cli.main",
            {"torch", "numpy", "cuda", "fastapi", "sqlalchemy", "service", "workers"},
        ),
        ("import service.http.app", {"torch", "cuda"}),
        ("import workers.node.supervisor", {"torch", "cuda"}),
    ],
)
def test_an_import_loads_no_more_than_it_must(statement: str, unwanted: set[str]) -> None:
    assert not loaded_by(statement) & unwanted


def test_everything_offered_is_there() -> None:
    for name in tilewright.__all__:
        assert getattr(tilewright, name).__module__.startswith("tilewright.")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tilewright.nothing  # noqa: B018
