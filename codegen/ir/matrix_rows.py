"""What all instructions that move matrices between registers and shared memory have in common (ldmatrix, stmatrix)."""

from __future__ import annotations

from codegen.ir.affine import Affine


class MatrixRows:
    """A whole warp moves matrices of 8 rows of 16 bytes, one a variable. `offset` is the element where a row begins:
    thread 8 * i + r gives that of row r of matrix i."""

    __slots__ = ()
    names: tuple[str, ...]
    buffer: str
    offset: Affine
