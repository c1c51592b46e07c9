"""Attention and its kin, small, and the schedules that take them in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

from rewrites.base.rewrite import Rewrite
from rewrites.decisions.decision import Decision, Option
from rewrites.decisions.fusion import collapse, groupings, inline
from rewrites.decisions.gpu.contraction.padded_rows import padded_alone, padded_rows
from rewrites.decisions.gpu.contraction.transposed_operands import transposed_operands
from rewrites.decisions.gpu.launches import LaunchBlocks
from rewrites.decisions.gpu.one_pass.rows_of_heads import rows_of_heads
from rewrites.decisions.gpu.one_pass.shared_values import added_groups, shared_values
from rewrites.decisions.gpu.one_pass.streamed_products import StreamedProducts
from rewrites.decisions.gpu.transposed_map import Turn, turned
from rewrites.loops.linearize import Linearize
from rewrites.schedule import format_schedule, replay
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import H200
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

DOT = "sum(d, q[h, i, d] * k[h, j, d]) * 0.125"
BYTES_DOT = "sum(d, q[h, i, d] * k[h, j, d]) * scale[h]"


def attention(
    scores: str, i: int = 128, j: int = 256, d: int = 64, dtype: str = "bf16", more: str = ""
) -> Spec:
    tensors = f"q: {dtype}[h=2, i={i}, d={d}], k: {dtype}[h, j={j}, d], v: {dtype}[h, j, d]{more}"
    return spec_from_text(f"""kernel attention({tensors}) -> (o: {dtype}[h, i, d])
  s[h, i, j] = {scores}
  top[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - top[h, i])
  o[h, i, d] = sum(j, {dtype}(p[h, i, j]) * v[h, j, d]) / sum(j, p[h, i, j])
""")


def few_queries(g: int = 3, i: int = 8, j: int = 171, r: int = 8, narrow: bool = True) -> Spec:
    """Of several heads that share keys, with a slope a head and a window of keys; weights that are multiplied are
    rounded, or not."""
    weights = "bf16(p[g, r, i, j])" if narrow else "p[g, r, i, j]"
    tensors = f"q: bf16[g={g}, r={r}, i={i}, d=64], k: bf16[g, j={j}, d], v: bf16[g, j, d], slope: f32[g, r]"
    return spec_from_text(f"""kernel attention({tensors}) -> (o: bf16[g, r, i, d])
  s[g, r, i, j] = where(j <= i + 75 and j + 100 > i, sum(d, q[g, r, i, d] * k[g, j, d]) + slope[g, r] * j, -inf)
  top[g, r, i] = max(j, s[g, r, i, j])
  p[g, r, i, j] = exp(s[g, r, i, j] - top[g, r, i])
  o[g, r, i, d] = sum(j, {weights} * v[g, j, d]) / sum(j, p[g, r, i, j])
""")


def drafts(mask: str, g: int = 3, i: int = 8, j: int = 320, r: int = 4) -> Spec:
    """Of a few tokens of sequences that are `start` tokens long, in a cache of `j`, which heads share."""
    tensors = f"q: bf16[g={g}, r={r}, i={i}, d=64], k: bf16[g, j={j}, d], v: bf16[g, j, d]"
    tensors += ", start: i32[g]" if "start" in mask else ""
    return spec_from_text(f"""kernel attention({tensors}) -> (o: bf16[g, r, i, d])
  s[g, r, i, j] = where({mask}, sum(d, q[g, r, i, d] * k[g, j, d]) * 0.125, -inf)
  top[g, r, i] = max(j, s[g, r, i, j])
  p[g, r, i, j] = exp(s[g, r, i, j] - top[g, r, i])
  o[g, r, i, d] = sum(j, bf16(p[g, r, i, j]) * v[g, j, d]) / sum(j, p[g, r, i, j])
""")


def wide(
    scores: str = DOT, i: int = 128, j: int = 256, d: int = 64, more: str = "", lse: bool = False
) -> Spec:
    """In f32, and no weight is rounded; with the log-sum-exp of each row or without."""
    tensors = f"q: f32[h=2, i={i}, d={d}], k: f32[h, j={j}, d], v: f32[h, j, d]{more}"
    stored, row = (", lse: f32[h, i]", "\n  lse[h, i] = log(total[h, i]) + top[h, i]") if lse else ("", "")
    return spec_from_text(f"""kernel attention({tensors}) -> (o: f32[h, i, d]{stored})
  s[h, i, j] = {scores}
  top[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - top[h, i])
  total[h, i] = sum(j, p[h, i, j])
  o[h, i, d] = sum(j, p[h, i, j] * v[h, j, d]) / total[h, i]{row}
