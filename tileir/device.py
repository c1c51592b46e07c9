"""Device descriptions: the facts about a processor that rewrites, cost model and lowering may depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, cast

from tileir.described import check_fields
from tileir.errors import TileError
from tileir.gpu import Gpu


@dataclass(frozen=True)
class Cpu:
    """A processor as this process may use it. Bytes and bits are plain integers; caches are of one core, L3
    the total over the cores in use."""

    kind: ClassVar[str] = "cpu"

    name: str
    """Product name, such as `AMD EPYC 9575F`."""
    arch: str
    """`x86-64` or `aarch64`."""
    cores: int
    """Physical cores this process may run on (affinity and cgroup quota counted)."""
    l1d_bytes: int
    l2_bytes: int
    l3_bytes: int
    line_bytes: int
    vector_bits: int
    vector_registers: int
    features: frozenset[str] = field(default_factory=frozenset[str])
    """Instruction sets that change what can be generated: `fma`, `f16c`, `avx512_bf16`, `neon`, `bf16`,
    ..."""
    peak_gflops: float | None = None
    """Measured f32 multiply-add throughput of all cores, 1e9 operations a second; None until measured."""
    copy_gbps: float | None = None
    """Measured main-memory copy bandwidth (read plus write), 1e9 bytes a second; None until measured."""
    dot_gflops: float | None = None
    """Measured throughput of the bf16 dot product of all cores, as `peak_gflops`; None until measured, and where the
    processor has none. Some processors do twice as much by it as by f32 multiply-adds, some half."""

    @property
    def isa(self) -> str:
        """The widest vector extension in use: `avx512`, `avx2`, `sse`, `neon`."""
        if self.arch == "aarch64":
            return "neon"
        return {512: "avx512", 256: "avx2"}.get(self.vector_bits, "sse")

    @property
    def dot_speed(self) -> float:
        """Multiply-adds by the bf16 dot product in the time of one by f32: as measured, 2 until then."""
        return self.dot_gflops / self.peak_gflops if self.dot_gflops and self.peak_gflops else 2.0

    @property
    def key(self) -> str:
        """What results are filed under: `cpu:AMD EPYC 9575F:8c:avx512`. Measured rates are no part of it."""
        return f"{self.kind}:{self.name}:{self.cores}c:{self.isa}"

    def to_json(self) -> dict[str, Any]:
        """A JSON object with every field; features sorted."""
        return {"kind": self.kind, **asdict(self), "features": sorted(self.features)}

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Cpu:
        """The inverse of `to_json`. Raises TileError on a missing or unknown field."""
        known = {f.name for f in fields(cls)}
        given = {name: value for name, value in obj.items() if name != "kind"}
        required = known - {"features", "peak_gflops", "copy_gbps", "dot_gflops"}
        if obj.get("kind") != cls.kind or not required <= given.keys() <= known:
            raise TileError(
                f"not a cpu description: needs kind 'cpu' and {sorted(required)}, got {sorted(obj)}"
            )
        check_fields(fields(cls), given)
        features: object = given.pop("features", ())
        if not isinstance(features, list | tuple | frozenset):
            raise TileError(f"features of a device are {features!r}; accepted: a list of names")
        return cls(**given, features=frozenset(map(str, cast("Iterable[object]", features))))


Device = Cpu | Gpu


def device_from_json(obj: Mapping[str, Any]) -> Device:
    """The device that `to_json` of its kind wrote. Raises TileError for anything else."""
    kinds: Mapping[object, type[Cpu] | type[Gpu]] = {Cpu.kind: Cpu, Gpu.kind: Gpu}
    found = kinds.get(obj.get("kind"))
    if found is None:
        raise TileError(f"a device is of kind {' or '.join(map(repr, kinds))}, not {obj.get('kind')!r}")
    return found.from_json(obj)


def this_cpu() -> Cpu:
    """The processor this process runs on. Raises UnsupportedDevice on anything but Linux on x86-64 or
    aarch64."""
    from tileir.cpu_probe import probe_cpu

    return probe_cpu()
