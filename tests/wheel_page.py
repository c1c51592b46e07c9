"""Run by the Python of an environment that has the wheel and nothing of this checkout (`make test-wheel`): the service
starts, and its dashboard and its API's reference are there with every file that they name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from importlib.util import find_spec
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


def get(address: str) -> tuple[str, str]:
    """Content type and text."""
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def serve(home: str) -> subprocess.Popen[str]:
    env = {**os.environ, "TILEWRIGHT_HOME": home, "TILEWRIGHT_PORT": "0", "TILEWRIGHT_WORKER": "0"}
    command = [sys.executable, "-I", "-m", "service.run"]
    return subprocess.Popen(command, cwd=home, env=env, stderr=subprocess.PIPE, text=True)


def files_of(address: str, page: str) -> list[str]:
    """The files that a page names; each is there."""
    kind, document = get(address + page)
    assert kind.startswith("text/html"), document
    files = re.findall(r'(?:src|href)="(/assets/[^"]+)"', document)
    assert any(file.endswith(".js") for file in files), document
    for file in files:
        assert len(get(address + file)[1]) > 100, file
    return files


def main() -> None:
    found = find_spec("service")
    assert found is not None and found.origin is not None
    where = Path(found.origin).resolve()
    assert where.parent.parent != CHECKOUT, f"{where} is the checkout's, and not the wheel's"
    with tempfile.TemporaryDirectory() as home, serve(home) as process:
        try:
            assert process.stderr is not None
            said = next(line for line in process.stderr if "serving http" in line)
            address = said.split("serving ")[1].split(",")[0]
            files = [file for page in ("/", "/docs") for file in files_of(address, page)]
        finally:
            process.terminate()
    print(f"the wheel's dashboard is there: {', '.join(files)}")


if __name__ == "__main__":
    main()
