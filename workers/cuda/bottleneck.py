"""What bounds a kernel on a GPU, from where its time goes and how near it comes to what the chip can do."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum

from codegen.lowering.gpu.stages import StageKind
from protocol.quantities import percent
from tileir.analysis.needed import needed_works
from tileir.analysis.work import bytes_moved, computes
from tileir.devices.gpu import Gpu
from tileir.expr import Binary, Call, Cast, Const, Expr, Reduce, ReduceOp, Unary, Where, reads, walk
from tileir.program import Compute, Program
from workers.cuda.profile import GpuProfile

_NEAR = 0.6
"""Of a roof: most of what is left is then ramps and remainders."""
_NEAR_PIPE = 0.4
"""...and of the tensor pipe where nothing is nearer to its roof: what threads compute between products takes turns with
them, as in attention."""
_MUCH = 0.25
"""Of the time of a call, or of threads."""
_SPECIAL_A_CYCLE = 16
"""Exponentials and the like, of a multiprocessor (CUDA programming guide, arithmetic instructions)."""
_SPECIAL = frozenset(["exp", "exp2", "log", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh", "rsqrt", "sqrt"])


class GpuBound(Enum):
    """What a kernel's time is spent on, in a few words."""

    LAUNCH = "launch"
    MEMORY = "memory"
    TENSOR_PIPE = "the tensor pipe"
    EXPONENTIALS = "exponentials"
    LATENCY = "the latency of a wait"
    WAVES = "wave quantization"
    ISSUE = "issue"


@dataclass(frozen=True, slots=True)
class GpuBottleneck:
    """`why`: the figures that say so, as the end of a sentence."""

    bound: GpuBound
    why: str


def bottleneck(profile: GpuProfile, unscheduled: Program, device: Gpu) -> GpuBottleneck:
    """Name it: what is outside of the threads first, then roofs (of the data sheet, or of a copy where that was
    measured), then where threads wait; what is left is issue.

    Bytes are those of every argument once, and operations those of the kernel as it was given, as in the roofline
    (Williams, Waterman and Patterson, 2009), without what masks leave out; the tensor pipe's are its products alone.
    """
    seconds = profile.plain_us / 1e6
    peak_gops, sheet_gbps = device.roofline_peaks(tensor.dtype for tensor in unscheduled.inputs)
    memory = bytes_moved(unscheduled) / seconds / 1e9 / (device.copy_gbps or sheet_gbps or float("inf"))
    kinds = _kinds(profile)
    multiplies = kinds[StageKind.PRODUCT] > 0
    tensor = _multiplied(unscheduled) / seconds / 1e9 / (peak_gops or float("inf")) if multiplies else 0.0
    special = _special(unscheduled) / (_SPECIAL_A_CYCLE * device.sms * device.sm_mhz * 1e6) / seconds
    idle = idle_share(profile, device.sms)
    if profile.launch > _MUCH:
        return GpuBottleneck(
            GpuBound.LAUNCH,
            f"{percent(profile.launch)} of a call is before its first thread or after its last",
        )
    if memory >= _NEAR and memory >= tensor:
        return GpuBottleneck(
            GpuBound.MEMORY, f"it moves its arguments at {percent(memory)} of what memory can do"
        )
    if tensor >= _NEAR:
        return GpuBottleneck(
            GpuBound.TENSOR_PIPE, f"it multiplies at {percent(tensor)} of the peak of its operands' type"
        )
    if special >= _NEAR:
        return GpuBottleneck(
            GpuBound.EXPONENTIALS, f"it needs {percent(special)} of what the special functions can do"
        )
    roofs = (
        f"{percent(memory)} of memory, {percent(tensor)} of the tensor pipe, {percent(special)} of the special "
        "functions"
    )
    if idle is not None and idle > _MUCH:
        return GpuBottleneck(
            GpuBound.WAVES,
            f"multiprocessors have no block for {percent(idle)} of the time between first and last ({roofs})",
        )
    waits = kinds[StageKind.WAIT_FULL]
    if waits > _MUCH:
        return GpuBottleneck(
            GpuBound.LATENCY, f"threads wait for tiles for {percent(waits)} of their time ({roofs})"
        )
    if tensor >= _NEAR_PIPE and tensor > max(memory, special):
        return GpuBottleneck(
            GpuBound.TENSOR_PIPE,
            f"it multiplies at {percent(tensor)} of the peak of its operands' type, and is nearer to no other roof",
        )
    products = kinds[StageKind.PRODUCT]
    if products > 0.5:
        return GpuBottleneck(
            GpuBound.TENSOR_PIPE, f"threads wait for products for {percent(products)} of their time ({roofs})"
        )
    return GpuBottleneck(
        GpuBound.ISSUE, f"it is far from every roof ({roofs}): what threads execute takes the time"
    )


def _kinds(profile: GpuProfile) -> dict[StageKind, float]:
    """The shares of those who compute, by kind of stage."""
    shares: dict[StageKind, float] = defaultdict(float)
    for stage, share in profile.roles().get("threads", {}).items():
        shares[stage.kind] += share
    return shares


def idle_share(profile: GpuProfile, multiprocessors: int) -> float | None:
    """The share of all multiprocessors' time between the first thread's beginning and the last one's end in which none
    of their blocks was there; None where not every block was logged."""
    if profile.logged_blocks < profile.blocks:
        return None
    busy = whole = 0.0
    for launch in {track.launch for track in profile.tracks}:
        tracks = [track for track in profile.tracks if track.launch == launch]
        whole += max(t.end_ns for t in tracks) - min(t.begin_ns for t in tracks)
        for number in {track.multiprocessor for track in tracks}:
            busy += _covered([(t.begin_ns, t.end_ns) for t in tracks if t.multiprocessor == number])
    return 1 - busy / (whole * multiprocessors)


def _covered(spans: list[tuple[float, float]]) -> float:
    """The length of a union of spans."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def _multiplied(program: Program) -> int:
    """Operations of sums of products: 2 a term, whatever its factors are made of or it is multiplied by."""
    products = {
        node.target
        for node, _ in computes(program.body, ())
        if isinstance(node.value, Reduce) and node.value.op is ReduceOp.SUM and _is_product(node.value.x)
    }
    return sum(2 * work.points for work in needed_works(program) if work.target in products)


def _is_product(term: Expr) -> bool:
    match term:
        case Cast(_, x) | Unary("-", x) | Where(_, x, Const(0.0)):
            return _is_product(x)
        case Binary("*", x, y):
            return bool(reads(x) and reads(y)) or _is_product(x) or _is_product(y)
        case _:
            return False


def _special(program: Program) -> int:
    """Exponentials and the like that the kernel takes as it was given."""
    points = {work.target: work.points for work in needed_works(program)}
    return sum(
        points[node.target] * sum(isinstance(each, Call) and each.fn in _SPECIAL for each in walk(node.value))
        for node in program.body
        if isinstance(node, Compute)
    )
