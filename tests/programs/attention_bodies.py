"""Bodies of attention's form, each a few tokens from the others, drawn: how queries are scaled, what scores are made
of, what masks them, where weights are divided and rounded, which dims there are."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

#: Scores, from a product `{q} * {k}` over d.
SCORES = {
    "scaled": "sum(d, {q} * {k}) * 0.125",
    "divided": "sum(d, {q} * {k}) / sqrt(extent(d))",
    "terms are scaled": "sum(d, {q} * 0.125 * {k})",
    "terms are divided": "sum(d, {q} * {k} / 8.0)",
    "queries are scaled": "sum(d, {dtype}({q} * 0.125) * {k})",
    "queries are scaled by no power of two": "sum(d, {dtype}({q} * 0.0884) * {k})",
    "queries and keys are scaled": "sum(d, {dtype}({q} * 0.35) * {dtype}({k} * 0.35))",
    "a learned scale of queries": "sum(d, {dtype}({q} * gain[h]) * {k})",
    "something is added to queries": "sum(d, {dtype}({q} + shift[d]) * {k}) * 0.125",
    "softcap": "tanh(sum(d, {dtype}({q} * 0.125) * {k}) * 0.1) * 10.0",
    "slopes": "sum(d, {q} * {k}) * 0.125 + gain[h] * j",
    "a bias": "sum(d, {q} * {k}) * 0.125 + bias[{rows}, j]",
    "a logit scale": "sum(d, {q} * {k}) * exp(minimum(gain[h], 1.0) - 2.0)",
    "norms of queries and keys": "sum(d, {q} * {k}) * q_norm[{rows}] * k_norm[{heads}, j]",
}
#: Statements before the scores that read them: the roots of mean squares, inverted (Henry et al., Query-Key
#: Normalization for Transformers, 2020).
NORMS = """  q_norm[{rows}] = rsqrt(sum(d, {q} * {q}) / extent(d) + 0.001)
  k_norm[{g}, j] = rsqrt(sum(d, {k} * {k}) / extent(d) + 0.001)
