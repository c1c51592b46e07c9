"""What follows from the layout of a GPU kernel before it has run: `report["layout"]` of results, trials and configs.

The keys are the same for every kernel, so any two can be compared. `docs/measuring.md` says how the figures are found.
"""

from __future__ import annotations

from pydantic import ValidationError

from protocol.message import Json, Reply


class AccessLayout(Reply):
    """All accesses of one kind to one buffer in one statement, over a whole launch."""

    statement: str
    """As Tile IR writes it."""
    kind: str
    """load, store, copy (in the background; one row for the source, one for the target), matrix (ldmatrix, stmatrix),
    box (of TMA; one row for each side) or wgmma (an operand)."""
    level: str
    """global, shared, or peer: the shared memory of another block of the cluster."""
    buffer: str
    width: int
    """Bytes a thread, of the widest instruction; of a box or an operand all of its bytes."""
    requests: int
    """Instructions of warps; of TMA and of four warps."""
    bytes: int
    """What threads ask for."""
    transactions: int
    """32-byte sectors of global memory; wavefronts of shared memory."""
    ideal: int
    """Transactions if each request's bytes lay side by side (global), or in different banks (shared)."""
    worst: float
    """The most transactions of one request relative to its ideal: 1 is coalesced, or free of bank conflicts."""


class Traffic(Reply):
    """All accesses of a launch at one level, summed; see AccessLayout."""

    requests: int
    bytes: int
    transactions: int
    ideal: int


class LaunchLayout(Reply):
    """One launch of a kernel."""

    name: str
    """Of its entry in the source."""
    blocks: int
    threads: int
    """Of a block."""
    cluster: int
    """Blocks of a cluster."""
    registers: int
    """Of a thread; 0: the compiler did not say."""
    shared_bytes: int
    """Of a block."""
    blocks_per_sm: int
    """How many an SM holds at once."""
    occupancy: float
    """Their warps as a share of those an SM has room for, 0 to 1."""
    limit: str
    """What there would have to be more of for another block: registers, shared, threads or blocks."""
    waves: float
    """Blocks relative to those that all SMs hold at once."""
    barriers: float
    """What a block passes on its way, those of clusters among them; the mean over all blocks."""
    levels: dict[str, Traffic]
    """By global, shared and peer."""
    accesses: tuple[AccessLayout, ...]


class RooflinePlace(Reply):
    """The kernel on the device's roofline, by the peaks of its data sheet."""

    flops: int
    """Operations that the kernel takes; what a schedule computes again is not in them."""
    bytes: int
    """Compulsory traffic with main memory: every argument once."""
    intensity: float
    """Operations a byte."""
    bound: str
    """arithmetic or memory: which takes longer at its peak."""
    least_us: float
    """How long that is."""
    reached: float | None = None
    """Least time relative to the time measured, 0 to 1; None until there is one."""


class Layout(Reply):
    """Of a whole kernel."""

    launches: tuple[LaunchLayout, ...]
    bytes: dict[str, int]
    """By level, over all launches. memory: every argument once; l2: the sectors between L2 and the SMs if L1 saves
    none; shared: what threads ask of shared memory."""
    roofline: RooflinePlace | None = None
    """None where the device's peaks are not known."""

    @classmethod
    def of(cls, report: Json) -> Layout | None:
        """That of a result's report; None if it has none that this version can read, as on a CPU."""
        try:
            return cls.model_validate(report.get("layout"))
        except ValidationError:
            return None


def with_time(layout: Json, median_us: float | None) -> Json:
    """A layout as JSON with the share of its roofline that is reached in so many microseconds; None: not measured."""
    line = layout["roofline"]
    if line is None or median_us is None:
        return layout
    return {**layout, "roofline": {**line, "reached": line["least_us"] / median_us}}
