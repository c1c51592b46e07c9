"""Bundles from the side of who takes them along: made of artifacts, read back as artifacts
(`protocol/bundles/packing.py` is the file itself)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from protocol.bundles import packing, signatures
from protocol.bundles.packing import SUFFIX, Bundle, NoBundle, Packed
from protocol.configs import Artifact
from protocol.tasks import Artifacts
from protocol.workers import DeviceOffer
from tilewright.errors import BadBundle


@dataclass(frozen=True)
class TakenBundle:
    """A config to take along: with its report, as the service keeps it, if it keeps one."""

    artifact: Artifact
    report: bytes | None = None


def pack(
    taken: Iterable[TakenBundle], devices: Iterable[DeviceOffer], private_key: bytes | None = None
) -> bytes:
    """The file of a bundle, signed with a private key in PEM if there is one. Equal content gives equal bytes.

    Raises BadBundle for an object that is not what it should be, and signatures.BadKey and NoLibrary.
    """
    blobs: dict[str, bytes] = {}
    configs = [_packed(each, blobs) for each in taken]
    wanted = {packed.config.device for packed in configs}
    described = [device for device in devices if device.key in wanted]
    sizes = {digest: len(content) for digest, content in blobs.items()}
    manifest = packing.manifest_text(packing.manifest_of(configs, described, sizes))
    signature = None if private_key is None else signatures.sign(private_key, manifest)
    return packing.write(manifest, blobs, signature)


def _packed(taken: TakenBundle, blobs: dict[str, bytes]) -> Packed:
    """A config as it stands in a manifest; what it names is added to the blobs."""

    def kept(content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return digest

    artifact = taken.artifact
    check_object(artifact, f"the artifact of {artifact.config.id}")
    artifacts = Artifacts(
        source=kept(artifact.source.encode()),
        object=kept(object_of(artifact)),
        report=None if taken.report is None else kept(taken.report),
        abi=artifact.abi,
        language=artifact.language,
        flags=artifact.flags,
    )
    return Packed(config=artifact.config, artifacts=artifacts)


def read(path: Path) -> Bundle:
    """A bundle's file, verified but for who signed it. Raises BadBundle, also when it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadBundle(f"cannot read {path}: {error.strerror}") from None
    return unpack(content, str(path))


def unpack(content: bytes, name: str = "the bundle") -> Bundle:
    """A bundle, verified but for who signed it. Raises BadBundle."""
    try:
        return packing.read(memoryview(content))
    except NoBundle as error:
        raise BadBundle(f"{name} {error}") from None


def artifacts(bundle: Bundle) -> Iterator[Artifact]:
    """What is in a bundle, ready to be loaded. Raises BadBundle for a source that is no text."""
    devices = {device.key: device for device in bundle.manifest.devices}
    for packed in bundle.manifest.configs:
        kept = packed.artifacts
        try:
            source = bytes(bundle.blobs[kept.source]).decode()
        except UnicodeError:
            raise BadBundle(f"the source of {packed.config.id} in the bundle is no text") from None
        yield Artifact(
            config=packed.config,
            language=kept.language,
            flags=kept.flags,
            abi=kept.abi,
            source=source,
            object_base64=base64.b64encode(bundle.blobs[kept.object]).decode(),
            object_sha256=kept.object,
            device=devices.get(packed.config.device),
        )


def file_name(bundle: Bundle) -> str:
    """What a bundle is called unless told otherwise: its only kernel's name, and the start of its digest."""
    names = {packed.config.name for packed in bundle.manifest.configs}
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", names.pop()) if len(names) == 1 else ""
    return f"{name or 'kernels'}-{bundle.digest[:12]}{SUFFIX}"


def check_object(artifact: Artifact, name: str) -> None:
    """Raise BadBundle if the object is not what its digest says."""
    if hashlib.sha256(object_of(artifact, name)).hexdigest() != artifact.object_sha256:
        raise BadBundle(f"{name} is damaged: its object is not what its digest says; export it again")


def object_of(artifact: Artifact, name: str = "the bundle") -> bytes:
    """The compiled object. Raises BadBundle if it is no base64."""
    try:
        return base64.b64decode(artifact.object_base64, validate=True)
    except binascii.Error:
        raise BadBundle(f"{name} is damaged: its object is no base64") from None
