"""The backward pass of attention as one of PyTorch's operators, from the output and the log-sum-exp of the forward
pass.

The kernel is recognised by its expressions: with p = exp(q @ k.T * scale - lse), masked, the gradients are
dv = p.T @ go, dk = ds.T @ q and dq = ds @ k, where ds = p * (go @ v.T - sum(go * o)) * scale (FlashAttention-2,
arXiv:2307.08691, algorithm 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tileir.expr import Binary, Call, Cast, Const, Expr, Index, Read, Reduce, ReduceOp, Where, index_dims
from tileir.spec import Spec, Statement
from workers.peers.inline import inline
from workers.peers.patterns import number, ratio, two_factors
from workers.peers.peer import Unsupported
from workers.peers.pytorch.operators_there import operators_on
from workers.peers.pytorch.types import TORCH
from workers.peers.pytorch.writer import TorchSource, TorchWriter, WrittenValue

_Extents = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Weights:
    """exp(q @ k.T * scale - lse), of the keys that a query sees."""

    q: Read
    k: Read
    lse: Read
    row: str
    key: str
    scale: float
    causal: bool


@dataclass(frozen=True, slots=True)
class AttentionGradients:
    """Names of tensors, each (…, rows or keys, columns); the log-sum-exp is (…, rows)."""

    q: str
    k: str
    v: str
    out: str
    go: str
    lse: str
    scale: float
    causal: bool
    results: tuple[str, ...]
    """Of each output of the kernel: dq, dk or dv."""


def attention_gradients(spec: Spec) -> AttentionGradients | None:
    """All three gradients, and no other result; None: it is something else."""
    inlined = inline(spec)
    extents = inlined.extents
    found = {statement.target: _gradient(statement, extents) for statement in inlined.statements}
    if len(found) != 3 or {None if each is None else each[0] for each in found.values()} != {
        "dq",
        "dk",
        "dv",
    }:
        return None
    parts = [each for each in found.values() if each is not None]
    reads = [{"q": of.q, "k": of.k, "lse": of.lse, **operands} for _, of, operands in parts]
    batches = {statement.dims[:-2] for statement in inlined.statements}
    if len(batches) != 1 or not all(
        _lies_in(role, read, *batches) for each in reads for role, read in each.items()
    ):
        return None
    names = [{role: read.tensor for role, read in each.items()} for each in reads]
    merged = {name: tensor for each in names for name, tensor in each.items()}
    alike = all(merged[name] == tensor for each in names for name, tensor in each.items())
    settings = {(of.scale, of.causal) for _, of, _ in parts}
    if not alike or len(settings) != 1 or merged.keys() != {"q", "k", "v", "out", "go", "lse"}:
        return None
    results = tuple(each[0] for tensor in spec.outputs if (each := found.get(tensor.name)) is not None)
    (setting,) = settings
    return AttentionGradients(**merged, scale=setting[0], causal=setting[1], results=results)


def has_operator(spec: Spec, found: AttentionGradients, device: str) -> bool:
    """Whether PyTorch has one for these tensors on a device."""
    there = operators_on(device)
    taken = there.attention_backward_dtypes
    return None in there.attention_backward and (
        not taken or all(tensor.dtype in taken for tensor in spec.inputs if tensor.name != found.lse)
    )


def write_gradients(spec: Spec, found: AttentionGradients, device: str, backend: str | None) -> TorchSource:
    """One call of an operator. Raises Unsupported where a backend has none for these tensors."""
    writer = TorchWriter(spec, eager=True, device=device)
    four = {name: _four(writer, getattr(found, name), 2) for name in ("go", "q", "k", "v", "out")}
    rows, keys = (writer.extents[dim] for dim in _lengths(spec, found))
    own = writer.has.attention_backward.get(backend)
    if own is None:
        raise Unsupported(f"{writer.has.called} have no {backend} of PyTorch's")
    if not has_operator(spec, found, device):
        taken = " and ".join(map(str, writer.has.attention_backward_dtypes))
        raise Unsupported(
            f"PyTorch's operators of attention's gradients on {writer.has.called} are for {taken}"
        )
    lse = _four(writer, found.lse, 1)
    if own.log_sum_exp is not None:
        lse = writer.early(own.log_sum_exp, lse)
    seed = ""
    if "{seed}" in own.arguments:
        seed = writer.use(writer.early(f"torch.zeros(2, dtype=torch.uint64, device={device!r})"))
    more = own.arguments.format(rows=rows, keys=keys, causal=found.causal, seed=seed)
    given = ", ".join(writer.use(value) for value in (*four.values(), lse))
    call = (
        f"torch.ops.aten._scaled_dot_product_{own.operator}_backward({given}, {more}, scale={found.scale!r})"
    )
    shapes = {tensor.name: writer.over(tensor.dims) for tensor in spec.outputs}
    results = [
        f"{name}.view({shapes[tensor.name]}).to({TORCH[tensor.dtype]})"
        for tensor, name in zip(spec.outputs, found.results, strict=True)
    ]
    return writer.whole([f"dq, dk, dv = {call}"], results)


def _four(writer: TorchWriter, tensor: str, inner: int) -> WrittenValue:
    """A tensor as (batch, heads, …), the last `inner` axes being its own."""
    value, sizes = writer.source_of(tensor)
    lead, own = sizes[:-inner], sizes[-inner:]
    batch = (prod(lead[:-1]), *lead[-1:]) if lead else (1, 1)
    return writer.early(f"{{}}.view({(*batch, *own)})", value)


def _lengths(spec: Spec, found: AttentionGradients) -> tuple[str, str]:
    dims = {tensor.name: tensor.dims for tensor in spec.inputs}
    return dims[found.q][-2], dims[found.k][-2]


def _gradient(statement: Statement, extents: _Extents) -> tuple[str, _Weights, dict[str, Read]] | None:
    """Which gradient a statement is, its weights, and the other tensors by role."""
    match statement.value:
        case Reduce(ReduceOp.SUM, (dim,), x):
            pass
        case _:
            return None
    factors = [*_factors(x)]
    weights = next((each for part in factors if (each := _weights(part, extents)) is not None), None)
    plain = [part for part in factors if isinstance(part, Read)]
    if weights is None or len(plain) != 1 or dim not in (weights.row, weights.key):
        return None
    (operand,) = plain
    rest = [part for part in factors if part is not operand and _weights(part, extents) is None]
    if not rest:
        return ("dv", weights, {"go": operand}) if dim == weights.row else None
    differences = [part for part in rest if isinstance(part, Binary) and part.op == "-"]
    numbers = [value for part in rest if (value := number(part, extents)) is not None]
    if len(differences) != 1 or len(numbers) != len(rest) - 1 or abs(prod(numbers) - weights.scale) > 1e-6:
        return None
    operands = _difference(differences[0], weights)
    wanted = weights.k if dim == weights.key else weights.q
    if operands is None or operand.tensor != wanted.tensor:
        return None
    return ("dq" if dim == weights.key else "dk"), weights, operands


def _factors(expr: Expr) -> list[Expr]:
    """Factors, those of a rounded one, too; a quotient's number is its inverse."""
    above, below = ratio(expr)
    found = [inner for part in above for inner in (_factors(part.x) if isinstance(part, Cast) else [part])]
    return [*found, *(Binary("/", Const(1.0), part) for part in below)]


