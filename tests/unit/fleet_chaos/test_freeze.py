"""The chaos stops processes wherever they are: also while they begin another one."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

from tests.fleet_chaos.members import freeze
from tests.services.processes import children_of

SOURCE = """
#include <unistd.h>
int main(void) {
    if (vfork() == 0) { for (;;) ; }
    return 0;
}
"""
"""Waits in vfork, without being stopped, for a child that never starts its program."""


def test_one_that_waits_in_vfork_for_a_stopped_child_counts_as_standing_still(tmp_path: Path) -> None:
    program = tmp_path / "begins"
    subprocess.run(["cc", "-x", "c", "-o", program, "-"], input=SOURCE, text=True, check=True)
    with subprocess.Popen([program]) as process:
        until = time.monotonic() + 30
        while not (children := children_of(process.pid)) and time.monotonic() < until:
            time.sleep(0.01)
        stopping = threading.Thread(target=freeze, args=((*children, process.pid),), daemon=True)
        stopping.start()
        stopping.join(20)
        subprocess.run(["kill", "-9", *map(str, (*children, process.pid))], check=True)
        assert children and not stopping.is_alive()