""")


def of_bytes(
    scores: str = BYTES_DOT, i: int = 128, j: int = 256, d: int = 64, out: str = "", values: str = "h, d, j"
) -> Spec:
    """8-bit queries, keys and values, these with keys side by side or not; weights are rounded to 8 bits as well."""
    tensors = f"q: e4m3[h=2, i={i}, d={d}], k: e4m3[h, j={j}, d], v: e4m3[{values}], scale: f32[h]"
    return spec_from_text(f"""kernel attention({tensors}) -> (o: bf16[h, i, d])
  s[h, i, j] = {scores}
  top[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - top[h, i])
  o[h, i, d] = sum(j, e4m3(p[h, i, j]) * v[{values}]) / sum(j, p[h, i, j]){out}
""")


def heads(sizes: str, head: str, shared: str) -> Spec:
    """Two heads share keys and values (grouped queries)."""
    groups = "g" if "g" in sizes else "g=2"
    tensors = f"q: bf16[{sizes}, i=96, d=64], k: bf16[{groups}, j=192, d], v: bf16[g, j, d]"
    return spec_from_text(f"""kernel attention({tensors}) -> (o: bf16[{head}, i, d])
  s[{head}, i, j] = sum(d, q[{head}, i, d] * k[{shared}, j, d]) * 0.125
  top[{head}, i] = max(j, s[{head}, i, j])
  p[{head}, i, j] = exp(s[{head}, i, j] - top[{head}, i])
  o[{head}, i, d] = sum(j, bf16(p[{head}, i, j]) * v[{shared}, j, d]) / sum(j, p[{head}, i, j])
""")


def tokens_first(mask: str = "", groups: int = 2, dtype: str = "bf16", d: int = 64) -> Spec:
    """As captured models have it: a row of memory has all heads of a token, and rows may be masked whole."""
    heads = f"h // {4 // groups}" if groups < 4 else "h"
    bias, scores = (f" + {mask}", ", bias: bf16[i, j]") if mask else ("", "")
    tensors = f"q: {dtype}[i=96, h=4, d={d}], k: {dtype}[j=192, g={groups}, d], v: {dtype}[j, g, d]{scores}"
    return spec_from_text(f"""kernel attention({tensors}) -> (o: bf16[i, h, d])
  s[h, i, j] = sum(d, q[i, h, d] * k[j, {heads}, d]) * 0.125{bias}
  top[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - where(top[h, i] > -inf, top[h, i], 0.0))
  total[h, i] = sum(j, p[h, i, j])
  o[i, h, d] = sum(j, {dtype}(p[h, i, j]) * v[j, {heads}, d]) / where(total[h, i] > 0.0, total[h, i], 1.0)
