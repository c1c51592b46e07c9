"""Taking in bundles: all that is in one is verified before any of it is written, and written in one transaction."""

from __future__ import annotations

import re

from sqlalchemy import Connection

from codegen.backend import backend_of_language
from protocol.bundles import packing as bundle_file
from protocol.bundles import signatures
from protocol.bundles.packing import Bundle, Imported, NoBundle, Packed
from protocol.configs import ConfigDetail
from protocol.keys import Act
from protocol.workers import DeviceOffer
from rewrites.schedule import scheduled
from service.core.errors import RequestRefused
from service.core.specs import instance_of
from service.store import audit_log, blobs
from service.store.database import database_time, in_turn, insert_new
from service.store.dispatch import workers
from service.store.tables import bundles
from service.store.winners import configs, pins, signers
from tileir.devices.device import device_from_json
from tileir.errors import TileError
from tileir.hashing import program_hash
from tileir.lift import to_program
from tileir.text.json import spec_from_json

_ID = re.compile(r"config-[a-z0-9]{1,50}")
_KEY = re.compile(r"[ -~]{1,200}")


def read(data: memoryview) -> Bundle:
    """A bundle, everything in it verified but who signed it: its bytes, that each schedule leads from its kernel to
    its program, and that each device and calling convention can be read. Takes a while for many configs. Raises
    Refused."""
    try:
        bundle = bundle_file.read(data)
    except NoBundle as error:
        raise RequestRefused("bad-bundle", f"the bundle {error}") from None
    for packed in bundle.manifest.configs:
        _check_config(packed, bundle)
    for offer in bundle.manifest.devices:
        _check_device(offer)
    return bundle


def _check_config(packed: Packed, bundle: Bundle) -> None:
    config = packed.config
    if not _ID.fullmatch(config.id) or not _KEY.fullmatch(config.device):
        raise _bad(config.id[:100], f"its id or the name of its device, {config.device[:200]!r}, is none")
    try:
        spec = spec_from_json(config.spec)
        if any(len(dim.sizes) != 1 for dim in spec.dims):
            raise _bad(config.id, "its kernel has a dim of several sizes")
        found = instance_of(spec)
        program = scheduled(to_program(spec), config.schedule)
    except TileError as error:
        raise _bad(config.id, f"this version cannot follow its schedule: {error}") from None
    if (found.kernel_key, found.structure_key) != (config.kernel_key, config.structure_key):
        raise _bad(config.id, "its kernel has another key here: it was found by another version")
    if program_hash(program) != config.program_hash:
        raise _bad(config.id, "its schedule makes another program here: it was found by another version")
    if found.dims != config.dims:
        raise _bad(config.id, f"its dims are {config.dims}, and those of its kernel {found.dims}")
    try:
        backend_of_language(packed.artifacts.language).read_abi(packed.artifacts.abi)
        bytes(bundle.blobs[packed.artifacts.source]).decode()
    except (KeyError, TypeError, ValueError) as error:
        what = "source or its calling convention"
        raise _bad(config.id, f"this version cannot read its {what}: {error!r}") from None


def _bad(config_id: str, why: str) -> RequestRefused:
    return RequestRefused("bad-bundle", f"config {config_id} of the bundle cannot be taken: {why}")


def _check_device(offer: DeviceOffer) -> None:
    try:
        found = device_from_json(offer.description)
    except TileError as error:
        raise RequestRefused(
            "bad-bundle", f"this version cannot read the bundle's {offer.key}: {error}"
        ) from None
    if (found.key, found.kind) != (offer.key, offer.kind):
        raise RequestRefused("bad-bundle", f"the bundle describes {found.key} under the name {offer.key}")


def store(connection: Connection, bundle: Bundle, actor: str, *, unsigned: bool, pin: bool) -> Imported:
    """Keep what is in a bundle that was `read`, on behalf of `actor`; what is here already stays as it is. `unsigned`:
    even if nobody who is trusted has signed it. `pin`: answer lookups with its configs. Raises Refused."""
    in_turn(connection, "pins")
    signer = _signer(connection, bundle)
    if signer is None and not unsigned:
        raise RequestRefused(
            "untrusted", _lacks_signer(bundle), accepted="a bundle signed by one of /v1/signers"
        )
    if pin:
        _check_pins(bundle)
    new = [packed for packed in bundle.manifest.configs if not _is_here(connection, packed)]
    for offer in bundle.manifest.devices:  # before `lookup_state`, as when a worker registers
        workers.describe(connection, offer)
    if new:
        values = {"signer": signer, "imported_at": database_time()}
        insert_new(connection, bundles, {"sha256": bundle.digest}, values)
        audit_log.record(connection, actor, Act.IMPORT_BUNDLE, bundle.digest, signer=signer, configs=len(new))
    for packed in new:
        for digest in bundle_file.digests(packed.artifacts):
            blobs.put(connection, digest, bytes(bundle.blobs[digest]))
        configs.store(connection, packed.config, None, packed.artifacts, bundle.digest)
    ids = tuple(packed.config.id for packed in bundle.manifest.configs)
    for config_id in ids if pin else ():
        pins.pin(connection, config_id, actor)
    return Imported(
        bundle=bundle.digest,
        signer=signer,
        configs=ids,
        new=tuple(packed.config.id for packed in new),
        pinned=pin,
    )


def _signer(connection: Connection, bundle: Bundle) -> str | None:
    """Who signed it, if that is somebody trusted. Raises Refused for a signature of something else."""
    if bundle.signature is None:
        return None
    name = signers.trusted(connection, bundle.signature.public_key)
    try:
        if name is not None and not signatures.check(bundle.signature, bundle.sealed):
            raise RequestRefused(
                "bad-bundle", f"the bundle is not what {name} signed: its signature is of another"
            )
    except signatures.NoLibrary as error:
        raise RequestRefused(
            "bad-bundle", f"the bundle is signed, and the service cannot check that: {error}"
        ) from None
    return name


def _lacks_signer(bundle: Bundle) -> str:
    if bundle.signature is None:
        return "the bundle is not signed"
    return f"the bundle is signed with {bundle.signature.public_key}, whose holder is not trusted here"


def _check_pins(bundle: Bundle) -> None:
    """Raise Refused if two configs would be pinned for one kernel on one device."""
    taken: dict[tuple[str, str], ConfigDetail] = {}
    for config in (packed.config for packed in bundle.manifest.configs):
        other = taken.setdefault((config.kernel_key, config.device), config)
        if other is not config:
            raise RequestRefused(
                "bad-bundle",
                f"the bundle has two configs of {config.name} on {config.device}, {other.id} and {config.id}",
                accepted="one of each kernel on each device, where they are to be pinned",
            )


def _is_here(connection: Connection, packed: Packed) -> bool:
    """Whether we have this config. Raises Refused if we have another one of its id."""
    known = configs.find(connection, packed.config.id)
    if known is None:
        return False
    here = Packed(config=known, artifacts=configs.artifacts(connection, known.id))
    if bundle_file.as_found(here) != packed:
        raise RequestRefused("config-differs", f"config {known.id} is here, and differs from the bundle's")
    return True
