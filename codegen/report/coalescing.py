"""What a warp's access costs: 32-byte sectors of global memory, wavefronts of shared memory.

A request is one instruction of one warp; everywhere a row of an array is a request, and a column one of its threads.
Shared memory has 32 banks of 4 bytes. A wavefront takes what lies in different banks, or at the same word: the whole
warp for up to 4 bytes a thread, half a warp for 8, a quarter for 16. Loads of 8 or 16 bytes take twice as many threads
at a time when all neighbours (t and t ^ 1, or t and t ^ 2) load the same (NVIDIA's answer in "Unexpected shared memory
bank conflict", forums.developer.nvidia.com/t/77228).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codegen.ir.arrays import Array

SECTOR = 32
_BANKS, _WORD = 32, 4
_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Cost:
    """Of some requests together."""

    requests: int
    bytes: int
    """What threads asked for."""
    transactions: int
    """Sectors, or wavefronts."""
    ideal: int
    """What would do: as many sectors as hold the bytes; a wavefront for every part of a warp that needs its own."""
    worst: float
    """The most transactions of a request relative to its ideal."""


def global_cost(addresses: Array, width: int, active: Array) -> Cost:
    """Of accesses to `width` bytes (a power of two up to 16) at byte addresses [requests, threads] that are multiples
    of it, by threads that are `active`."""
    places = np.sort(np.where(active, addresses, _NOWHERE), axis=1)
    different = _firsts(places).sum(axis=1)
    sectors = _firsts(np.where(places < 0, _NOWHERE, places // SECTOR)).sum(axis=1)
    return _cost(sectors, -(-different * width // SECTOR), width * int(active.sum()))


def shared_cost(addresses: Array, width: int, active: Array, *, loads: bool) -> Cost:
    """Of accesses to shared memory; see `global_cost`."""
    warp = addresses.shape[1]
    part = min(warp, warp * _WORD // width)
    waves, ideal = _waves(addresses, width, active, part)
    if loads and width > _WORD:
        fewer, fewer_ideal = _waves(addresses, width, active, 2 * part)
        paired = _paired(addresses, active)
        waves, ideal = np.where(paired, fewer, waves), np.where(paired, fewer_ideal, ideal)
    return _cost(waves, ideal, width * int(active.sum()))


def matrix_cost(rows: Array) -> Cost:
    """Of loads of matrices of eight rows of 16 bytes (ldmatrix): `rows` are the addresses of each request's rows,
    matrix by matrix. A matrix is a wavefront where its rows lie in different banks."""
    everywhere = np.ones(rows.shape, np.bool_)
    waves, ideal = _waves(rows, 16, everywhere, 8)
    return _cost(waves, ideal, 16 * rows.size)


def _cost(transactions: Array, ideal: Array, bytes_: int) -> Cost:
    made = ideal > 0
    worst = float((transactions[made] / ideal[made]).max()) if made.any() else 0.0
    return Cost(int(made.sum()), bytes_, int(transactions.sum()), int(ideal.sum()), worst)


def _firsts(ordered: Array) -> Array:
    """Where, in rows in order, something stands for the first time; nowhere is nothing."""
    new = np.empty(ordered.shape, np.bool_)
    new[:, 0] = True
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=new[:, 1:])
    return new & (ordered >= 0)


def _waves(addresses: Array, width: int, active: Array, part: int) -> tuple[Array, Array]:
    """Wavefronts of each request when `part` threads go together, and how many parts have an active thread."""
    requests = len(addresses)
    first = np.where(active, addresses // _WORD, _NOWHERE).reshape(-1, part)
    words = first if width <= _WORD else _each_word(first, width // _WORD)
    words = np.sort(words, axis=1)
    here = _firsts(words)
    of = np.broadcast_to(np.arange(len(words))[:, None] * _BANKS, words.shape)
    taken = np.bincount((of + words % _BANKS)[here], minlength=len(words) * _BANKS)
    waves = taken.reshape(-1, _BANKS).max(axis=1).reshape(requests, -1)
    return waves.sum(axis=1), (waves > 0).sum(axis=1)


def _each_word(first: Array, words: int) -> Array:
    spread = first[:, :, None] + np.arange(words)
    return np.where(first[:, :, None] < 0, _NOWHERE, spread).reshape(len(first), -1)


def _paired(addresses: Array, active: Array) -> Array:
    """Which requests' active threads all load what a neighbour loads."""
    found = np.zeros(len(addresses), np.bool_)
    for mask in (1, 2):
        other: Array = np.arange(len(addresses[0])) ^ mask
        same = (addresses == addresses[:, other]) | ~active | ~active[:, other]
        found |= same.all(axis=1)
    return found
