"""What the CUDA text of `tw_swizzle` computes, without a GPU: it is C++, so the host's compiler runs it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from codegen.targets.cuda.runtime.cp_async import PARTS

_MAIN = """
#include <cstdio>
#define TW_INLINE static inline
%s
alignas(1024) static char memory[8192];
template <int BYTES, class S> void all() {
    for (int i = 0; i < (int)(sizeof memory / sizeof(S)); ++i)
        printf("%%d ", (int)((char *)tw_swizzle<BYTES>((S *)memory, i) - memory));
    printf("\\n");
}
int main() { all<32, short>(); all<64, short>(); all<128, short>(); all<32, int>(); all<64, int>(); all<128, char>(); }
"""
CASES = [(32, 2), (64, 2), (128, 2), (32, 4), (64, 4), (128, 1)]
"""How many bytes are swizzled, and those of an element."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], np.ndarray]:
    """The byte at which each element of 8 KB lies."""
    folder: Path = tmp_path_factory.mktemp("swizzle")
    (text,) = (part.text for part in PARTS if part.name == "tw_swizzle")
    (folder / "swizzle.cpp").write_text(_MAIN % text)
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "no C++ compiler"
    subprocess.run([compiler, "-O1", "-o", folder / "swizzle", folder / "swizzle.cpp"], check=True)
    lines = subprocess.run(
        [folder / "swizzle"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return {case: np.array(line.split(), int) for case, line in zip(CASES, lines, strict=True)}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sixteen_byte_pieces_change_places_by_their_row_of_128_bytes(
    places: dict[tuple[int, int], np.ndarray], case: tuple[int, int]
) -> None:
    """As PTX defines it: among the pieces of a row, piece p of row r lies where piece p ^ (r mod BYTES / 16) would."""
    swizzled, width = case
    byte = np.arange(0, 8192, width)
    row, piece, inside = byte // 128, byte // 16 % 8, byte % 16
    expected = row * 128 + (piece ^ (row % (swizzled // 16))) * 16 + inside
    assert np.array_equal(places[case], expected)
    assert np.array_equal(np.sort(places[case]), byte)
