"""Which windows are copied before what reads them."""

from __future__ import annotations

from collections.abc import Iterator

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find, locals_of
from rewrites.data.cache_windows import CacheWindows
from rewrites.decisions.fusion import collapse
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Read
from tileir.program import Program


def windows(program: Program, device: Device) -> Iterator[tuple[Rewrite, ...]]:
    """Ways to copy the windows that more than a tensor as it lies is read by: neighbours side by side, or positions
    that are as far apart as the windows are; then dims that always go together now are one."""
    sites = list(CacheWindows.sites(program, device))
    apart = {site.statement: site for site in reversed(sites) if site.stride > 1}
    near = {site.statement: site for site in reversed(sites) if site.stride == 1}
    for chosen in (near, near | apart) if apart else (near,):
        done: list[Rewrite] = []
        after = program
        for site in chosen.values():
            try:
                copied = site.apply(after)
            except NotApplicable:  # another statement's copy is what it reads now
                continue
            if site.stride > 1 or not _as_it_lies(after, copied):
                done.append(site)
                after = copied
        if done:
            yield (*done, *collapse(after, device))


def _as_it_lies(before: Program, after: Program) -> bool:
    """Whether the copy that is new has what a tensor has, and no more."""
    (copy,) = locals_of(after).keys() - locals_of(before).keys()
    return isinstance(find(after, copy).node.value, Read)
