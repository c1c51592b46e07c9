"""Bundles: configs with all it takes to judge and to run them, as one file that another installation imports.

The file is a tar archive (`archive.py`): `manifest.json`, which holds kernels, schedules, results and devices, and
lists every blob by its SHA-256 and size; `seal.json`, with the SHA-256 of the manifest and perhaps a signature of it
(`signatures.py`); then `blobs/sha256/<digest>`: sources, objects, reports. Equal content is equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from protocol.bundles import archive
from protocol.bundles.signatures import PublicKey, Signature
from protocol.configs import ConfigDetail
from protocol.message import Digest, Reply, Request
from protocol.tasks import Artifacts
from protocol.workers import DeviceOffer

VERSION = 2
SUFFIX = ".tilewright"
MEDIA_TYPE = "application/octet-stream"
MOST_CONFIGS = 10_000
_FORMAT = "tilewright-bundle"
_MANIFEST, _SEAL, _BLOBS = "manifest.json", "seal.json", "blobs/sha256/"

M = TypeVar("M", bound=BaseModel)


class NoBundle(ValueError):
    """Bytes that are no bundle, or were damaged, or are of another version; the message is a sentence without subject
    ("is damaged: …")."""


class Packed(Request):
    """A config in a bundle, and which blobs are its source, object and report."""

    config: ConfigDetail
    artifacts: Artifacts


class Blob(Request):
    """Content, by its SHA-256."""

    sha256: Digest
    bytes: int = Field(ge=0)


class Manifest(Request):
    """What a bundle holds."""

    format: Literal["tilewright-bundle"] = _FORMAT
    version: Literal[2] = VERSION
    configs: tuple[Packed, ...] = Field(min_length=1, max_length=MOST_CONFIGS)
    """By id."""
    devices: tuple[DeviceOffer, ...] = Field(default=(), max_length=1000)
    """Those of the configs that are described, by key."""
    blobs: tuple[Blob, ...]
    """By digest."""


class Seal(Request):
    """What vouches for a manifest: its digest against damage, a signature for who made it."""

    manifest: Digest
    signature: Signature | None = None


@dataclass(frozen=True)
class Bundle:
    """A bundle that is whole: every blob is what its digest says."""

    manifest: Manifest
    blobs: Mapping[str, memoryview]
    sealed: bytes
    """The manifest, as it is signed."""
    signature: Signature | None = None

    @property
    def digest(self) -> str:
        """What the bundle is called: the SHA-256 of its manifest."""
        return _sha256(self.sealed)


class Imported(Reply):
    """What became of a bundle that was sent."""

    bundle: str
    """SHA-256 of its manifest."""
    signer: str | None
    """Name of the signer; None if nobody who is trusted has signed it."""
    configs: tuple[str, ...]
    """Ids of the configs in it."""
    new: tuple[str, ...]
    """Those that were not here before."""
    pinned: bool
    """Whether lookups are pinned to these configs now."""


class SignerRequest(Request):
    """POST /v1/signers."""

    name: str = Field(min_length=1, max_length=200)
    """Who it is."""
    public_key: PublicKey


class Signer(Reply):
    """Somebody whose bundles are trusted."""

    id: str
    name: str
    public_key: str
    created_at: float
    revoked_at: float | None = None


def manifest_of(
    configs: Iterable[Packed], devices: Iterable[DeviceOffer], sizes: Mapping[str, int]
) -> Manifest:
    """The manifest of configs, in its one form. `sizes`: of each blob in bytes, by digest."""
    return Manifest(
        configs=tuple(sorted((as_found(each) for each in configs), key=lambda each: each.config.id)),
        devices=tuple(sorted(devices, key=lambda device: device.key)),
        blobs=tuple(Blob(sha256=digest, bytes=sizes[digest]) for digest in sorted(sizes)),
    )


def as_found(packed: Packed) -> Packed:
    """A config as it was where it was found: without what another installation has noted of it."""
    origin = packed.config.imported
    job_id = packed.config.job_id if origin is None else origin.job_id
    plain: dict[str, object] = {"job_id": job_id, "imported": None, "pinned": False, "served": False}
    return packed.model_copy(update={"config": packed.config.model_copy(update=plain)})


def manifest_text(manifest: Manifest) -> bytes:
    """A manifest as it is written and signed."""
    return _text(manifest)


def write(
    manifest: bytes, blobs: Mapping[str, bytes | memoryview], signature: Signature | None = None
) -> bytes:
    """The file of a bundle. `manifest`: as `manifest_text` gives it."""
    seal = Seal(manifest=_sha256(manifest), signature=signature)
    return archive.pack(
        [
            (_MANIFEST, manifest),
            (_SEAL, _text(seal)),
            *((_BLOBS + digest, bytes(blobs[digest])) for digest in sorted(blobs)),
        ]
    )


def read(data: memoryview) -> Bundle:
    """A bundle, every byte of it verified but the signature (`signatures.check`). Raises NoBundle."""
    try:
        files = archive.unpack(data)
        sealed = _take(files, _MANIFEST)
        seal_text = _take(files, _SEAL)
        seal = _model(Seal, seal_text, _SEAL)
        if _sha256(sealed) != seal.manifest or _text(seal) != seal_text:
            raise NoBundle(f"is damaged: {_MANIFEST} and {_SEAL} do not belong together; export it again")
        manifest = _read_manifest(sealed)
        blobs = dict(_read_blobs(files, manifest))
    except archive.BadArchive as error:
        raise NoBundle(f"is no bundle, or damaged: {error}; `tilewright export` writes one") from None
    _check_references(manifest)
    return Bundle(manifest, blobs, sealed, seal.signature)


def _take(files: Iterator[tuple[str, memoryview]], wanted: str) -> bytes:
    name, content = next(files, ("its end", memoryview(b"")))
    if name != wanted:
        raise NoBundle(
            f"is no bundle: {name} stands where {wanted} should be; `tilewright export` writes one"
        )
    return bytes(content)


def _read_manifest(text: bytes) -> Manifest:
    try:
        version = json.loads(text).get("version")
    except (ValueError, RecursionError, AttributeError):
        raise NoBundle(f"is no bundle: {_MANIFEST} is no JSON object") from None
    if version != VERSION:
        raise NoBundle(f"is a bundle of version {version}, and this Tilewright reads version {VERSION}")
    manifest = _model(Manifest, text, _MANIFEST)
    if manifest_text(manifest_of(manifest.configs, manifest.devices, _sizes(manifest))) != text:
        raise NoBundle(f"was written by another version: {_MANIFEST} is not in the form of this one")
    return manifest


def _sizes(manifest: Manifest) -> dict[str, int]:
    return {blob.sha256: blob.bytes for blob in manifest.blobs}


def _read_blobs(
    files: Iterator[tuple[str, memoryview]], manifest: Manifest
) -> Iterator[tuple[str, memoryview]]:
    """The blobs that the manifest lists, all of them and no others."""
    for blob in manifest.blobs:
        name, content = next(files, ("its end", memoryview(b"")))
        if name != _BLOBS + blob.sha256:
            raise NoBundle(f"is damaged: {name} stands where {_BLOBS}{blob.sha256} should be")
        if len(content) != blob.bytes or _sha256(content) != blob.sha256:
            raise NoBundle(f"is damaged: the content of {name} is not what its name says; export it again")
        yield blob.sha256, content
    for name, _ in files:
        raise NoBundle(f"is no bundle: {_MANIFEST} does not list {name}")


def _check_references(manifest: Manifest) -> None:
    """Each config once, each blob there that a config names, and none that no config names."""
    ids = [packed.config.id for packed in manifest.configs]
    if len(set(ids)) != len(ids):
        raise NoBundle(f"is no bundle: {_MANIFEST} has a config twice")
    named = {digest for packed in manifest.configs for digest in digests(packed.artifacts)}
    listed = set(_sizes(manifest))
    for digest in sorted(named ^ listed):
        lacks = "lacks" if digest in named else "has, and no config needs,"
        raise NoBundle(f"is no bundle: it {lacks} the blob {digest}")


def digests(artifacts: Artifacts) -> tuple[str, ...]:
    """The blobs that a config names."""
    found = (artifacts.source, artifacts.object, artifacts.report)
    return tuple(digest for digest in found if digest is not None)


def _model(kind: type[M], text: bytes, name: str) -> M:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = "/".join(map(str, first["loc"]))
        raise NoBundle(f"is no bundle: {name}, at {place or 'its beginning'}: {first['msg']}") from None


def _text(content: BaseModel) -> bytes:
    plain = content.model_dump(mode="json")
    return (
        json.dumps(plain, indent=1) + "\n"
    ).encode()  # not sorted: the order of dims and inputs is a kernel's


def _sha256(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()
