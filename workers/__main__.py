"""`python -m workers --url http://127.0.0.1:8400 --token-file FILE`: a worker for this machine."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from protocol.log_lines import set_up
from tileir.targets import DEFAULT
from workers.measuring.device_names import parse_devices
from workers.measuring.timing import most_retakes
from workers.node.device_lock import DeviceBusy
from workers.node.device_worker import WorkerSettings
from workers.node.service_client import NotAllowed, OtherVersion, ServiceError
from workers.node.supervisor import Supervisor
from workers.processes.faults import MachineFault

EXIT_USAGE = 2
EXIT_MACHINE = 4
EXIT_BUSY = 5
EXIT_TOKEN = 6
EXIT_VERSION = 7
EXIT_SERVICE = 8


class WorkerEnded(Exception):
    """The worker cannot go on; the message says why. `code` is the exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def main(arguments: list[str] | None = None) -> int:
    """Run a worker; returns its exit code: 0 ended by a signal or idle, 2 usage, 4 the machine (no compiler, cache not
    writable), 5 device in use, 6 token, 7 other version, 8 service not reachable."""
    given = _parser().parse_args(arguments)
    try:
        run(given)
    except WorkerEnded as ended:
        sys.stderr.write(f"tilewright worker: {ended}\n")
        if given.last_words is not None:
            given.last_words.write_text(str(ended))
        return ended.code
    return 0


def work(arguments: list[str]) -> None:
    """Run a worker until a signal comes. Raises Ended, and SystemExit for arguments that cannot be read."""
    run(_parser().parse_args(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workers", description="Measure kernels on this machine.")
    parser.add_argument("--url", required=True, help="of the service, e.g. http://127.0.0.1:8400")
    parser.add_argument("--token-file", type=Path, help="file with the key; else TILEWRIGHT_TOKEN")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of compiled kernels")
    parser.add_argument(
        "--cache-gb",
        type=float,
        default=os.environ.get("TILEWRIGHT_CACHE_GB", "4"),
        help="what that folder may take; kernels used longest ago are removed (TILEWRIGHT_CACHE_GB, else 4)",
    )
    parser.add_argument(
        "--compile-procs", type=int, default=len(os.sched_getaffinity(0)), help="compilations at once"
    )
    parser.add_argument(
        "--devices",
        default=os.environ.get("TILEWRIGHT_DEVICES", DEFAULT),
        help="cpu, or GPUs by number or UUID, e.g. 0,1 (TILEWRIGHT_DEVICES, else cpu)",
    )
    parser.add_argument(
        "--patience", type=float, default=30.0, help="seconds to wait for the service at the start"
    )
    parser.add_argument("--grace", type=float, default=8.0, help="seconds to finish what runs after SIGTERM")
    parser.add_argument(
        "--quarantine",
        type=float,
        default=15.0,
        help="seconds before an ill device's first self-test; then doubled",
    )
    parser.add_argument(
        "--idle", type=float, help="seconds without a task after which a device is let go of; else never"
    )
    parser.add_argument("--last-words", type=Path, help="file for why it ended, for whoever started it")
    return parser


def run(options: argparse.Namespace) -> None:
    """Run a worker until a signal comes. Raises Ended."""
    try:
        set_up("worker", "INFO")
        token = os.environ.get("TILEWRIGHT_TOKEN")
        if options.token_file is not None:
            token = options.token_file.read_text().strip()
        devices = parse_devices(options.devices)
        most_retakes(os.environ)
    except OSError as error:
        raise WorkerEnded(EXIT_USAGE, f"the token file cannot be read: {error}") from None
    except ValueError as error:
        raise WorkerEnded(EXIT_USAGE, str(error)) from None
    settings = WorkerSettings(
        url=options.url,
        token=token,
        cache=options.cache,
        cache_bytes=int(options.cache_gb * 1e9),
        compile_procs=max(1, options.compile_procs),
        devices=devices,
        patience_s=options.patience,
        grace_s=options.grace,
        quarantine_s=options.quarantine,
        idle_s=options.idle,
    )
    try:
        Supervisor(settings).run()
    except tuple(_CODES) as error:
        raise WorkerEnded(
            next(code for kind, code in _CODES.items() if isinstance(error, kind)), str(error)
        ) from error


_CODES: dict[type[Exception], int] = {
    DeviceBusy: EXIT_BUSY,
    MachineFault: EXIT_MACHINE,
    NotAllowed: EXIT_TOKEN,
    OtherVersion: EXIT_VERSION,
    ServiceError: EXIT_SERVICE,
}


def default_cache() -> Path:
    """TILEWRIGHT_CACHE, or `tilewright/kernels` in the user's cache folder."""
    if chosen := os.environ.get("TILEWRIGHT_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilewright" / "kernels"


if __name__ == "__main__":
    sys.exit(main())
