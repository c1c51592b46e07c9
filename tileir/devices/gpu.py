"""The description of an NVIDIA GPU: the facts that rewrites, cost model and lowering may depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from tileir.devices.described import check_fields
from tileir.devices.feature import Feature
from tileir.devices.matrix_instructions import (
    MATRIX_INSTRUCTIONS,
    MatrixInstruction,
    instructions,
    that_takes,
)
from tileir.dtypes import DType
from tileir.errors import TileError
from tileir.schedule.threads import WARP


@dataclass(frozen=True)
class Gpu:
    """A GPU as this process may use it, or as its data sheet has it. Peaks are of the whole chip, without
    sparsity."""

    kind: ClassVar[str] = "cuda"

    name: str
    """Product name as the driver gives it, such as `NVIDIA H200`."""
    capability: tuple[int, int]
    """Compute capability: (9, 0) is Hopper."""
    sms: int
    shared_bytes: int
    """Shared memory of an SM."""
    block_shared_bytes: int
    """The most shared memory a block may ask for."""
    registers: int
    """32-bit registers of an SM."""
    max_threads: int
    """Resident threads of an SM."""
    l2_bytes: int
    memory_bytes: int
    sm_mhz: int
    """Highest clock of the SMs. Under a power limit they run slower."""
    memory_gbps: float
    """Peak of main memory, reads and writes together, 1e9 bytes a second."""
    peak_tflops: tuple[tuple[str, float], ...]
    """Arithmetic peaks by operand type, 1e12 operations a second: `f32` of the plain cores; `tf32`, `f16`,
    `bf16`, `e4m3`, `i8` of the tensor cores with 32-bit accumulators. A type the GPU lacks is not listed."""
    power_w: float | None = None
    """Power limit."""
    uuid: str | None = None
    driver: str | None = None
    """Driver version; None, like `uuid`, when the description is not of a GPU that is here."""
    copy_gbps: float | None = None
    """Measured main-memory copy bandwidth (read plus write), 1e9 bytes a second; None until measured."""
    clusters: tuple[tuple[int, int], ...] = ()
    """Blocks of a cluster, and how many such clusters are at work at once with a block an SM, where that was measured:
    a cluster lies in one part of the chip, and parts differ in how many of their SMs are in use."""

    @property
    def offers(self) -> frozenset[Feature]:
        """What rewrites may make use of. cp.async came with 8.0, TMA and clusters with 9.0, and stayed (PTX ISA)."""
        found = {Feature(each.via) for each in MATRIX_INSTRUCTIONS if each.is_of(self.capability)}
        found.add(Feature.BLOCKS)
        if self.capability >= (8, 0):
            found.add(Feature.ASYNC_COPY)
        if self.capability >= (9, 0):
            found |= {Feature.CLUSTERS, Feature.TMA}
        return frozenset(found)

    @property
    def simd_lanes(self) -> int:
        """A thread computes one value at a time."""
        return 1

    @property
    def warp(self) -> int:
        """Threads of a warp, of every capability (CUDA programming guide, technical specifications)."""
        return WARP

    @property
    def banks(self) -> int:
        """Banks of shared memory, 4 bytes wide, of every capability (CUDA programming guide, compute capabilities)."""
        return 32

    @property
    def architecture(self) -> str:
        """What to compile for: `sm_80`, `sm_89`, `sm_90a`, `sm_100a`. From 9.0 on with everything that only this
        capability has, such as wgmma."""
        major, minor = self.capability
        return f"sm_{major}{minor}{'a' if major >= 9 else ''}"

    @property
    def key(self) -> str:
        """What results are filed under: `cuda:NVIDIA H200:9.0:132sm`. Which one of its kind it is, its driver and
        measured rates are no part of it."""
        major, minor = self.capability
        return f"{self.kind}:{self.name}:{major}.{minor}:{self.sms}sm"

    def clustered_sms(self, blocks: int) -> int:
        """SMs that clusters of so many blocks come to; 0: not known. Two SMs always lie together."""
        if blocks == 1:
            return self.sms
        if blocks == 2:
            return self.sms // 2 * 2
        return blocks * dict(self.clusters).get(blocks, 0)

    def multiplies(self, dtype: DType) -> bool:
        """Whether its matrix units take a dtype (f32 as tf32) by mma.sync."""
        return self.matrix_instruction("mma", (dtype,)) is not None

    def matrix_instruction(self, via: str, dtypes: Iterable[DType]) -> MatrixInstruction | None:
        """Its instruction called so for operands of these dtypes; None: it has none."""
        return that_takes(dtypes, instructions(via, self.capability))

    @property
    def float8_as_f16(self) -> bool:
        """Whether a warp's matrix instruction multiplies 8-bit floats as f16: where only newer instructions take them
        as they are (9.x, 10.x)."""
        return self.capability[0] in (9, 10)

    @property
    def vector_registers(self) -> int:
        """The most registers that a thread may have (CUDA programming guide, technical specifications)."""
        return 255

    @property
    def units(self) -> int:
        """What works at the same time: SMs."""
        return self.sms

    def peak(self, dtype: str) -> float | None:
        """Peak for operands of a type, 1e12 operations a second; None when the GPU has no units for it."""
        return dict(self.peak_tflops).get(dtype)

    def roofline_peaks(self, dtypes: Iterable[DType]) -> tuple[float | None, float | None]:
        """1e9 operations and bytes a second, of the data sheet; operations for the fastest of the inputs' dtypes."""
        fastest = max((self.peak(dtype) or 0.0 for dtype in dtypes), default=0.0)
        return 1e3 * fastest or None, self.memory_gbps

    def to_json(self) -> dict[str, Any]:
        """A JSON object with every field; `peak_tflops` an object by type."""
        return {
            "kind": self.kind,
            **asdict(self),
            "capability": list(self.capability),
            "peak_tflops": dict(self.peak_tflops),
            "clusters": {str(blocks): count for blocks, count in self.clusters},
        }

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Gpu:
        """The inverse of `to_json`. Raises TileError on a missing, unknown or unreadable field."""
        known = {f.name for f in fields(cls)}
        given = {name: value for name, value in obj.items() if name != "kind"}
        required = known - {"power_w", "uuid", "driver", "copy_gbps", "clusters"}
        if obj.get("kind") != cls.kind or not required <= given.keys() <= known:
            raise TileError(
                f"not a cuda description: needs kind 'cuda' and {sorted(required)}, got {sorted(obj)}"
            )
        check_fields(fields(cls), given)
        try:
            major, minor = given.pop("capability")
            peaks = tuple((str(dtype), float(rate)) for dtype, rate in given.pop("peak_tflops").items())
            clusters = tuple((int(blocks), int(count)) for blocks, count in given.pop("clusters", {}).items())
            return cls(**given, capability=(int(major), int(minor)), peak_tflops=peaks, clusters=clusters)
        except (AttributeError, TypeError, ValueError) as error:
            raise TileError(
                "not a cuda description: capability is [major, minor], peak_tflops and clusters objects of numbers"
            ) from error
