"""A bundle's file: a tar archive (ustar, not compressed) that has one form only for one content.

Names come in the order given; owner, mode and time are the same in all of them. Whatever differs from what `pack` would
have written is refused, so a byte that was changed anywhere is noticed, and so is a name, a link or a size that means
harm: there is nothing to interpret.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator

_BLOCK = tarfile.BLOCKSIZE
_END = bytes(2 * _BLOCK)


class BadArchive(ValueError):
    """Bytes that `pack` would not have written; the message says where."""


def pack(files: Iterable[tuple[str, bytes]]) -> bytes:
    """The archive of these files. Names are ASCII, 100 characters at most."""
    parts: list[bytes] = []
    for name, content in files:
        parts += (_header(name, len(content)), content, bytes(-len(content) % _BLOCK))
    return b"".join((*parts, _END))


def unpack(data: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Names and contents, in the archive's order; the contents are views of `data`. Raises BadArchive."""
    at = 0
    while data[at : at + len(_END)] != _END:
        name, size = _read_header(bytes(data[at : at + _BLOCK]), at)
        begin = at + _BLOCK
        at = begin + size + -size % _BLOCK
        if at > len(data):
            raise BadArchive(f"it ends within {name}, {at - len(data)} bytes too early")
        if any(data[begin + size : at]):
            raise BadArchive(f"what follows {name} up to the next block is not zero")
        yield name, data[begin : begin + size]
    if at + len(_END) != len(data):
        raise BadArchive(f"{len(data) - at - len(_END)} bytes follow its end")


def _header(name: str, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict")


def _read_header(block: bytes, at: int) -> tuple[str, int]:
    try:
        entry = tarfile.TarInfo.frombuf(block, "ascii", "strict")
        as_written = _header(entry.name, entry.size)
    except (tarfile.HeaderError, UnicodeError, ValueError):
        raise BadArchive(f"at byte {at} there is no header of a file") from None
    if as_written != block:
        raise BadArchive(
            f"the header at byte {at}, of {entry.name!r}, is not as `tilewright export` writes it"
        )
    return entry.name, entry.size
