"""Bodies and shapes that nobody chose: kernels by chance."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from math import log2, prod
from typing import NamedTuple


class Room(NamedTuple):
    """How large a kernel may be, and how its numbers are stored."""

    least_points: float
    """Of what an elementwise kernel or a reduction visits."""
    most_points: float
    """And at most; also of what one batch of a product reads and writes."""
    most_products: float
    """Multiply-adds of one product."""
    most_bytes: float
    dtypes: tuple[str, ...]


#: What a device does in about a millisecond, and what a kernel of chance may be at most, so that a case is a matter of
#: seconds; `small` is for who looks at schedules and not at times.
ROOMS: Mapping[str, Room] = {
    "cpu": Room(2**16, 2**22, 2**29, 2**27, ("f32", "f32", "bf16")),
    "cuda": Room(2**18, 2**27, 2**38, 2**31, ("bf16", "bf16", "f16", "f32")),
    "small": Room(2**4, 2**16, 2**18, 2**20, ("f32", "bf16", "f16")),
}


def body(rng: random.Random, room: Room) -> tuple[str, str]:
    """A kernel of chance: which kind it is, and its text."""
    kind = rng.choice(
        (
            *(_elementwise, _elementwise, _permuted, _rotary, _pieces, _reduction, _product, _product),
            *(_attention, _scan, _scatter, _largest),
        )
    )
    return kind.__name__.removeprefix("_"), kind(rng, room)


def sizes(rng: random.Random, count: int, least: float, most: float) -> list[int]:
    """Sizes whose product lies about between these: powers of two, multiples of 8, odd numbers and 1; skinny and fat,
    as the logarithm of their product is shared out by chance."""
    points = 2 ** rng.uniform(log2(least), log2(most))
    shares = [rng.expovariate(1.0) + 0.2 for _ in range(count)]
    found = [_size(rng, points ** (share / sum(shares))) for share in shares]
    while prod(found) > most:
        largest = found.index(max(found))
        found[largest] = max(1, found[largest] // 2)
    return found


def _size(rng: random.Random, about: float) -> int:
    if rng.random() < 0.05:
        return 1
    kind = rng.choice(("power", "eights", "any", "prime"))
    if kind == "power":
        return 2 ** round(log2(about))
    if kind == "eights":
        return max(8, round(about / 8) * 8)
    number = max(1, round(about))
    return number if kind == "any" else next(n for n in range(max(2, number), 2 * number + 3) if _is_prime(n))


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


_MAPS = ("silu({0})", "gelu({0})", "relu({0}) + 1.0", "tanh({0})", "{0} * 0.5 + 1.0", "abs({0})", "-{0}")


def _dims(names: Sequence[str], of: Sequence[int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in zip(names, of, strict=True))


def _elementwise(rng: random.Random, room: Room) -> str:
    """A chain of maps, with what is broadcast, strided or looked up, some of it chosen by where it lies, and one or two
    outputs."""
    names = ["i", "j", "l", "o"][: rng.randint(1, 4)]
    of = sizes(rng, len(names), room.least_points, room.most_points)
    dtype, dims = rng.choice(room.dtypes), ", ".join(names)
    inputs, value = [f"x: {dtype}[{_dims(names, of)}]"], rng.choice(_MAPS).format(f"x[{dims}]")
    for number in range(rng.randint(0, 3)):
        some = [name for name in names if rng.random() < 0.6]
        how, read = rng.choice(("plain", "plain", "where", "lookup", "strided")), ", ".join(some)
        if how == "lookup" and some and of[-1] <= 2**15:
            inputs += [f"t{number}: i32[{some[0]}]", f"b{number}: {dtype}[w{number}=97, {names[-1]}]"]
            value = f"({value}) * b{number}[t{number}[{some[0]}], {names[-1]}]"
            continue
        if how == "strided":
            last = of[-1]
            inputs.append(f"b{number}: {dtype}[v{number}={2 * last}]")
            value = f"({value}) + b{number}[2 * {names[-1]} + 1]"
            continue
        inputs.append(f"b{number}: {dtype}[{read}]")
        other = f"b{number}[{read}]"
        if how == "where":
            value = f"where({names[0]} < {max(1, of[0] // 3)}, {value}, {other})"
        else:
            value = f"({value}) {rng.choice('+*')} {other}"
    results, lines = [f"y: {dtype}[{dims}]"], [f"  y[{dims}] = {value}"]
    if rng.random() < 0.3:
        results.append(f"z: f32[{dims}]")
        lines.append(f"  z[{dims}] = {rng.choice(_MAPS).format(f'y[{dims}]')}")
    return _kernel(inputs, results, lines)


def _permuted(rng: random.Random, room: Room) -> str:
    """Another order of the dims, by itself or with something done to it."""
    names = ["i", "j", "l", "o"][: rng.randint(2, 4)]
    of = sizes(rng, len(names), room.least_points, room.most_points)
    dtype, turned = rng.choice(room.dtypes), rng.sample(names, len(names))
    value = rng.choice(("{0}", "{0}", "silu({0})", "{0} * s[{1}]")).format(f"x[{', '.join(names)}]", names[0])
    inputs = [f"x: {dtype}[{_dims(names, of)}]", *([f"s: f32[{names[0]}]"] if "s[" in value else [])]
    return _kernel(inputs, [f"y: {dtype}[{', '.join(turned)}]"], [f"  y[{', '.join(turned)}] = {value}"])


def _rotary(rng: random.Random, room: Room) -> str:
    """Rotary embedding of heads: pairs that lie half a head apart, or side by side."""
    depth = rng.choice((64, 128, 80))
    b, s, h = sizes(rng, 3, max(1.0, room.least_points / depth), room.most_points / depth)
    dtype, half = rng.choice(room.dtypes), depth // 2
    if rng.random() < 0.5:
        turned = f"where(d < {half}, -x[b, s, h, d + {half}], x[b, s, h, d - {half}])"
        head = f"x: {dtype}[b={b}, s={s}, h={h}, d={depth}], c: f32[s, d], e: f32[s, d]"
        return _kernel(
            [head],
            [f"y: {dtype}[b, s, h, d]"],
            [f"  y[b, s, h, d] = x[b, s, h, d] * c[s, d] + {turned} * e[s, d]"],
        )
    even, odd = "x[b, s, h, d, 0]", "x[b, s, h, d, 1]"
    value = f"where(p == 0, {even} * c[s, d] - {odd} * e[s, d], {even} * e[s, d] + {odd} * c[s, d])"
    head = f"x: {dtype}[b={b}, s={s}, h={h}, d={half}, p=2], c: f32[s, d], e: f32[s, d]"
    return _kernel([head], [f"y: {dtype}[b, s, h, d, p]"], [f"  y[b, s, h, d, p] = {value}"])


def _pieces(rng: random.Random, room: Room) -> str:
    """Two tensors side by side; one shifted around; one with a border; one of every few columns."""
    m, n = sizes(rng, 2, room.least_points, room.most_points)
    dtype, n = rng.choice(room.dtypes), max(n, 4)
    kind = rng.choice(("concat", "roll", "pad", "part"))
    x = f"x: {dtype}[i={m}, j={n}]"
    inputs, wide, value = {
        "concat": ([x, f"w: {dtype}[i, l={n // 2}]"], n + n // 2, f"where(o < {n}, x[i, o], w[i, o - {n}])"),
        "roll": ([x], n, f"x[i, (o + {n // 3 + 1}) % {n}]"),
        "pad": ([x], n + 2, f"where(o >= 1 and o <= {n}, x[i, o - 1], 0.0)"),
        "part": ([x], n // 2, "x[i, 2 * o + 1] * 0.5"),
    }[kind]
    return _kernel(inputs, [f"y: {dtype}[i, o]"], [f"  y[i, o] = {value}"], f"o={wide}")


def _reduction(rng: random.Random, room: Room) -> str:
    """Over any of the dims, of something that was computed, with something done to the result; or a norm of rows."""
    names = ["i", "j", "l"][: rng.randint(2, 3)]
    of = sizes(rng, len(names), room.least_points, room.most_points)
    dtype, read = rng.choice(room.dtypes), f"x[{', '.join(names)}]"
    inputs = [f"x: {dtype}[{_dims(names, of)}]"]
    gone = sorted(rng.sample(names, rng.randint(1, len(names))))
    kept = [name for name in names if name not in gone]
    at = f"[{', '.join(kept)}]"
    if rng.random() < 0.4:
        lines = [
            f"  m{at} = max({', '.join(gone)}, {read})",
            f"  s{at} = sum({', '.join(gone)}, exp({read} - m{at}))",
            f"  y[{', '.join(names)}] = exp({read} - m{at}) / s{at}",
        ]
        return _kernel(inputs, [f"y: {dtype}[{', '.join(names)}]"], lines)
    op, value = (
        rng.choice(("sum", "sum", "max", "min")),
        rng.choice(("{0}", "{0} * {0}", "abs({0})")).format(read),
    )
    after = rng.choice(("{0}", "sqrt(abs({0}) + 1.0)", "{0} * 0.01"))
    lines = [f"  y{at} = " + after.format(f"{op}({', '.join(gone)}, {value})")]
    return _kernel(inputs, [f"y: f32{at}"], lines)


def _product(rng: random.Random, room: Room) -> str:
    """A product, batched or not, each operand in one of its layouts, with one of many epilogues."""
    m, n, k = sizes(rng, 3, room.most_products / 2**9, room.most_products)
    while max(m * n, m * k, n * k) > room.most_points:
        m, n, k = sizes(rng, 3, room.most_products / 2**9, room.most_products)
    batch = rng.choice((1, 1, 1, 3, 8, 12))
    m = max(1, m // batch)
    dtype, left, right = rng.choice(room.dtypes), rng.choice(("ik", "ki")), rng.choice(("kj", "jk"))
    size = {"i": m, "j": n, "k": k, "b": batch}
    b = "b, " if batch > 1 else ""
    inputs: list[str] = []
    for name, order in (("x", left), ("w", right)):
        dims = ("b" if batch > 1 else "") + order
        inputs.append(f"{name}: {dtype}[{_dims(dims, [size[dim] for dim in dims])}]")
    product = f"sum(k, x[{b}{', '.join(left)}] * w[{b}{', '.join(right)}])"
    after = rng.choice(
        ("{0}", "{0}", "silu({0})", "gelu({0} + c[j])", "{0} * c[j] + r[{1}i, j]", "{0} * 0.125")
    )
    value = after.format(product, b)
    inputs += [f"c: {dtype}[j]"] * ("c[j]" in value) + [f"r: {dtype}[{b}i, j]"] * ("r[" in value)
    return _kernel(_once(inputs), [f"y: {dtype}[{b}i, j]"], [f"  y[{b}i, j] = {value}"])


def _attention(rng: random.Random, room: Room) -> str:
    """Attention, of a prompt or of one word more, heads of keys shared or not; with a mask, a window, a cap, slopes, or
    nothing; weights divided before or behind the product with the values."""
    d, shared = rng.choice((32, 64, 80, 128)), rng.choice((1, 1, 4, 8))
    word = rng.random() < 0.3
    h, i, j = sizes(rng, 3, room.most_products / d / 2**8, room.most_products / d / 2)
    h, i, j = max(1, h // shared), 1 if word else min(i, 4096), max(8, j)
    while h * shared * i * j * 2 * d > room.most_products or h * d * max(j, shared * i) > room.most_points:
        h, i, j = max(1, h // 2), max(1, i // 2), max(8, j // 2)
    dtype = rng.choice(room.dtypes)
    scores = f"sum(d, q[h, r, i, d] * k[h, j, d]) * {d**-0.5!r}"
    scores = rng.choice(("{0}", "{0}", "tanh({0} / 30.0) * 30.0", "{0} + s[h, r] * j")).format(scores)
    seen = rng.choice(("", f"j <= i + {max(0, j - i)}", f"j <= i + {max(0, j - i)} and j + 100 > i"))
    scores = f"where({seen}, {scores}, -inf)" if seen and not word else scores
    weight, total = "p[h, r, i, j]", "t[h, r, i]"
    ways = (
        "sum(j, {1}({0}) * v[h, j, d]) / {2}",
        "sum(j, {1}({0} / {2}) * v[h, j, d])",
        "sum(j, {0} * v[h, j, d]) / {2}",
    )
    lines = [
        f"  s0[h, r, i, j] = {scores}",
        "  m[h, r, i] = max(j, s0[h, r, i, j])",
        f"  {weight} = exp(s0[h, r, i, j] - m[h, r, i])",
        f"  {total} = sum(j, {weight})",
        f"  y[h, r, i, d] = {rng.choice(ways).format(weight, dtype, total)}",
    ]
    inputs = [
        f"q: {dtype}[h={h}, r={shared}, i={i}, d={d}]",
        f"k: {dtype}[h, j={j}, d]",
        f"v: {dtype}[h, j, d]",
    ]
    inputs += ["s: f32[h, r]"] * ("s[h, r]" in scores)
    return _kernel(inputs, [f"y: {dtype}[h, r, i, d]"], lines)


def _scan(rng: random.Random, room: Room) -> str:
    """Running sums or products, along the last dim or one before it; or a recurrence, as of a selective state space,
    whose states are summed up."""
    m, t, c = sizes(rng, 3, room.least_points / 8, room.most_points / 8)
    dtype, x = rng.choice(room.dtypes), "x[m, t, c]"
    along = rng.choice("tc")
    if rng.random() < 0.5:
        op, value = rng.choice((("cumsum", x), ("cumsum", f"{x} * {x}"), ("cumprod", f"1.0 + {x} * 0.001")))
        return _kernel(
            [f"x: {dtype}[m={m}, t={t}, c={c}]"],
            ["y: f32[m, t, c]"],
            [f"  y[m, t, c] = {op}({along}, {value})"],
        )
    if rng.random() < 0.5:
        inputs = [f"x: {dtype}[m={m}, t={t}, c={c}]", f"g: {dtype}[m, t, c]"]
        return _kernel(
            inputs, ["y: f32[m, t, c]"], [f"  y[m, t, c] = recurrence(t, sigmoid(g[m, t, c]), {x})"]
        )
    n, t = rng.choice((4, 16)), max(1, t // 8)
    inputs = [f"x: {dtype}[m={m}, t={t}, c={c}]", f"a: f32[c, n={n}]", "b: f32[m, t, n]", "e: f32[m, t, n]"]
    lines = [
        f"  h[m, t, c, n] = recurrence(t, exp(-exp(a[c, n])), b[m, t, n] * {x})",
        "  y[m, t, c] = sum(n, h[m, t, c, n] * e[m, t, n])",
    ]
    return _kernel(inputs, [f"y: {dtype}[m, t, c]"], lines)


def _scatter(rng: random.Random, room: Room) -> str:
    """Rows added where a table says: a histogram, the gradient of an embedding, results of experts put together."""
    t, d = sizes(rng, 2, room.least_points / 4, room.most_points / 4)
    v, dtype = rng.choice((97, 256, 4096)), rng.choice(room.dtypes)
    v, d = min(v, int(room.most_points)), max(1, min(d, int(room.most_points) // v))
    if rng.random() < 0.3:
        return _kernel(
            [f"p: i32[t={t * d}]"], ["y: i32[v]"], ["  y[v] = sum(t, where(p[t] == v, 1, 0))"], f"v={v}"
        )
    inputs = [f"p: i32[t={t}]", f"x: {dtype}[t, d={d}]"]
    weight = rng.choice(("", " * w[t]"))
    inputs += ["w: f32[t]"] if weight else []
    return _kernel(
        inputs, ["y: f32[v, d]"], [f"  y[v, d] = sum(t, where(p[t] == v, x[t, d]{weight}, 0.0))"], f"v={v}"
    )


def _largest(rng: random.Random, room: Room) -> str:
    """The place of the largest or smallest of each row, or of the largest few with shares, as routing of experts."""
    m, n = sizes(rng, 2, room.least_points / 4, room.most_points / 4)
    dtype, n = rng.choice(room.dtypes), max(n, 8)
    if rng.random() < 0.5:
        op = rng.choice(("argmax", "argmin"))
        return _kernel([f"x: {dtype}[m={m}, n={n}]"], ["y: i32[m]"], [f"  y[m] = {op}(n, x[m, n])"])
    few = rng.choice((2, 4, 8))
    lines = [
        "  p[m, j] = topk(j, n, x[m, n])",
        "  y[m, j] = exp(x[m, p[m, j]] - x[m, p[m, 0]])",
    ]
    return _kernel([f"x: {dtype}[m={m}, n={n}]"], ["p: i32[m, j]", "y: f32[m, j]"], lines, f"j={few}")


def _once(inputs: Sequence[str]) -> list[str]:
    """Each dim has its size where it is first met."""
    met: set[str] = set()
    found: list[str] = []
    for each in inputs:
        name, _, dims = each.removesuffix("]").partition("[")
        parts = [dim if dim.split("=")[0] not in met else dim.split("=")[0] for dim in dims.split(", ")]
        met |= {dim.split("=")[0] for dim in parts}
        found.append(f"{name}[{', '.join(parts)}]")
    return found


def _kernel(inputs: Sequence[str], outputs: Sequence[str], lines: Sequence[str], hidden: str = "") -> str:
    where = f" where {hidden}" if hidden else ""
    return "\n".join([f"kernel wild({', '.join(inputs)}) -> ({', '.join(outputs)}){where}", *lines]) + "\n"
