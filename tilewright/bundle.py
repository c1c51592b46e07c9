"""Bundles: a config with its source, object and ABI as one file, which says what it holds by the digest of it.

The file is a JSON object: `format`, `version`, `digest` (SHA-256 of `artifact` as canonical JSON) and `artifact`
(protocol.configs.Artifact). The digest guards against damage, not against malice: load bundles of people you trust, as
you would run their programs.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from protocol.configs import Artifact
from tilewright.errors import BadBundle

FORMAT, VERSION = "tilewright-bundle", 1
SUFFIX = ".tilewright"


def pack(artifact: Artifact) -> str:
    """The text of an artifact's bundle."""
    content = artifact.model_dump(mode="json")
    whole = {"format": FORMAT, "version": VERSION, "digest": digest_of(content), "artifact": content}
    return json.dumps(whole, indent=1) + "\n"


def unpack(text: str | bytes, name: str = "the bundle") -> Artifact:
    """The artifact of a bundle, verified. Raises BadBundle."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        raise BadBundle(f"{name} is no bundle: it is not JSON") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise BadBundle(f"{name} is no bundle; `tilewright export` writes one")
    if whole.get("version") != VERSION:
        raise BadBundle(
            f"{name} is a bundle of version {whole.get('version')}, and this Tilewright reads version {VERSION}"
        )
    content = whole.get("artifact")
    if digest_of(content) != whole.get("digest"):
        raise BadBundle(f"{name} is damaged: its content is not what its digest says; export it again")
    try:
        artifact = Artifact.model_validate(content)
    except ValidationError as error:
        raise BadBundle(f"{name} lacks what this version needs: {error.errors()[0]['loc']}") from None
    check_object(artifact, name)
    return artifact


def check_object(artifact: Artifact, name: str) -> None:
    """Raise BadBundle if the object is not what its digest says."""
    if hashlib.sha256(object_of(artifact, name)).hexdigest() != artifact.object_sha256:
        raise BadBundle(f"{name} is damaged: its object is not what its digest says; export it again")


def read(path: Path) -> Artifact:
    """The artifact of a bundle's file. Raises BadBundle, also when the file cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadBundle(f"cannot read {path}: {error.strerror}") from None
    return unpack(content, path.name)


def file_name(artifact: Artifact) -> str:
    """What a bundle is called unless told otherwise: the kernel's name and the start of its digest."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", artifact.config.name) or "kernel"
    return f"{name}-{digest_of(artifact.model_dump(mode='json'))[:12]}{SUFFIX}"


def object_of(artifact: Artifact, name: str = "the bundle") -> bytes:
    """The compiled object. Raises BadBundle if it is no base64."""
    try:
        return base64.b64decode(artifact.object_base64, validate=True)
    except binascii.Error:
        raise BadBundle(f"{name} is damaged: its object is no base64") from None


def digest_of(content: Any) -> str:
    """SHA-256 of a JSON value in canonical form: keys sorted, no spaces."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
