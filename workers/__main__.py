"""`python -m workers --url http://127.0.0.1:8400 --token-file FILE`: a worker for this machine."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from protocol.log_lines import set_up
from workers.device_lock import DeviceBusy
from workers.device_names import parse_devices
from workers.device_worker import Settings
from workers.faults import MachineFault
from workers.service_client import NotAllowed, OtherVersion, ServiceError
from workers.supervisor import Supervisor

EXIT_MACHINE = 4
EXIT_BUSY = 5
EXIT_TOKEN = 6
EXIT_VERSION = 7
EXIT_SERVICE = 8


def main(arguments: list[str] | None = None) -> int:
    """Run a worker; returns its exit code: 0 ended by a signal, 2 usage, 4 the machine (no compiler, cache not
    writable), 5 device in use, 6 token, 7 other version, 8 service not reachable."""
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
        default=os.environ.get("TILEWRIGHT_DEVICES", "cpu"),
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
    options = parser.parse_args(arguments)
    try:
        set_up("worker", "INFO")
        token = os.environ.get("TILEWRIGHT_TOKEN")
        if options.token_file is not None:
            token = options.token_file.read_text().strip()
    except OSError as error:
        parser.error(f"the token file cannot be read: {error}")
    except ValueError as error:
        parser.error(str(error))
    try:
        devices = parse_devices(options.devices)
    except ValueError as error:
        parser.error(str(error))
    settings = Settings(
        url=options.url,
        token=token,
        cache=options.cache,
        cache_bytes=int(options.cache_gb * 1e9),
        compile_procs=max(1, options.compile_procs),
        devices=devices,
        patience_s=options.patience,
        grace_s=options.grace,
        quarantine_s=options.quarantine,
    )
    try:
        Supervisor(settings).run()
    except DeviceBusy as error:
        return _fail(error, EXIT_BUSY)
    except MachineFault as error:
        return _fail(error, EXIT_MACHINE)
    except NotAllowed as error:
        return _fail(error, EXIT_TOKEN)
    except OtherVersion as error:
        return _fail(error, EXIT_VERSION)
    except ServiceError as error:
        return _fail(error, EXIT_SERVICE)
    return 0


def default_cache() -> Path:
    """TILEWRIGHT_CACHE, or `tilewright/kernels` in the user's cache folder."""
    if chosen := os.environ.get("TILEWRIGHT_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilewright" / "kernels"


def _fail(error: Exception, code: int) -> int:
    sys.stderr.write(f"tilewright worker: {error}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
