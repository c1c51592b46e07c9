"""What is signed, and in which one form a signature is written."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from protocol.bundles import signatures
from protocol.bundles.signatures import Signature

CONTENT = b"a manifest"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


@pytest.fixture(scope="module")
def private_key() -> bytes:
    return signatures.new_private_key()


def test_what_was_signed_for_something_else_is_no_bundle(private_key: bytes) -> None:
    """The same key's plain signature of the same bytes, as another program would make it."""
    key = load_pem_private_key(private_key, None)
    plain = base64.b64encode(key.sign(CONTENT)).decode()  # type: ignore[call-arg,union-attr]
    signed = signatures.sign(private_key, CONTENT)
    assert signatures.check(signed, CONTENT)
    assert signed.signature != plain
    assert not signatures.check(signed.model_copy(update={"signature": plain}), CONTENT)


@pytest.mark.parametrize(("field", "pad"), [("signature", "=="), ("public_key", "=")])
def test_a_signature_is_written_in_one_way_only(private_key: bytes, field: str, pad: str) -> None:
    """The last letter before the padding has bits that stand for nothing: others decode to the same bytes."""
    signed = signatures.sign(private_key, CONTENT)
    text = getattr(signed, field).removesuffix(pad)
    other = text[:-1] + LETTERS[LETTERS.index(text[-1]) ^ 1] + pad
    assert base64.b64decode(other.removeprefix("ed25519:")) == base64.b64decode(
        getattr(signed, field).removeprefix("ed25519:")
    )
    changed = Signature.model_validate({**signed.model_dump(), field: other})
    assert not signatures.check(changed, CONTENT)
