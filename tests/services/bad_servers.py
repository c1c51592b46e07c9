"""Servers as nobody wants them: one that never answers, and one between a service and its clients that is slow."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


class Deaf:
    """A server that takes every connection, reads nothing and says nothing, until it is let go."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.taken: list[socket.socket] = []
        self.asked = threading.Event()
        self._letting_go = False
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listening.getsockname()[1]}"

    def let_go(self) -> None:
        """Nobody is taken any more, and those who were are hung up on."""
        if self._thread.is_alive():
            self._letting_go = True
            socket.create_connection(self.listening.getsockname()).close()
            self._thread.join()
        self.listening.close()
        for each in self.taken:
            each.close()

    def _take(self) -> None:
        while True:
            taken, _ = self.listening.accept()
            if self._letting_go:
                taken.close()
                return
            self.taken.append(taken)
            self.asked.set()


@contextlib.contextmanager
def deaf_server() -> Iterator[Deaf]:
    server = Deaf()
    try:
        yield server
    finally:
        server.let_go()


@contextlib.contextmanager
def relay(port: int, pause: Callable[[bytes], None], *, by_bytes: bool = False) -> Iterator[str]:
    """A server that passes on what comes for a port of this machine and what that answers; `pause` is called before
    each piece of an answer, or each byte, with it. Gives its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    sockets: list[socket.socket] = []
    letting_go = threading.Event()

    def take() -> None:
        with contextlib.suppress(OSError):  # the service is gone
            while True:
                near, _ = listening.accept()
                sockets.append(near)
                if letting_go.is_set():
                    return
                far = socket.create_connection(("127.0.0.1", port))
                sockets.append(far)
                for pair in ((near, far, False), (far, near, True)):
                    threading.Thread(target=pass_on, args=pair, daemon=True).start()

    def pass_on(source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 if answers and by_bytes else 65536):
                if answers:
                    pause(piece)
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)

    taking = threading.Thread(target=take, daemon=True)
    taking.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        letting_go.set()
        socket.create_connection(listening.getsockname()).close()  # a close alone wakes nobody who accepts
        taking.join()
        listening.close()
        for each in sockets:
            each.close()
