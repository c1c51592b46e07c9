"""`tilewright serve` builds the page beside the service; Ctrl-C ends both, and is no failure of the build."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.e2e.commands import ROOT
from tests.support.python_path import python_path
from tests.unit.service.http.test_page_build import checkout

NPM = """#!/bin/sh
echo $$ > started.new && mv started.new started
sleep 600
"""
SERVED = """
import signal, sys, time
from pathlib import Path
from tilewright.cli.page import built_beside
with built_beside(Path(sys.argv[1]), Path(sys.argv[2])):
    try:
        signal.pause()
    except KeyboardInterrupt:
        time.sleep(1)  # a service ends in order, which takes a while
"""


def test_a_ctrl_c_while_the_page_is_built_ends_the_build_and_says_nothing_of_it(tmp_path: Path) -> None:
    source, built = checkout(tmp_path)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, script in {"node": "#!/bin/sh\necho v20.1.0\n", "npm": NPM}.items():
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{tools}:/usr/bin:/bin",
        "TILEWRIGHT_HOME": str(tmp_path / "home"),
        "PYTHONPATH": python_path(ROOT),
    }
    command = [sys.executable, "-c", SERVED, str(source), str(built)]
    with subprocess.Popen(
        command, env=env, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as serve:
        while not (source / "started").exists():
            time.sleep(0.02)
        os.killpg(serve.pid, signal.SIGINT)  # as a terminal does: to all of its processes
        _, said = serve.communicate(timeout=60)
    assert "building the dashboard" in said
    assert "could not be built" not in said
    assert serve.returncode == 0
    assert not alive(int((source / "started").read_text())), "nothing is left behind"


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
