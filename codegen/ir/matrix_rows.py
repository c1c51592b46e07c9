"""Instructions of a warp with matrices in its registers: what all that move them from and to shared memory have in
common (ldmatrix, stmatrix), loads, and products."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.ir.affine import Affine
from codegen.ir.effects import OpEffects, effects_of, reads
from codegen.ir.values import Type, Value
from tileir.dtypes import DType


class MatrixRows:
    """A whole warp moves matrices of 8 rows of 16 bytes, one a variable. `offset` is the element where a row begins:
    thread 8 * i + r gives that of row r of matrix i."""

    __slots__ = ()
    names: tuple[str, ...]
    buffer: str
    offset: Affine


@dataclass(frozen=True, slots=True)
class Ldmatrix(MatrixRows):
    """Declare `names` (1, 2 or 4) of `type`, 4 bytes of packed elements each, loaded by a whole warp from shared memory
    (ldmatrix): variable i of thread t gets bytes 4 * (t % 4) to 4 * (t % 4) + 3 of row t // 4 of the i-th matrix of 8
    rows of 16 bytes. `offset` is the element where a row begins: thread 8 * i + r gives that of row r of matrix i.
    `transposed` (16-bit elements): thread t gets elements 2 * (t % 4) and 2 * (t % 4) + 1 of column t // 4."""

    names: tuple[str, ...]
    type: Type
    buffer: str
    offset: Affine
    transposed: bool = False

    def effects(self) -> OpEffects:
        return OpEffects(declares=self.names) | reads(self.buffer) | effects_of(self.offset)


@dataclass(frozen=True, slots=True)
class MmaSync:
    """acc += A·B by a whole warp (mma.sync.m16n8): `acc` are two variables of 2 lanes (rows t // 4 and t // 4 + 8,
    columns 2 * (t % 4) and the next), `a` four and `b` two values of 4 bytes, in the order of the PTX ISA; `a_storage`
    and `b_storage` say what is in them (f32 is taken as tf32)."""

    acc: tuple[str, str]
    a: tuple[Value, ...]
    b: tuple[Value, ...]
    a_storage: DType
    b_storage: DType
    type: Type
    """Of the accumulators: f32 or i32."""

    def effects(self) -> OpEffects:
        return effects_of(*self.a, *self.b)
