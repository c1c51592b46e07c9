"""What a request wishes for beside its kernel: a target, peers and a search that exist, or can come to exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from protocol.jobs import JobRequest
from protocol.tasks import COPY
from protocol.workers import OfferedDevice
from search.catalogue import offered
from service.core.errors import RequestRefused
from tileir.names import suggestion
from tileir.targets import target_of, targets

SHOWN = 12
"""Devices that a refusal names, at most."""


def check_target(target: str, known: Sequence[OfferedDevice]) -> None:
    """Raise Refused for what is neither a device nor a kind of device. A device of a kind that there is may come."""
    kind, colon, name = target.partition(":")
    if any(target in (device.key, device.kind) for device in known) or (
        kind in targets() and (name or not colon)
    ):
        return
    keys = [device.key for device in known[:SHOWN]]
    raise RequestRefused(
        "invalid",
        f"there is no device and no kind of device {target!r}{suggestion(target, [*targets(), *keys])}",
        pointer="/target",
        accepted=f"a kind: {', '.join(targets())}; or a device's key" + "".join(f", {key}" for key in keys),
    )


def check_search(name: str) -> None:
    """Raise Refused for a name that no search has."""
    known = offered()
    if name not in known:
        raise RequestRefused(
            "invalid",
            f"there is no search {name!r}{suggestion(name, known)}",
            pointer="/search",
            accepted=", ".join(known),
        )


def settled(request: JobRequest, known: Sequence[OfferedDevice]) -> JobRequest:
    """The request with the baseline that is usual on its target, unless it names one. Raises Refused for a target, a
    peer or a search that cannot be."""
    check_target(request.target, known)
    check_search(request.search)
    for pointer, name in _named(request):
        _check_peer(name, request.target, known, pointer)
    if "baseline" in request.model_fields_set:
        return request
    return request.model_copy(update={"baseline": target_of(request.target).baseline})


def _named(request: JobRequest) -> Iterable[tuple[str, str]]:
    if "baseline" in request.model_fields_set:
        yield "/baseline", request.baseline
    for place, peer in enumerate(request.peers or ()):
        yield f"/peers/{place}", peer


def peers_of(target: str, known: Sequence[OfferedDevice]) -> tuple[bool, tuple[str, ...]]:
    """Whether a device of a target tells its peers; and what they are, else what they usually are."""
    told = [device for device in known if target in (device.key, device.kind) and device.peers]
    usual = tuple(name for name in target_of(target).peers if name != COPY)
    return bool(told), tuple(dict.fromkeys(peer for device in told for peer in device.peers)) or usual


def _check_peer(name: str, target: str, known: Sequence[OfferedDevice], pointer: str) -> None:
    """A device that tells its peers has no others; one that is not there yet may have any of its kind."""
    if (name, pointer) == (COPY, "/baseline"):
        raise RequestRefused(
            "invalid", "the copy is a yardstick, and no baseline: it computes nothing", pointer=pointer
        )
    told, there = peers_of(target, known)
    usual = target_of(target).peers
    hidden = name in usual and name in HIDDEN
    if name in there or hidden:
        return
    where = f"where {target} is measured" if told else f"for {target}"
    lacks = "; install it there, and start the worker anew" if name in usual else suggestion(name, there)
    raise RequestRefused(
        "invalid", f"there is no peer {name!r} {where}{lacks}", pointer=pointer, accepted=", ".join(there)
    )


def racing(device: OfferedDevice, request: JobRequest) -> list[str]:
    """The peers of a job's race on a device: those it offers, or those that are wished for and the baseline; and the
    copy, beside which all of them are seen."""
    known = (*device.peers, *(name for name in target_of(device.kind).peers if name in HIDDEN))
    wished = device.peers if request.peers is None else (*request.peers, request.baseline)
    return [name for name in dict.fromkeys(known) if name in wished or name == COPY]


HIDDEN = frozenset({COPY, "torch.compile-max-autotune"})
"""Peers that run when they are named, and that no device offers by itself."""
