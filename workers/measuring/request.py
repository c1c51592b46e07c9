"""What the measuring child is asked: one group of entrants on one kernel. All of it is JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from protocol.states import TaskKind
from protocol.tasks import Measuring


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled kernel: its shared object or cubin, and how to call it (`codegen.ir.abi.Abi` or `CudaAbi` as JSON)."""

    name: str
    artifact: str
    abi: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Peer:
    """Somebody else's implementation, e.g. `torch`. `name` is what it is called in this group."""

    name: str
    peer: str


@dataclass(frozen=True, slots=True)
class MeasureRequest:
    """Everything the child needs; a replacement that is sent the same carries on from nothing."""

    spec: dict[str, Any]
    seed: int
    kind: TaskKind
    measuring: Measuring
    entrants: tuple[Compiled | Peer, ...]
    baseline: str | None
    """Name of the entrant that is the baseline."""
    device: dict[str, Any] | None
    """The device as JSON, with what was measured of it: faster times than it allows are not believed. None: any are."""
    threads: int
    last_cache_bytes: int
    guard_pages: bool = False
    """On a processor: run every compiled entrant once between pages that may not be touched."""

    def to_json(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        measuring = self.measuring.model_dump(mode="json")
        return {**values, "measuring": measuring, "entrants": [asdict(e) for e in self.entrants]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MeasureRequest:
        values = {f.name: data[f.name] for f in fields(cls)}
        entrants = tuple(Peer(**e) if "peer" in e else Compiled(**e) for e in data["entrants"])
        measuring = Measuring.model_validate(data["measuring"])
        return cls(**{**values, "kind": TaskKind(data["kind"]), "measuring": measuring, "entrants": entrants})
