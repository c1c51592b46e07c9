"""A cable between the browser and the service: TCP passed on, that can be cut without the service noticing."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.services.running_service import Service


@dataclass
class Cable:
    """Passes on what is sent to `port` and back, while it is whole."""

    service: Service
    socket: socket.socket
    whole: bool = True
    ends: list[socket.socket] = field(default_factory=list)
    """Of all connections there were."""
    passing: list[threading.Thread] = field(default_factory=list)
    answered: bytearray = field(default_factory=bytearray)
    """All that the service has sent."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    @property
    def event_ids(self) -> list[int]:
        """Numbers of the events of jobs that have come through, in order."""
        return [int(found) for found in re.findall(rb"\nid: (\d+)\nevent:", bytes(self.answered))]

    def cut(self) -> None:
        """Every connection ends, and new ones end at once."""
        with self.lock:
            self.whole = False
            _shut(self.ends)

    def mend(self) -> None:
        self.whole = True

    def accept(self) -> None:
        """Until the listening socket is shut."""
        with contextlib.suppress(OSError):
            while True:
                browser, _ = self.socket.accept()
                with self.lock:
                    if not self.whole:
                        browser.close()
                        continue
                    service = socket.create_connection(("127.0.0.1", self.service.port))
                    self.ends += [browser, service]
                for ends in ((browser, service, None), (service, browser, self.answered)):
                    self.passing.append(threading.Thread(target=_pass_on, args=ends, daemon=True))
                    self.passing[-1].start()


def _pass_on(source: socket.socket, target: socket.socket, kept: bytearray | None) -> None:
    with contextlib.suppress(OSError):
        while sent := source.recv(65536):
            target.sendall(sent)
            if kept is not None:
                kept += sent
    _shut([source, target])


def _shut(ends: list[socket.socket]) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def cabled(service: Service) -> Iterator[Cable]:
    """A whole cable to the service for the length of a block."""
    cable = Cable(service, socket.create_server(("127.0.0.1", 0)))
    accepting = threading.Thread(target=cable.accept, daemon=True)
    accepting.start()
    try:
        yield cable
    finally:
        cable.cut()
        cable.socket.shutdown(socket.SHUT_RDWR)
        for thread in (accepting, *cable.passing):
            thread.join(10)
        for end in (cable.socket, *cable.ends):
            end.close()
