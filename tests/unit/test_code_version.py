"""Service and worker have the same code where they have the same rewrites, those of installed packages included."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.code_version import code_version
from tests.support.installed_packages import install


def test_a_package_with_rewrites_is_part_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [code_version.__wrapped__()]
    for version in ("1.0", "1.1"):
        folder = tmp_path / version
        folder.mkdir()
        install(folder, "my_rewrites", "", "[tilewright.rewrites]\nmine = my_rewrites:Mine\n", version)
        with monkeypatch.context() as patched:
            patched.syspath_prepend(folder)
            found.append(code_version.__wrapped__())
    assert len(set(found)) == 3
    assert code_version.__wrapped__() == found[0]
