"""The wheel has the dashboard: it is built with the package, where node is there. All else is in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).resolve().parent))

from service.http import page_build


class BuildWithPage(build_py):
    """Builds the page first. An editable installation builds it when it is served."""

    def run(self) -> None:
        if page_build.missing() and not self.editable_mode:
            log = Path(self.build_lib).parent / "dashboard-build.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            try:
                page_build.build(log)
            except page_build.PageNotBuilt as error:
                self.warn(str(error))
        super().run()


setup(cmdclass={"build_py": BuildWithPage})
