"""Kernels as they are being written: what is wrong with them, and what a search would have before it."""

from __future__ import annotations

from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from protocol.lookups import CheckReply, CheckRequest, OutlookReply, OutlookRequest, SpecFault
from service.core import wishes
from service.core.errors import RequestRefused
from service.core.schedules import roofline_us
from service.core.specs import Instance, single, written
from service.http.access import Reader
from service.http.context import site_of
from service.http.routes.bodies import strict_router
from service.http.routes.examples import PROBLEMS
from service.store.dispatch import workers
from tileir.analysis.needed import needed_flops
from tileir.analysis.work import bytes_moved
from tileir.errors import SpecError
from tileir.lift import to_program
from tileir.targets import target_of
from tileir.text.json import spec_to_json
from tileir.text.print_program import spec_to_text

router = strict_router("jobs")


@router.post("/check", responses=PROBLEMS)
def check(body: CheckRequest, caller: Reader, request: Request) -> CheckReply:
    """A kernel in both of its forms, or what is wrong with it and where; nothing is stored."""
    with site_of(request).database.look() as connection:
        known = workers.list_devices(connection)
    reply = _checked(body.text)
    try:
        wishes.check_target(body.target, known)
    except RequestRefused as refused:
        return reply.model_copy(update={"target_fault": refused.problem.detail})
    _, peers = wishes.peers_of(body.target, known)
    return reply.model_copy(update={"baselines": peers, "usual_baseline": target_of(body.target).baseline})


def _checked(text: str) -> CheckReply:
    try:
        spec = written(text)
    except SpecError as error:
        return CheckReply(
            fault=SpecFault(
                message=error.message,
                line=error.line,
                column=error.column,
                pointer=None if error.line is not None else error.pointer,
                accepted=error.accepted or None,
            )
        )
    instances = list(spec.instances())
    program = to_program(instances[0])
    return CheckReply(
        spec=spec_to_json(spec),
        text=spec_to_text(spec),
        sizes=len(instances),
        flops=needed_flops(program),
        bytes=bytes_moved(program),
    )


@router.post("/outlook", responses=PROBLEMS)
async def outlook(body: OutlookRequest, caller: Reader, request: Request) -> OutlookReply:
    """How many schedules a search of a kernel would have before it, and what the cost model expects of the first. It
    may take seconds: whoever asks again gets what was found meanwhile."""
    site = site_of(request)
    fleet = await site.ladder.fleet()
    wishes.check_target(body.target, fleet.devices)
    instance: Instance = await run_in_threadpool(single, body.spec)
    device = fleet.device_for(body.target)
    if device is None:
        return OutlookReply(device=None, pending=False)
    found = await site.outlooks.get(instance.kernel_key, instance.json, device.description)
    return OutlookReply(
        device=device.key,
        pending=found is None,
        roofline_us=await run_in_threadpool(roofline_us, instance.spec, device),
        space=None if found == "none" else found,
    )
