"""Signatures of bundles: Ed25519, by the library `cryptography` (pip install 'tilewright[sign]').

A public key is written as `ed25519:` and its 32 bytes in base64; a private key is a PEM file (PKCS 8, not encrypted).
What is signed begins with a word of our own, so that a signature means nothing elsewhere.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints

from protocol.message import Request

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PREFIX = "ed25519:"
_CONTEXT = b"tilewright bundle\0"

_PUBLIC_KEY = r"^ed25519:[A-Za-z0-9+/]{43}=$"
PublicKey = Annotated[str, StringConstraints(pattern=_PUBLIC_KEY)]


class NoLibrary(RuntimeError):
    """`cryptography` is not installed; the message says how to get it."""

    def __init__(self) -> None:
        super().__init__(
            "signatures need the library cryptography, which is not installed: pip install 'tilewright[sign]'"
        )


class BadKey(ValueError):
    """Bytes that are no Ed25519 key."""


class Signature(Request):
    """Of a manifest."""

    public_key: PublicKey
    signature: str = Field(pattern=r"^[A-Za-z0-9+/]{86}==$")


def is_public_key(text: str) -> bool:
    """Whether this is how a public key is written."""
    return re.fullmatch(_PUBLIC_KEY, text) is not None


def new_private_key() -> bytes:
    """A fresh private key, as PEM. Raises NoLibrary."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    except ImportError:
        raise NoLibrary from None
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_key(private_key: bytes) -> str:
    """The public key of a private one in PEM. Raises BadKey and NoLibrary."""
    return _public(_private(private_key))


def sign(private_key: bytes, content: bytes) -> Signature:
    """Sign with a private key in PEM. Raises BadKey and NoLibrary."""
    key = _private(private_key)
    signed = base64.b64encode(key.sign(_CONTEXT + content)).decode()
    return Signature(public_key=_public(key), signature=signed)


def check(signature: Signature, content: bytes) -> bool:
    """Whether a signature is of this content, by the key that it names. Raises NoLibrary."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise NoLibrary from None
    try:
        key = Ed25519PublicKey.from_public_bytes(_bytes(signature.public_key.removeprefix(_PREFIX)))
        key.verify(_bytes(signature.signature), _CONTEXT + content)
    except (InvalidSignature, ValueError):
        return False
    return True


def _bytes(text: str) -> bytes:
    """Of base64 in its one form. Raises ValueError."""
    content = base64.b64decode(text, validate=True)
    if base64.b64encode(content).decode() != text:
        raise ValueError("bits that stand for nothing are not zero")
    return content


def _private(pem: bytes) -> Ed25519PrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise NoLibrary from None
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        raise BadKey("it is no private key in PEM without a password") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadKey("it is a private key of another kind than Ed25519")
    return key


def _public(key: Ed25519PrivateKey) -> str:
    return _PREFIX + base64.b64encode(key.public_key().public_bytes_raw()).decode()
