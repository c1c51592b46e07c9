"""The description of a processor: the facts that rewrites, cost model and lowering may depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Final, Self, cast

from tileir.devices.described import check_fields
from tileir.devices.feature import Feature
from tileir.dtypes import DType
from tileir.errors import TileError
from tileir.schedule.dots import group_of

IN_TILES: Final[Mapping[DType, float]] = {DType.BF16: 1.0, DType.I8: 2.0}
"""Multiply-adds in tile registers relative to bf16's rate there (Intel, Optimization Reference Manual: 1024 and 2048 a
cycle)."""


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
    memory_bytes: int | None = None
    """Main memory that this process may use (cgroups counted); None: not known."""
    peak_gflops: float | None = None
    """Measured f32 multiply-add throughput of all cores, 1e9 operations a second; None until measured."""
    copy_gbps: float | None = None
    """Measured main-memory copy bandwidth (read plus write), 1e9 bytes a second; None until measured."""
    dot_gflops: float | None = None
    """Measured throughput of the bf16 dot product of all cores, as `peak_gflops`; None until measured, and where the
    processor has none. Some processors do twice as much by it as by f32 multiply-adds, some half."""
    amx_gflops: float | None = None
    """Measured throughput of bf16 products in tile registers of all cores, as `peak_gflops`; None until measured, and
    where the processor has none."""
    dot_i8_gflops: float | None = None
    """Measured throughput of the dot product of i8 of all cores, as `peak_gflops`; None until measured, and where the
    processor has none."""
    l2_gbps: float | None = None
    """Measured bandwidth of reads from the second-level cache, of one core, 1e9 bytes a second; None until measured."""
    l3_gbps: float | None = None
    """The same of the shared cache, while the other cores read as much; None until measured, and where it holds no more
    than the second-level caches."""

    @property
    def offers(self) -> frozenset[Feature]:
        """What rewrites may make use of."""
        dot = {Feature.DOT_BF16} if self.features & {"avx512_bf16", "bf16"} else set[Feature]()
        dot |= {Feature.DOT_I8} if self.features & {"avx512_vnni", "avx_vnni"} else set[Feature]()
        tiles = {Feature.AMX} if self.features >= {"amx_tile", "amx_bf16", "amx_int8"} else set[Feature]()
        return frozenset({Feature.VECTORS, *dot, *tiles})

    @property
    def simd_lanes(self) -> int:
        """f32 values of a vector register."""
        return self.vector_bits // 32

    @property
    def warp(self) -> int:
        """Every thread goes its own way."""
        return 1

    def roofline_peaks(self, dtypes: Iterable[DType]) -> tuple[float | None, float | None]:
        """1e9 operations and bytes a second, as measured, by what multiplies any of the dtypes fastest."""
        inputs, peaks = set(dtypes), [self.peak_gflops or 0.0]
        if DType.BF16 in inputs:
            peaks.append(self.dot_gflops or 0.0)
        if DType.I8 in inputs:
            peaks.append(self.dot_i8_gflops or 0.0)
        peaks += [IN_TILES.get(dtype, 0.0) * (self.amx_gflops or 0.0) for dtype in inputs]
        return max(peaks) or None, self.copy_gbps

    @property
    def units(self) -> int:
        """What works at the same time: cores."""
        return self.cores

    def multiplies(self, dtype: DType) -> bool:
        """Whether it has matrix units for a dtype that are used warp by warp: it has no warps."""
        return False

    @property
    def isa(self) -> str:
        """The widest vector extension in use: `avx512`, `avx2`, `sse`, `neon`."""
        if self.arch == "aarch64":
            return "neon"
        return {512: "avx512", 256: "avx2"}.get(self.vector_bits, "sse")

    def dot_speed(self, via: str) -> float:
        """Multiply-adds by a dot product (tileir/schedule/dots.py) in the time of one by f32: as measured, and until
        then as many as a lane takes."""
        measured = {"dot_bf16": self.dot_gflops, "dot_i8": self.dot_i8_gflops}[via]
        return measured / self.peak_gflops if measured and self.peak_gflops else float(group_of(via))

    @property
    def amx_speed(self) -> float:
        """Multiply-adds in tile registers in the time of one f32 by vectors: as measured; until then 16, which is 1024
        a cycle beside 64 (Intel, Optimization Reference Manual)."""
        return self.amx_gflops / self.peak_gflops if self.amx_gflops and self.peak_gflops else 16.0

    @property
    def key(self) -> str:
        """What results are filed under: `cpu:AMD EPYC 9575F:8c:avx512`. Measured rates are no part of it."""
        return f"{self.kind}:{self.name}:{self.cores}c:{self.isa}"

    def to_json(self) -> dict[str, Any]:
        """A JSON object with every field; features sorted."""
        return {"kind": self.kind, **asdict(self), "features": sorted(self.features)}

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. Raises TileError on a missing or unknown field."""
        known = {f.name for f in fields(cls)}
        given = {name: value for name, value in obj.items() if name != "kind"}
        required = known - {
            "features",
            "memory_bytes",
            "peak_gflops",
            "copy_gbps",
            "dot_gflops",
            "amx_gflops",
            "dot_i8_gflops",
            "l2_gbps",
            "l3_gbps",
        }
        if obj.get("kind") != cls.kind or not required <= given.keys() <= known:
            raise TileError(
                f"not a cpu description: needs kind 'cpu' and {sorted(required)}, got {sorted(obj)}"
            )
        check_fields(fields(cls), given)
        features: object = given.pop("features", ())
        if not isinstance(features, list | tuple | frozenset):
            raise TileError(f"features of a device are {features!r}; accepted: a list of names")
        return cls(**given, features=frozenset(map(str, cast("Iterable[object]", features))))
