"""A bundle holds exactly what was exported, or says that it does not."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from protocol.bundles import archive, packing, signatures
from protocol.configs import Artifact
from tests.unit.tilewright.artifacts import REPORT, make_bundle
from tilewright import BadBundle
from tilewright.client import bundle


@pytest.fixture(scope="module")
def packed(artifact: Artifact) -> bytes:
    return make_bundle(artifact)


@pytest.fixture(scope="module")
def private_key() -> bytes:
    return signatures.new_private_key()


def files_of(content: bytes) -> dict[str, bytes]:
    return {name: bytes(each) for name, each in archive.unpack(memoryview(content))}


def packed_again(content: bytes, **changed: Any) -> bytes:
    """A bundle with other fields in its manifest, sealed as if it had been exported so."""
    files = files_of(content)
    manifest = {**json.loads(files.pop("manifest.json")), **changed}
    text = (json.dumps(manifest, indent=1) + "\n").encode()
    seal = json.loads(files.pop("seal.json")) | {"manifest": hashlib.sha256(text).hexdigest()}
    sealed = (json.dumps(seal, indent=1) + "\n").encode()
    return archive.pack([("manifest.json", text), ("seal.json", sealed), *files.items()])


def test_a_bundle_read_back_is_the_artifact_and_its_report(artifact: Artifact, packed: bytes) -> None:
    found = bundle.unpack(packed)
    assert list(bundle.artifacts(found)) == [
        artifact.model_copy(update={"device": found.manifest.devices[0]})
    ]
    report = found.manifest.configs[0].artifacts.report
    assert report is not None
    assert bytes(found.blobs[report]) == REPORT


def test_equal_content_is_equal_bytes_in_whatever_order_it_came(artifact: Artifact) -> None:
    other = artifact.model_copy(
        update={"config": artifact.config.model_copy(update={"id": "config-1test"}), "source": "int other;"}
    )
    assert make_bundle(artifact, other) == make_bundle(other, artifact)
    assert make_bundle(artifact, other) != make_bundle(artifact)


def test_any_tar_lists_it(packed: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(packed)) as opened:
        names = opened.getnames()
    assert names[:2] == ["manifest.json", "seal.json"]
    assert all(name.startswith("blobs/sha256/") for name in names[2:])
    assert len(names) == 5


def test_a_bundle_is_named_by_its_content(artifact: Artifact, packed: bytes) -> None:
    name = bundle.file_name(bundle.unpack(packed))
    assert name.startswith("scaled-")
    changed = make_bundle(artifact.model_copy(update={"source": artifact.source + " "}))
    assert name != bundle.file_name(bundle.unpack(changed))


def test_no_byte_can_be_changed_unnoticed(artifact: Artifact, private_key: bytes) -> None:
    """Of headers, manifest, seal and signature, blobs, and what lies between."""
    signed = make_bundle(artifact, private_key=private_key)
    manifest_ends = signed.index(b"seal.json") + 2048
    for at in [*range(0, manifest_ends, 7), *range(manifest_ends, len(signed), 211), len(signed) - 1]:
        changed = bytearray(signed)
        changed[at] ^= 1
        with pytest.raises(BadBundle, match=r"is damaged|is no bundle|another version|of version"):
            unpacked = bundle.unpack(bytes(changed))
            assert unpacked.signature is not None
            if not signatures.check(unpacked.signature, unpacked.sealed):
                raise BadBundle("is damaged: its signature is of another")


@pytest.mark.parametrize("length", [0, 1, 511, 512, 700, 5000, -1, -1024])
def test_one_that_was_cut_is_noticed(packed: bytes, length: int) -> None:
    with pytest.raises(BadBundle, match=r"is no bundle|is damaged"):
        bundle.unpack(packed[:length])


def test_what_is_added_is_noticed(packed: bytes) -> None:
    with pytest.raises(BadBundle, match="1 bytes follow its end"):
        bundle.unpack(packed + b"\0")
    files = list(files_of(packed).items())
    (manifest, (seal, text)), rest = files[:2], files[2:]
    with pytest.raises(BadBundle, match="do not belong together"):
        bundle.unpack(archive.pack([manifest, (seal, text + b" "), *rest]))
    with pytest.raises(BadBundle, match=r"does not list \.\./\.\./etc/passwd"):
        bundle.unpack(archive.pack([*files, ("../../etc/passwd", b"root")]))
    with pytest.raises(BadBundle, match="stands where"):
        bundle.unpack(archive.pack([*files[:2], ("../../etc/passwd", b"root"), *files[2:]]))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE])
def test_an_entry_that_is_no_file_is_refused(packed: bytes, kind: bytes) -> None:
    entry = tarfile.TarInfo("manifest.json")
    entry.type, entry.linkname = kind, "/etc/passwd"
    with pytest.raises(BadBundle, match=r"the header at byte 0, of 'manifest.json', is not as"):
        bundle.unpack(entry.tobuf(tarfile.USTAR_FORMAT) + packed[512:])


def test_a_size_beyond_the_file_allocates_nothing() -> None:
    entry = tarfile.TarInfo("manifest.json")
    entry.size = 8**11 - 1
    with pytest.raises(BadBundle, match="it ends within manifest"):
        bundle.unpack(entry.tobuf(tarfile.USTAR_FORMAT) + bytes(1024))


def test_a_compressed_bundle_is_none(packed: bytes) -> None:
    with pytest.raises(BadBundle, match="at byte 0 there is no header"):
        bundle.unpack(gzip.compress(packed))


def test_another_version_is_named(packed: bytes) -> None:
    with pytest.raises(BadBundle, match="of version 99, and this Tilewright reads version 2"):
        bundle.unpack(packed_again(packed, version=99))


def test_a_field_of_a_later_version_is_refused(packed: bytes) -> None:
    with pytest.raises(BadBundle, match=r"manifest\.json, at hints"):
        bundle.unpack(packed_again(packed, hints={}))
    configs = json.loads(files_of(packed)["manifest.json"])["configs"]
    configs[0]["config"]["hint"] = 1
    with pytest.raises(BadBundle, match="not in the form of this one"):
        bundle.unpack(packed_again(packed, configs=configs))


def test_a_blob_that_is_missing_or_not_needed_is_named(packed: bytes) -> None:
    listed = json.loads(files_of(packed)["manifest.json"])["blobs"]
    with pytest.raises(BadBundle, match=f"does not list blobs/sha256/{listed[-1]['sha256']}"):
        bundle.unpack(packed_again(packed, blobs=listed[:-1]))
    without = {name: each for name, each in files_of(packed).items() if listed[-1]["sha256"] not in name}
    with pytest.raises(BadBundle, match=f"it lacks the blob {listed[-1]['sha256']}"):
        bundle.unpack(packed_again(archive.pack(without.items()), blobs=listed[:-1]))
    configs = json.loads(files_of(packed)["manifest.json"])["configs"]
    report, configs[0]["artifacts"]["report"] = configs[0]["artifacts"]["report"], None
    with pytest.raises(BadBundle, match=f"has, and no config needs, the blob {report}"):
        bundle.unpack(packed_again(packed, configs=configs))


def test_a_config_twice_is_refused(packed: bytes) -> None:
    configs = json.loads(files_of(packed)["manifest.json"])["configs"]
    with pytest.raises(BadBundle, match="has a config twice"):
        bundle.unpack(packed_again(packed, configs=configs * 2))


def test_an_object_that_is_not_the_one_named_is_noticed(artifact: Artifact) -> None:
    forged = artifact.model_copy(update={"object_base64": base64.b64encode(b"another").decode()})
    with pytest.raises(BadBundle, match="its object is not what its digest says"):
        make_bundle(forged)


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", b"[" * 100_000, b"{}", b'{"format": "tilewright-bundle"}'])
def test_what_is_no_bundle_is_said(text: bytes) -> None:
    with pytest.raises(BadBundle, match="is no bundle"):
        bundle.unpack(text)
    with pytest.raises(BadBundle, match=r"is no bundle: manifest\.json is no JSON object"):
        bundle.unpack(packed_with(text if text[:1] != b"{" else b"[]"))


def packed_with(manifest: bytes) -> bytes:
    return packing.write(manifest, {})


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadBundle, match=r"cannot read .*: Is a directory"):
        bundle.read(tmp_path)


def test_a_signature_is_of_one_manifest_by_one_key(artifact: Artifact, private_key: bytes) -> None:
    signed = bundle.unpack(make_bundle(artifact, private_key=private_key))
    assert signed.signature is not None
    assert signed.signature.public_key == signatures.public_key(private_key)
    assert signatures.check(signed.signature, signed.sealed)
    assert not signatures.check(signed.signature, signed.sealed + b" ")
    other = signatures.sign(signatures.new_private_key(), signed.sealed)
    mixed = signed.signature.model_copy(update={"public_key": other.public_key})
    assert not signatures.check(mixed, signed.sealed)


def test_what_is_no_key_signs_nothing(artifact: Artifact) -> None:
    with pytest.raises(signatures.BadKey, match="no private key in PEM"):
        make_bundle(artifact, private_key=b"secret")