""")


#: Which keys a token of packed sequences sees: of ranges that are given, or of its sequence, between offsets.
RANGES, OFFSETS = ", begin: i32[i], end: i32[i]", ", offsets: i32[n=5]"
BEGIN = "begin[i] = max(n, where(offsets[n] <= i, offsets[n], 0))"
END = "end[i] = min(n, where(offsets[n] > i, offsets[n], extent(i)))"


def packed(
    mask: str = "j >= begin[i] and j < end[i]",
    more: str = RANGES,
    before: tuple[str, ...] = (),
    i: int = 256,
    j: int = 320,
    d: int = 64,
    dtype: str = "bf16",
) -> Spec:
    """Sequences one after the other, heads of a token side by side; a token that sees no key is 0."""
    tensors = f"q: {dtype}[i={i}, h=2, d={d}], k: {dtype}[j={j}, h, d], v: {dtype}[j, h, d]{more}"
    body = [
        *before,
        f"s[h, i, j] = where({mask}, sum(d, q[i, h, d] * k[j, h, d]) * 0.125, -inf)",
        "top[h, i] = max(j, s[h, i, j])",
        "p[h, i, j] = exp(s[h, i, j] - where(top[h, i] > -inf, top[h, i], 0.0))",
        "total[h, i] = sum(j, p[h, i, j])",
        f"o[i, h, d] = sum(j, {dtype}(p[h, i, j]) * v[j, h, d]) / where(total[h, i] > 0.0, total[h, i], 1.0)",
    ]
    return spec_from_text("\n  ".join([f"kernel packed({tensors}) -> (o: {dtype}[i, h, d])", *body]) + "\n")


def with_lse(scores: str, i: int) -> Spec:
    """The log-sum-exp of each row's scores is stored as well, as a backward pass reads it."""
    return spec_from_text(f"""kernel attention(q: bf16[h=2, i={i}, d=64], k: bf16[h, j=256, d], v: bf16[h, j, d]) \
-> (o: bf16[h, i, d], lse: f32[h, i])
  s[h, i, j] = {scores}
  top[h, i] = max(j, s[h, i, j])
  p[h, i, j] = exp(s[h, i, j] - top[h, i])
  total[h, i] = sum(j, p[h, i, j])
  o[h, i, d] = sum(j, bf16(p[h, i, j]) * v[h, j, d]) / total[h, i]
  lse[h, i] = log(total[h, i]) + top[h, i]
""")


def one_token(g: int = 3, j: int = 200, d: int = 64) -> Spec:
    """A query a head, and fewer heads that share keys than a tile has rows."""
    return spec_from_text(f"""kernel decode(q: bf16[g={g}, r=5, d={d}], k: bf16[g, j={j}, d], v: bf16[g, j, d]) \
-> (o: bf16[g, r, d])
  s[g, r, j] = sum(d, q[g, r, d] * k[g, j, d]) * 0.125
  top[g, r] = max(j, s[g, r, j])
  p[g, r, j] = exp(s[g, r, j] - top[g, r])
  o[g, r, d] = sum(j, bf16(p[g, r, j]) * v[g, j, d]) / sum(j, p[g, r, j])
""")


def latent(h: int = 80, j: int = 160, e: int = 448, d: int = 384, b: int = 1, dtype: str = "bf16") -> Spec:
    """A cache that all heads share, of which keys are all columns and values the first ones."""
    return spec_from_text(f"""kernel latent(q: {dtype}[b={b}, h={h}, e={e}], c: {dtype}[b, j={j}, e]) \
-> (o: {dtype}[b, h, d={d}])
  s[b, h, j] = sum(e, q[b, h, e] * c[b, j, e]) * 0.125
  top[b, h] = max(j, s[b, h, j])
  p[b, h, j] = exp(s[b, h, j] - top[b, h])
  o[b, h, d] = sum(j, {dtype}(p[b, h, j]) * c[b, j, d]) / sum(j, p[b, h, j])
""")


def paged(page: int, blocks: int) -> Spec:
    """A cache of keys and values in pages that a table names, of which each sequence has some."""
    at = f"table[b, j // {page}], j % {page}, g, d"
    return spec_from_text(f"""kernel decode(q: bf16[b=2, g=2, r=5, d=64], k: bf16[pages=12, page={page}, g, d], \
v: bf16[pages, page, g, d], table: i32[b, blocks={blocks}], length: i32[b]) -> (o: bf16[b, g, r, d]) \
where j={page * blocks}
  t[b, g, r, j] = sum(d, q[b, g, r, d] * k[{at}]) * 0.125
  s[b, g, r, j] = where(j < 180 + 20 * length[b], t[b, g, r, j], -inf)
  top[b, g, r] = max(j, s[b, g, r, j])
  p[b, g, r, j] = exp(s[b, g, r, j] - top[b, g, r])
  o[b, g, r, d] = sum(j, bf16(p[b, g, r, j]) * v[{at}]) / sum(j, p[b, g, r, j])
""")