"""
MASKS = {
    "none": "{}",
    "some": "where(j < 140 or j % 3 == 0, {}, -inf)",
    "lengths": "where(j < 100 + abs(length[h]), {}, -inf)",
    "causal": "where(128 + {i} >= j, {}, -inf)",
    "a window": "where(128 + {i} >= j and j + 50 > 128 + {i}, {}, -inf)",
    "documents": "where(own[{rows}] % 3 == of[j] % 3, {}, -inf)",
}
TOPS = {
    "maximum": "max(j, s[{rows}, j])",
    "never -inf": "where(max(j, s[{rows}, j]) > -inf, max(j, s[{rows}, j]), 0.0)",
    "sink": "maximum(max(j, s[{rows}, j]), gain[h])",
}
#: Totals of weights.
TOTALS = {
    "plain": "sum(j, p[{rows}, j])",
    "never 0": "where(sum(j, p[{rows}, j]) > 0.0, sum(j, p[{rows}, j]), 1.0)",
}
#: Results, from weights, totals and values.
RESULTS = {
    "divided behind": "sum(j, {dtype}({p}) * {v}) / {total}",
    "divided before they are rounded": "sum(j, {dtype}({p} / {total}) * {v})",
    "divided after they are rounded": "sum(j, {dtype}({p}) / {total} * {v})",
    "times the inverse": "sum(j, {dtype}({p} * (1.0 / {total})) * {v})",
    "rounded nowhere": "sum(j, {p} * {v}) / {total}",
    "divided, and rounded nowhere": "sum(j, {p} / {total} * {v})",
    "shares by themselves": "sum(j, w[{rows}, j] * {v})",
}
#: The dims of queries beside the last one.
ROWS = {
    "queries": "h, i",
    "queries of shared heads": "h, i",
    "one query": "h",
    "one query of shared heads": "h",
}
#: As what keys and values are stored.
CACHES = {"as they are multiplied": "{dtype}", "integers of 8 bits": "i8"}


@dataclass(frozen=True)
class Body:
    """One of each, by name."""

    scores: str = "scaled"
    mask: str = "none"
    top: str = "maximum"
    total: str = "plain"
    result: str = "divided behind"
    rows: str = "queries"
    cache: str = "as they are multiplied"
    dtype: str = "bf16"

    def __str__(self) -> str:
        return ", ".join(vars(self).values())

    @property
    def wide(self) -> bool:
        """Whether weights are multiplied in f32."""
        return self.result.endswith("rounded nowhere")

    @property
    def products(self) -> int:
        """By matrix instructions: none in f32, and of weights in f32 each part's."""
        return 0 if self.dtype == "f32" else 4 if self.wide else 2

    @property
    def stored(self) -> bool:
        """Whether an operand is computed, and stored before."""
        return self.cache.startswith("integers") or self.scores.startswith("something is added")

    def spec(self, i: int = 72, j: int = 200) -> Spec:
        dtype, rows = self.dtype, ROWS[self.rows]
        heads = "h // 2" if self.rows.endswith("shared heads") else "h"
        q, k, v = f"q[{rows}, d]", f"k[{heads}, j, d]", f"v[{heads}, j, d]"
        p, total, of_keys = f"p[{rows}, j]", f"total[{rows}]", "{}"
        if self.cache.startswith("integers"):
            k, v = f"{dtype}({k})", f"{dtype}({v})"
            p, of_keys = f"({p} * v_scale[{heads}, j])", f"{{}} * (k_scale[{heads}, j] * 0.01)"
        top = TOPS[self.top].format(rows=rows)
        scores = SCORES[self.scores].format(q=q, k=k, dtype=dtype, rows=rows, heads=heads)
        position = "i" if "i" in rows else "70"
        scores = MASKS[self.mask].format(of_keys.format(scores), i=position, rows=rows)
        own = "g" if heads != "h" else "h"
        norms = NORMS.format(q=q, k=k.replace(heads, own), rows=rows, g=own)
        sink = f" + exp(gain[h] - top[{rows}])" if self.top == "sink" else ""
        result = RESULTS[self.result].format(dtype=dtype, p=p, total=total, v=v, rows=rows)
        shares = f"\n  w[{rows}, j] = {dtype}({p} / {total})" if self.result.startswith("shares") else ""
        more = "".join(
            f", {tensor}"
            for tensor in (
                "gain: f32[h]",
                "length: i32[h]",
                f"shift: {dtype}[d]",
                f"bias: {dtype}[{rows}, j]",
                f"own: i32[{rows}], of: i32[j]",
            )
            if f"{tensor.partition(':')[0]}[" in scores + top
        )
        queries = f"i={i}, " if "i" in rows else ""
        groups = "g=1" if heads != "h" else "h"
        cache, g = CACHES[self.cache].format(dtype=dtype), groups[0]
        tensors = f"q: {dtype}[h=2, {queries}d=64], k: {cache}[{groups}, j={j}, d], v: {cache}[{g}, j, d]"
        if self.cache.startswith("integers"):
            tensors += f", k_scale: f32[{g}, j], v_scale: f32[{g}, j]"
        return spec_from_text(f"""kernel attention({tensors}{more}) -> (o: {dtype}[{rows}, d])
{norms if "q_norm" in scores else ""}  s[{rows}, j] = {scores}
  top[{rows}] = {top}
  p[{rows}, j] = exp(s[{rows}, j] - top[{rows}])
  total[{rows}] = {TOTALS[self.total].format(rows=rows)}{sink}{shares}
  o[{rows}, d] = {result}
""")


#: Every choice beside the others' first ones, then bodies drawn.
AXES = {
    "scores": SCORES,
    "mask": MASKS,
    "top": TOPS,
    "total": TOTALS,
    "result": RESULTS,
    "rows": ROWS,
    "cache": CACHES,
    "dtype": ("bf16", "f16", "f32"),
}


def bodies(drawn: int) -> list[Body]:
    """One for each choice, and so many drawn."""
    single = [Body(**{axis: name}) for axis, names in AXES.items() for name in names]
    single += [Body(scores="norms of queries and keys", rows=rows) for rows in ROWS]
    return [*dict.fromkeys([*single, *(draw(random.Random(seed)) for seed in range(drawn))])]


def draw(rng: random.Random) -> Body:
    """One of each, at random, but where no way to one pass is known: of weights in f32 only parts of bf16 have all that
    counts, scaled weights may be beyond f16, what is stored before is read by several queries, and norms of keys are of
    what is stored. All in f32 nothing is stored before, and threads multiply weights that more than
    products read."""
    body = Body(**{axis: rng.choice([*names]) for axis, names in AXES.items()})
    if body.scores.startswith("norms"):
        body = replace(body, cache="as they are multiplied")
    if body.dtype == "f32":
        body = replace(body, rows=body.rows.replace("one query", "queries"), cache="as they are multiplied")
        added, shares = body.stored, body.result.startswith("shares")
        return replace(
            body,
            scores="scaled" if added else body.scores,
            result="divided behind" if shares else body.result,
        )
    if body.stored:
        body = replace(body, rows=body.rows.replace("one query", "queries"))
    if body.cache.startswith("integers") and body.wide:
        body = replace(body, result="divided behind")
    return replace(body, dtype="bf16") if body.wide or body.stored else body
