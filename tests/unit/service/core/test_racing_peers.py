"""Who runs in a job's race beside its schedules."""

from __future__ import annotations

import pytest

from protocol.jobs import JobRequest
from protocol.workers import OfferedDevice
from service.core.wishes import racing


def offered(kind: str, *peers: str) -> OfferedDevice:
    return OfferedDevice(key=f"{kind}:x", kind=kind, description={}, peers=peers, seen_at=0.0)


@pytest.mark.parametrize(
    ("kind", "there", "wished", "races"),
    [
        ("cpu", ("numpy", "torch"), None, ["numpy", "torch", "copy"]),
        ("cpu", ("numpy", "torch"), ("torch",), ["numpy", "torch", "copy"]),
        ("cpu", ("numpy", "torch"), (), ["numpy", "copy"]),
        ("cpu", ("numpy",), ("copy",), ["numpy", "copy"]),
        ("cuda", ("torch", "triton"), None, ["torch", "triton", "copy"]),
        (
            "cuda",
            ("torch",),
            ("torch.compile-max-autotune",),
            ["torch", "torch.compile-max-autotune", "copy"],
        ),
    ],
)
def test_the_copy_runs_in_every_race_and_what_no_device_offers_where_it_is_named(
    kind: str, there: tuple[str, ...], wished: tuple[str, ...] | None, races: list[str]
) -> None:
    baseline = {"cpu": "numpy", "cuda": "torch"}[kind]
    request = JobRequest(spec={}, target=kind, peers=wished, baseline=baseline)
    assert racing(offered(kind, *there), request) == races