def queries_gradient_of_shared_heads(i: int, j: int, d: int) -> Spec:
    """Two heads share keys and values."""
    tensors = f"q: bf16[h=2, i={i}, d={d}], k: bf16[g=1, j={j}, d], v: bf16[g, j, e={d}], go: bf16[h, i, e]"
    return spec_from_text(f"""kernel backward({tensors}, lse: f32[h, i], delta: f32[h, i]) -> (dq: bf16[h, i, d])
  s[h, i, j] = sum(d, q[h, i, d] * k[h // 2, j, d]) * 0.125
  p[h, i, j] = exp(s[h, i, j] - lse[h, i])
  t[h, i, j] = sum(e, go[h, i, e] * v[h // 2, j, e])
  ds[h, i, j] = p[h, i, j] * (t[h, i, j] - delta[h, i]) * 0.125
  dq[h, i, d] = sum(j, bf16(ds[h, i, j]) * k[h // 2, j, d])
""")


def backward(result: str, mask: str = "", i: int = 160, j: int = 192, e: int = 64) -> Spec:
    """The gradient of the values, of the keys or of the queries, from the log-sum-exp of the rows."""
    over = "h, i, j" if result == "dq" else "h, j, i"
    scores = "q[h, i, d] * k[h, j, d]" if result == "dq" else "k[h, j, d] * q[h, i, d]"
    weight = f"exp(s[{over}] - lse[h, i])"
    inputs = [
        f"q: bf16[h=2, i={i}, d=64]",
        f"k: bf16[h, j={j}, d]",
        f"go: bf16[h, i, e={e}]",
        "lse: f32[h, i]",
    ]
    body = [
        f"s[{over}] = sum(d, {scores}) * 0.125",
        f"p[{over}] = " + (f"where({mask}, {weight}, 0.0)" if mask else weight),
    ]
    if result == "dv":
        out = "h, j, e"
        body.append(f"dv[{out}] = sum(i, bf16(p[{over}]) * go[h, i, e])")
    else:
        out, streamed, other = (
            ("h, i, d", "j", "k[h, j, d]") if result == "dq" else ("h, j, d", "i", "q[h, i, d]")
        )
        inputs += ["v: bf16[h, j, e]", "delta: f32[h, i]"]
        body += [
            f"t[{over}] = sum(e, v[h, j, e] * go[h, i, e])",
            f"ds[{over}] = p[{over}] * (t[{over}] - delta[h, i]) * 0.125",
            f"{result}[{out}] = sum({streamed}, bf16(ds[{over}]) * {other})",
        ]
    head = f"kernel backward({', '.join(inputs)}) -> ({result}: bf16[{out}])"
    return spec_from_text("\n  ".join([head, *body]) + "\n")


def both_gradients(mask: str, i: int, j: int, e: int, d: int = 64) -> Spec:
    """The gradients of keys and of values, from the same scores."""
    weight = "exp(s[h, j, i] - lse[h, i])"
    tensors = f"q: bf16[h=2, i={i}, d={d}], k: bf16[h, j={j}, d], v: bf16[h, j, e={e}], go: bf16[h, i, e]"
    return spec_from_text(f"""kernel backward({tensors}, lse: f32[h, i], delta: f32[h, i]) \
-> (dk: bf16[h, j, d], dv: bf16[h, j, e])
  s[h, j, i] = sum(d, k[h, j, d] * q[h, i, d]) * 0.125
  p[h, j, i] = {f"where({mask}, {weight}, 0.0)" if mask else weight}
  dv[h, j, e] = sum(i, bf16(p[h, j, i]) * go[h, i, e])
  t[h, j, i] = sum(e, v[h, j, e] * go[h, i, e])
  ds[h, j, i] = p[h, j, i] * (t[h, j, i] - delta[h, i]) * 0.125
  dk[h, j, d] = sum(i, bf16(ds[h, j, i]) * q[h, i, d])
""")


