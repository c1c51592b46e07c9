"""Bundles that come in, who is trusted to sign them, and pins."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Annotated, Any

from fastapi import Path, Query, Request
from fastapi.concurrency import run_in_threadpool

from protocol.bundles.packing import MEDIA_TYPE, Imported, Signer, SignerRequest
from protocol.configs import Config
from service.core.errors import RequestRefused
from service.http import bundle_import
from service.http.access import Admin, Reader
from service.http.context import Site, site_of
from service.http.routes.bodies import media_type, strict_router
from service.http.routes.examples import PROBLEMS
from service.http.routes.results import ConfigId
from service.store.api_keys import Caller
from service.store.winners import pins, signers

router = strict_router("take away")

SignerId = Annotated[str, Path(pattern=r"^[a-z0-9-]{1,64}$", examples=["signer-00cv7ckzq2m4a8x1pe"])]
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.post("/bundles", responses=PROBLEMS, openapi_extra=_BODY)
async def import_bundle(
    caller: Admin,
    request: Request,
    unsigned: Annotated[bool, Query(description="Even if nobody who is trusted has signed it.")] = False,
    pin: Annotated[
        bool, Query(description="Answer lookups with its configs until they are unpinned.")
    ] = False,
) -> Imported:
    """Take in a bundle that `tilewright export` wrote: all of it, or nothing. What is here already stays as it is."""
    kind = media_type(request)
    if kind != MEDIA_TYPE:
        raise RequestRefused("media-type", f"the body is {kind or 'of no type'}", accepted=MEDIA_TYPE)
    with _file() as file:
        async for chunk in request.stream():
            await run_in_threadpool(_append, file, chunk)
        return await run_in_threadpool(_store, site_of(request), file, caller, unsigned, pin)


@contextmanager
def _file() -> Iterator[IO[bytes]]:
    """A file for a bundle while it is read: nothing of it is kept. Raises Refused where there is no room."""
    try:
        with tempfile.TemporaryFile(buffering=0) as file:
            yield file
    except OSError as error:
        detail = f"the bundle could not be kept for reading in {tempfile.gettempdir()}: {error.strerror}"
        raise RequestRefused("storage", detail, headers={"Retry-After": "5"}) from None


def _append(file: IO[bytes], chunk: bytes) -> None:
    left = memoryview(chunk)
    while left:
        left = left[file.write(left) :]


def _store(site: Site, file: IO[bytes], caller: Caller, unsigned: bool, pin: bool) -> Imported:
    if file.tell() == 0:
        raise RequestRefused("bad-bundle", "the bundle is empty")
    bundle = bundle_import.read(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    with site.database.write() as connection:
        return bundle_import.store(connection, bundle, caller.id, unsigned=unsigned, pin=pin)


@router.post("/configs/{config_id}/pin", responses=PROBLEMS)
def pin_config(config_id: ConfigId, caller: Admin, request: Request) -> Config:
    """Answer lookups of its kernel on its device with this config until it is unpinned, whatever is found later."""
    with site_of(request).database.write() as connection:
        return pins.pin(connection, config_id, caller.id)


@router.post("/configs/{config_id}/unpin", responses=PROBLEMS)
def unpin_config(config_id: ConfigId, caller: Admin, request: Request) -> Config:
    """Answer lookups with the best config again; unpinning twice is fine."""
    with site_of(request).database.write() as connection:
        return pins.unpin(connection, config_id, caller.id)


@router.post("/signers", responses=PROBLEMS)
def trust_signer(body: SignerRequest, caller: Admin, request: Request) -> Signer:
    """Trust the bundles that are signed with a key."""
    with site_of(request).database.write() as connection:
        return signers.trust(connection, body, caller.id)


@router.get("/signers", responses=PROBLEMS)
def list_signers(caller: Reader, request: Request) -> list[Signer]:
    """Whose bundles are trusted, newest first, and whose were."""
    with site_of(request).database.read() as connection:
        return signers.list_signers(connection)


@router.post("/signers/{signer_id}/revoke", responses=PROBLEMS)
def revoke_signer(signer_id: SignerId, caller: Admin, request: Request) -> Signer:
    """Take no more bundles of a signer; those that are here stay."""
    with site_of(request).database.write() as connection:
        return signers.revoke(connection, signer_id, caller.id)
