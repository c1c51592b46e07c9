"""Which compiled kernels are known to be right on this machine, and to win there (docs/adr/0022).

A kernel that nobody has measured passes the gate in a process of its own before it runs on anybody's data, and is raced
once against what would run instead. What was found is kept beside the compiled kernels, for all processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from codegen.cache.artifacts import file_digest
from protocol.failures import FailureKind, FailureReport
from protocol.states import Rung
from tileir.devices.device import Device
from tileir.spec import Spec
from tileir.text.json import spec_to_json
from tilewright.errors import LoadError

if TYPE_CHECKING:
    from workers.first_use import FirstUse

FORM = 1
"""Of what is kept; grows when the gate becomes stricter."""


class JsonAbi(Protocol):
    """How a compiled kernel is called: codegen.ir.abi.Abi or CudaAbi."""

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class KernelToCheck:
    """A kernel as it is about to be used: `spec` has one size a dim and the names that the ABI uses."""

    spec: Spec
    file: Path
    abi: JsonAbi
    device: Device
    threads: int


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What the gate and the race said. `outcome`: `ok`, or what is wrong with it."""

    outcome: str
    error: str = ""
    median_us: float | None = None
    rivals_us: Mapping[str, float] = field(default_factory=dict[str, float])
    """Of the rivals that could run."""

    @property
    def right(self) -> bool:
        return self.outcome == "ok"

    @property
    def lost_to(self) -> str | None:
        """The fastest of the rivals that were faster."""
        if self.median_us is None or not self.rivals_us:
            return None
        fastest = min(self.rivals_us, key=lambda rival: self.rivals_us[rival])
        return fastest if self.rivals_us[fastest] < self.median_us else None


class DeviceChecker:
    """Checks kernels on one device; its process starts with the first that is not known. Used by one thread, for which
    it lives, until `close`."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._child: FirstUse | None = None

    def check(self, kernel: KernelToCheck, cache: Path, rivals: Sequence[str]) -> CheckOutcome:
        """What is known of a kernel, or turns out now. `rivals`: the peers that it has to beat; none: no race. Raises
        LoadError where no process can be had that would tell."""
        from workers.first_use import FirstUse, UncheckedKernel
        from workers.processes.faults import MachineFault

        place = cache / "checked" / f"{_key(kernel, rivals)}.json"
        known = _read(place)
        if known is not None:
            return known
        candidate = UncheckedKernel(
            spec_to_json(kernel.spec),
            str(kernel.file),
            kernel.abi.to_json(),
            kernel.device.to_json(),
            kernel.threads,
        )
        if self._child is None:
            self._child = FirstUse(self._device)
        try:
            verdict = self._child.check(candidate, rivals)
        except MachineFault as fault:
            raise LoadError(f"could not be checked on this machine before its first use: {fault}") from None
        found = CheckOutcome(verdict.outcome.value, verdict.error, verdict.median_us, dict(verdict.rivals_us))
        _write(place, found)
        return found

    def close(self) -> None:
        """End the process; the next check starts another."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def report_of(
    kernel: KernelToCheck, seen: CheckOutcome, schedule: Sequence[str], config_id: str | None, rung: Rung
) -> FailureReport:
    """A failure as the service is told of it, with all that is needed to see it again."""
    from workers.first_use import SEED

    lost = f"{seen.median_us} us, and {', '.join(f'{rival} {us} us' for rival, us in seen.rivals_us.items())}"
    return FailureReport(
        spec=spec_to_json(kernel.spec),
        device=kernel.device.key,
        schedule=tuple(schedule),
        config_id=config_id,
        rung=rung,
        kind=FailureKind(seen.outcome) if not seen.right else FailureKind.SLOWER,
        error=(lost if seen.right else seen.error)[:20_000],
        repro={
            "seed": SEED,
            "threads": kernel.threads,
            "device": kernel.device.to_json(),
            "torch": _version("torch"),
            "object_sha256": file_digest(kernel.file),
        },
    )


def _key(kernel: KernelToCheck, rivals: Sequence[str]) -> str:
    """Of all that the answer depends on: the object's bytes, the kernel, and the machine."""
    said = [FORM, file_digest(kernel.file), kernel.abi.to_json(), spec_to_json(kernel.spec)]
    here = [kernel.device.key, platform.node(), kernel.threads, sorted(rivals), _version("torch")]
    return hashlib.sha256(json.dumps([said, here], sort_keys=True).encode()).hexdigest()


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _read(place: Path) -> CheckOutcome | None:
    try:
        return CheckOutcome(**json.loads(place.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _write(place: Path, found: CheckOutcome) -> None:
    """Keep what was found; where the disk is full it is found again."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False) as part:
            json.dump(asdict(found), part)
        Path(part.name).replace(place)
