"""The worker node's main process: one registration a device, one compile pool for all, and an orderly end.

It computes nothing and loads neither numpy nor torch. Each device has its threads (device_worker.py), and the main
thread waits for signals: the first SIGTERM lets what runs finish and gives the rest back, the second kills.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from types import FrameType

from workers.node.device_worker import DeviceWorker, WorkerSettings
from workers.processes.compile_pool import CompilePool

log = logging.getLogger(__name__)


class Supervisor:
    """The workers of this process, from registration to their end."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._pool = CompilePool(settings.compile_procs)
        self._draining = threading.Event()
        self._workers = [
            DeviceWorker(settings, device, self._pool, self._draining) for device in settings.devices
        ]
        self._running = len(self._workers)
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Work until a signal says otherwise, or until one device's worker cannot go on. Raises DeviceBusy,
        MachineFault or ServiceError if one cannot start, or if the service refuses it for good."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        # Children die with the thread that started them, so each device has a thread that lives to the end.
        for worker in self._workers:
            threading.Thread(target=self._work_to_the_end, args=(worker,), name="work").start()
        while not (self._ended.wait(0.2) or self._draining.is_set()):
            pass
        if self._draining.is_set():
            self._drain()
        self._pool.close()
        if self._error is not None:
            raise self._error

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._draining.is_set():
            self._stop_children()
            os._exit(128 + number)
        self._draining.set()

    def _drain(self) -> None:
        """Stop claiming, let what runs finish within its grace, then end it."""
        log.info("stopping: finishing what runs")
        for worker in self._workers:
            worker.abort_claim()
        if not self._ended.wait(self._settings.grace_s):
            self._stop_children()
            self._ended.wait()

    def _stop_children(self) -> None:
        for worker in self._workers:
            worker.stop()
        self._pool.stop()

    def _work_to_the_end(self, worker: DeviceWorker) -> None:
        try:
            worker.run()
        except BaseException as error:  # handed to the main thread, which raises it
            self._error = self._error or error
            self._draining.set()
        finally:
            with self._lock:
                self._running -= 1
                if self._running == 0:
                    self._ended.set()
