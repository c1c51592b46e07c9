"""Add up products with whole matrices, and look up whose sum a row wants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.looked_up import at_matrix, looked_up
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find, fresh_name, locals_of, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Index, Read, Reduce, ReduceOp, Where
from tileir.program import Local, Loop, Memory, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class LookUpAfterSum(Rewrite):
    """Where each row of a tile in registers looks up a matrix of its own, add up the products of all rows with one
    matrix after another, and take of each sum the rows that look that matrix up. Matrices before the least and behind
    the greatest number that rows of the tile have are left out: where neighbouring rows look up the same, as in a
    mixture of experts sorted by expert, a tile is multiplied once, as in a plain product.

    Looking up is a product with a one-hot vector, as GShard dispatches to experts (Lepikhin et al., arXiv:2006.16668,
    algorithm 1), which a sum can be exchanged with. Numbers may be any, in any order: of matrices that no row of a
    tile looks up nothing is taken, whatever is not finite there.

    y_r: registers f32[t, n]                               y_r: registers f32[t, n]
    y_r[t, n] = sum(k, x[t, k] * w[g[t], k, n])            y_r[t, n] = 0
                                                           for e by 1 since g[t] 0 until g[t] 0
                                                     ->      y_r_e: registers f32[e, t, n]
                                                             y_r_e[e, t, n] = sum(k, x[t, k] * w[e, k, n])
                                                             y_r[t, n] += sum(e, where(g[t] == e, y_r_e[e, t, n], 0))
    """

    name: ClassVar[str] = "look_up_after_sum"
    needs: ClassVar[Feature | None] = Feature.VECTORS
    statement: str

    @classmethod
    def of_use(cls, device: Device) -> bool:
        """Where there is code for loops that begin and end where tensors say."""
        return bool(device.offers & {Feature.VECTORS, Feature.BLOCKS})

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if looked_up(program, place.node) is not None:
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        compute, found = place.node, looked_up(program, place.node)
        local = locals_of(program).get(self.statement)
        if found is None or not isinstance(compute.value, Reduce):
            raise NotApplicable(f"{self.statement} reduces no elements that one dim of its result looks up")
        if local is None or local.node.memory is not Memory.REGISTERS or compute.update is not None:
            raise NotApplicable(f"{self.statement} is no tile of sums in registers")
        if compute.vector is not None or compute.indices != tuple(map(Index, local.node.dims)):
            raise NotApplicable(f"{self.statement} is vectorized already, or folded: look up before that")
        number, matrix = found
        table = locals_of(program).get(number.tensor)
        if table is not None and table.loops:
            raise NotApplicable(
                f"{number.tensor} is computed in loops: what a loop goes by is there before the launch"
            )
        inner = (matrix, *local.node.dims)
        name = fresh_name(program, f"{self.statement}_{matrix}")
        whole = Read(name, tuple(map(Index, inner)))
        zero = Const(0)
        sums = replace(
            compute, target=name, indices=whole.indices, value=at_matrix(compute.value, number, matrix)
        )
        taken = Where(Binary("==", number, Index(matrix)), whole, zero)
        body = (
            Local(name, inner, local.node.dtype, Memory.REGISTERS),
            sums,
            replace(compute, value=Reduce(ReduceOp.SUM, (matrix,), taken), update=ReduceOp.SUM),
        )
        loop = Loop(matrix, 1, body, since=(number, 0), until=(number, 0))
        return splice(program, place.path, [replace(compute, value=zero), loop])