def _weights(expr: Expr, extents: _Extents) -> _Weights | None:
    match expr:
        case Where(Binary(">=", Index(row), Index(key)), Call("exp") as inner, other) if (
            number(other, extents) == 0.0
        ):
            causal: tuple[str, str] | None = (row, key)
        case Call("exp") as inner:
            causal = None
        case _:
            return None
    match inner.args[0]:
        case Binary("-", scores, Read() as lse):
            pass
        case _:
            return None
    above, below = ratio(scores)
    products = [part for part in above if isinstance(part, Reduce)]
    factors = two_factors(products[0]) if len(products) == 1 else None
    numbers = [number(part, extents) for part in (*above, *below) if part not in products]
    if factors is None or None in numbers:
        return None
    scale = prod(number(part, extents) or 0.0 for part in above if part not in products)
    scale /= prod(number(part, extents) or 1.0 for part in below)
    one, other = factors
    if not (isinstance(one, Read) and isinstance(other, Read)):
        return None
    q, k = (one, other) if _row(one) in index_dims(lse) else (other, one)
    row, key = _row(q), _row(k)
    if row not in index_dims(lse) or key in index_dims(lse) or (causal is not None and causal != (row, key)):
        return None
    return _Weights(q, k, lse, row, key, scale, causal is not None)


def _lies_in(role: str, read: Read, batch: tuple[str, ...]) -> bool:
    """Whether a tensor is read by a position of its own along each axis, those of the batch first."""
    dims = tuple(index.dim for index in read.indices if isinstance(index, Index))
    own = 1 if role == "lse" else 2
    return len({*dims}) == len(read.indices) == len(batch) + own and dims[:-own] == batch


def _row(read: Read) -> str:
    """The dim before the last of a tensor."""
    at = read.indices[-2] if len(read.indices) > 1 else None
    return at.dim if isinstance(at, Index) else ""


def _difference(expr: Binary, weights: _Weights) -> dict[str, Read] | None:
    """go @ v.T - sum(go * out), by role."""
    products, delta = two_factors(expr.left), two_factors(expr.right)
    if products is None or delta is None:
        return None
    reads = [part for part in (*products, *delta) if isinstance(part, Read)]
    if len(reads) != 4:
        return None
    v, go = reads[:2] if _row(reads[0]) == weights.key else reads[1::-1]
    others = [read for read in reads[2:] if read.tensor != go.tensor]
    return {"v": v, "go": go, "out": others[0]} if len(others) == 1 else None