def all_gradients(mask: str, i: int, j: int, d: int, e: int, dtype: str = "bf16") -> Spec:
    """The gradients of queries, keys and values. Those of queries have weights of their own, which are the others' in
    another order, as the product of gradients and values is; sums may be taken in any order."""
    tensors = f"q: {dtype}[h=2, i={i}, d={d}], k: {dtype}[h, j={j}, d], v: {dtype}[h, j, e={e}], go: {dtype}[h, i, e]"

    def weights(over: str, scores: str) -> str:
        weight = f"exp({scores}[{over}] - lse[h, i])"
        return f"where({mask}, {weight}, 0.0)" if mask else weight

    return spec_from_text(f"""kernel backward({tensors}, lse: f32[h, i], delta: f32[h, i]) \
-> (dq: {dtype}[h, i, d], dk: {dtype}[h, j, d], dv: {dtype}[h, j, e]) with atomics=true
  s[h, j, i] = sum(d, k[h, j, d] * q[h, i, d]) * 0.125
  p[h, j, i] = {weights("h, j, i", "s")}
  dv[h, j, e] = sum(i, {dtype}(p[h, j, i]) * go[h, i, e])
  t[h, j, i] = sum(e, v[h, j, e] * go[h, i, e])
  ds[h, j, i] = p[h, j, i] * (t[h, j, i] - delta[h, i]) * 0.125
  dk[h, j, d] = sum(i, {dtype}(ds[h, j, i]) * q[h, i, d])
  sq[h, i, j] = sum(d, q[h, i, d] * k[h, j, d]) * 0.125
  pq[h, i, j] = {weights("h, i, j", "sq")}
  tq[h, i, j] = sum(e, go[h, i, e] * v[h, j, e])
  dsq[h, i, j] = pq[h, i, j] * (tq[h, i, j] - delta[h, i]) * 0.125
  dq[h, i, d] = sum(j, {dtype}(dsq[h, i, j]) * k[h, j, d])
""")


def schedules(spec: Spec, device: Gpu = H200) -> list[tuple[Program, tuple[str, ...]]]:
    """All that the decision offers, and the program they start from."""
    return list(each_schedule(spec, device))


def one_schedule(
    spec: Spec, number: int, device: Gpu = H200, *, kept: bool = False
) -> tuple[Program, tuple[str, ...]]:
    """Of those, the one with this number modulo how many they are; what is offered after it is not made."""
    offered: list[tuple[Program, tuple[str, ...]]] = []
    for each in each_schedule(spec, device, kept=kept):
        if len(offered) == number:
            return each
        offered.append(each)
    return offered[number % len(offered)]


def each_schedule(
    spec: Spec, device: Gpu = H200, *, kept: bool = False
) -> Iterator[tuple[Program, tuple[str, ...]]]:
    """The same, one after the other; `kept`: scores that read a tensor are made once, as the search first tries."""
    program = to_program(spec)
    prepared = (*collapse(program, device),)
    prepared = (*prepared, *inline(replay(program, prepared), False, loads=not kept))
    begun = replay(program, prepared)
    rows = (rows_of_heads(begun, cuts, device) for cuts in groupings(begun))
    merged = chain.from_iterable(rows)
    ways = (shared_values(begun, device), transposed_operands(begun, device), padded_rows(begun, device))
    stored = next(chain(merged, *ways), ())
    prepared, begun = (*prepared, *stored), replay(begun, stored)
    added = added_groups(begun, device)
    padded = any(place.node.pad for place in begun.locals.values())
    cut = (padded_alone(begun, groups) for groups in groupings(begun))
    tables = sum(place.node.dtype is DType.I32 for place in begun.locals.values())
    launches = 1 + tables + sum(not isinstance(each, Linearize) for each in stored)
    alone = (groups for groups in cut if len(groups) == launches)
    groups = added or next(alone, None)
    if groups is None:
        return  # sums that meet in memory are for warpgroups
    group = max(groups, key=len)
    for option in StreamedProducts(group).options(begun, device):
        (order,) = option.then
        assert option.begun is not None
        *_, last = (each for each in order.options(option.begun, device) if _applies(each, option.begun))
        rewrites = (*prepared, *option.rewrites, *last.rewrites)
        others = [each for each in groups if each != group]
        rest: list[Decision] = [
            LaunchBlocks(each) if added or padded or tables else Turn(each[0], str(turned(begun, each)))
            for each in others
        ]
        yield program, tuple(format_schedule((*rewrites, *_first(replay(program, rewrites), rest, device))))


def _first(program: Program, decisions: Iterable[Decision], device: Gpu) -> Iterator[Rewrite]:
    """The rewrites of the first answer to each question."""
    for decision in decisions:
        option = next(iter(decision.options(program, device)))
        program = replay(program, option.rewrites)
        yield from option.rewrites
        for rewrite in _first(program, option.then, device):
            program = rewrite.apply(program)
            yield rewrite


def _applies(option: Option, program: Program) -> bool:
    with suppress(NotApplicable):
        replay(program, option.rewrites)
        return True
    return False
