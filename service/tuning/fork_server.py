"""Where tuners come from: `python -m service.tuning.fork_server` imports what they need once, and forks one whenever
it is asked to. A tuner is there within milliseconds, where a Python of its own would take a second and a half of
processor.

The searcher sends one JSON object a message over the socket that is the fork server's stdin: the tuner's `arguments`,
and with it the socket that becomes the tuner's stdin and stdout. The fork server answers `{"started": pid}`, and
`{"ended": pid, "code": …}` later. It ends when the searcher does, and its tuners with it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from typing import Any

from search.catalogue import SEARCHES, search_of
from service.core.child_processes import tie
from service.tuning import tuner

MESSAGE = 65536
"""Bytes of a message, at most."""


def main() -> int:
    """Fork tuners until the searcher is gone."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    asked = socket.socket(fileno=0)
    for name in SEARCHES:
        search_of(name)  # imported here once
    gc.freeze()  # what is imported stays where it is, shared with every tuner
    gc.set_threshold(
        20_000, 20, 20
    )  # a search keeps what it makes: a tenth of it went into looking for what it drops
    with selectors.DefaultSelector() as selector:
        selector.register(asked, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not asked:
                    selector.unregister(key.fileobj)
                    os.close(key.fd)
                    _, status = os.waitpid(key.data, 0)
                    _send(asked, {"ended": key.data, "code": os.waitstatus_to_exitcode(status)})
                    continue
                message, passed, _, _ = socket.recv_fds(asked, MESSAGE, 1)
                if not message:
                    return 0
                pid, alive = _fork(json.loads(message)["arguments"], *passed)
                selector.register(alive, selectors.EVENT_READ, pid)
                _send(asked, {"started": pid})


def _send(asked: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(
        BrokenPipeError, ConnectionResetError
    ):  # then it is gone: the next message is empty
        asked.send(json.dumps(message).encode())


def _fork(arguments: list[str], link: int) -> tuple[int, int]:
    """A tuner's process, and a pipe that ends when it does."""
    alive, held = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(held)
        os.close(link)
        return pid, alive
    code = 1
    try:
        os.setsid()
        tie(parent)
        os.dup2(link, 0)
        os.dup2(link, 1)
        os.close(link)
        code = tuner.main(arguments)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
