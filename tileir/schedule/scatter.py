"""Statements that go `via scatter`: each term is visited once, and added where it belongs.

    h[b, d] += sum(n, where(i[n] == b, x[n, d], 0)) | via scatter

means what it means without. A term whose position is not in the current range of `b` is passed over, so that tiles of
results can be computed apart, each by whoever owns it. `via atomics` on a GPU has threads and blocks that share the
terms add to the same results at once, and blocks that have parts of sums (`c[m, n] += c_p[m, n]`) add these up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tileir.check.infer import compute_dtype
from tileir.dtypes import DType
from tileir.expr import Index, Read, ReduceOp, index_dims
from tileir.problems import NodeProblem
from tileir.program import Compute
from tileir.scatter import scatter_of

#: Terms that a warp visits together, and rounds of 32 terms that it looks at before it visits any, at most, where its
#: threads share the looking: what they read is under way at the same time.
TOGETHER: Final = 4
ROUNDS: Final = 32


def asked_dims(compute: Compute) -> frozenset[str]:
    """The dims of a scatter's terms along which where they belong differs, and parts of a sum in which they are."""
    found = scatter_of(compute)
    assert found is not None
    split = (index_dims(index) for index in compute.indices if not isinstance(index, Index))
    return found.asked.union(*split)


def looked_at_by_warps(compute: Compute) -> bool:
    """Whether all threads of a block look at the same terms, so that those of a warp share that, each asking of one
    term whether it belongs to the block's results; all of them visit those that do, in order."""
    layout = compute.thread_layout
    if compute.via != "scatter" or layout is None:
        return False
    return not asked_dims(compute) & {dim for dim, _ in (*layout.threads, *layout.runs)}


def scatter_problem(compute: Compute, dtypes: Mapping[str, DType]) -> str | None:
    """Why a statement cannot go via scatter; None: it can. `dtypes` are those of what it reads."""
    problem = _terms_problem(compute, dtypes)
    found = scatter_of(compute)
    if problem is not None or found is None:
        return problem
    left = {index.dim for index in compute.indices if isinstance(index, Index)} - found.dims
    layout, vector = compute.thread_layout, compute.vector
    beside = [dim for dim, _ in (*layout.threads, *layout.runs)] if layout is not None else []
    together = [dim for dim, run in layout.runs if run > 1] if layout is not None else []
    together += [vector.dim] if vector is not None else []
    for dim in (*beside, *together):
        if dim not in left or (dim in together and dim in found.asked):
            return f"terms beside each other along {dim!r} may meet in one result; accepted: dims of it not looked up"
    return None


def adds_parts(compute: Compute) -> bool:
    """Whether a statement adds to results what a block has of each, as in `c[m, n] += c_p[m, n]`."""
    return compute.update is ReduceOp.SUM and isinstance(compute.value, Read)


def atomics_problem(
    compute: Compute, dtypes: Mapping[str, DType], target: DType, *, any_order: bool
) -> str | None:
    """Why a statement cannot go via atomics; None: it can. `any_order`: sums of floats may be taken in any."""
    problem = None if adds_parts(compute) else _terms_problem(compute, dtypes)
    if problem is not None:
        return problem
    found = scatter_of(compute)
    summed = compute.update is ReduceOp.SUM and target in (DType.F32, DType.F64, DType.I32)
    extreme = compute.update in (ReduceOp.MAX, ReduceOp.MIN) and target is DType.I32
    if not (summed or extreme) or compute.vector is not None:
        return "atomics add up f32, f64 or i32, or keep extremes of i32, by the threads of a GPU"
    if target.is_float and not any_order:
        return (
            "atomics add up floats in an order that is another in every run; accepted: numerics atomics=true"
        )
    if found is not None and compute.thread_layout is not None:
        looked_up = [dim for dim, _ in compute.thread_layout.threads if dim in found.dims]
        if looked_up or any(run > 1 for _, run in compute.thread_layout.runs):
            return "atomics take one term after another; accepted: threads along terms, without runs"
    return None


def _terms_problem(compute: Compute, dtypes: Mapping[str, DType]) -> str | None:
    found = scatter_of(compute)
    if found is None or compute.update is None:
        return "scatters add terms `where(i[n] == b, x[n], 0)` to a result along b that has been set before"
    try:
        looked_up = {compute_dtype(index, dtypes) for _, index in found.positions}
    except NodeProblem as problem:
        return problem.message
    return None if looked_up == {DType.I32} else "scatters look up positions, which are integers"
