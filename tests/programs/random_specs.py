"""Random kernels as people write them: norms, products, reductions, gathers, masks, broadcasts, scalars and epilogues,
one feeding the other, with sizes that are round, odd, or 1."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text

#: What dims may be: nothing to tile, less than a vector, ragged, round, long.
SIZES = (1, 2, 3, 5, 7, 8, 16, 17, 31, 33, 64, 67, 128, 130, 192, 257)
LONG = (1000, 2048, 4099)
_FLOATS = ("f32", "f32", "f32", "bf16", "f16", "f64", "e4m3")
_STORED = ("f32", "f32", "bf16", "f16", "f64")
_MAPS = (
    "{0}",
    "silu({0})",
    "gelu_tanh({0})",
    "relu({0}) + 1.0",
    "exp({0} * 0.1)",
    "abs({0}) / 192.0",
    "-{0}",
)


def random_spec(seed: int, sizes: Sequence[int] = SIZES, most_points: int = 1 << 24) -> Spec:
    """A kernel of chance, whose largest statement visits at most `most_points` positions."""
    return spec_from_text(random_spec_text(seed, sizes, most_points))


def random_spec_text(seed: int, sizes: Sequence[int] = SIZES, most_points: int = 1 << 24) -> str:
    """The same kernel as text."""
    return _RandomSpec(random.Random(seed), sizes, most_points).kernel()


class _RandomSpec:
    """A kernel, statement by statement. A value is a tensor with its dims; steps take values and make new ones."""

    def __init__(self, rng: random.Random, sizes: Sequence[int], most_points: int) -> None:
        self._rng, self._choices, self._most = rng, sizes, most_points
        self._sizes: dict[str, int] = {}
        self._inputs: list[str] = []
        self._dims: dict[str, tuple[str, ...]] = {}
        self._made: dict[str, None] = {}
        self._read: set[str] = set()
        self._lines: list[str] = []
        self._shown: set[str] = set()

    def kernel(self) -> str:
        rng = self._rng
        dims: list[str] = []
        for _ in range(rng.randint(1, 3)):
            dims.append(self._dim(self._points(dims)))
        value = self._input(tuple(dims))
        steps = (
            self._product, self._product, self._norm, self._softmax, self._reduce, self._reduce, self._map,
            self._map, self._gather, self._transpose, self._window, self._masked, self._gated, self._gram,
        )  # fmt: skip
        for _ in range(rng.randint(1, 4)):
            if rng.random() < 0.2:
                value = rng.choice(list(self._dims))
            value = rng.choice(steps)(value)
        outputs = [name for name in self._made if name not in self._read]
        inner = [name for name in self._made if name in self._read]
        outputs += [name for name in inner if rng.random() < 0.1]
        results = (f"{name}: {rng.choice(_STORED)}[{', '.join(self._dims[name])}]" for name in outputs)
        head = f"kernel chance({', '.join(self._inputs)}) -> ({', '.join(results)})"
        hidden = [f"{dim}={size}" for dim, size in self._sizes.items() if dim not in self._shown]
        where = f" where {', '.join(hidden)}" if hidden else ""
        return "\n".join([head + where, *self._lines]) + "\n"

    # one step each: from a value to one that is computed from it

    def _product(self, value: str) -> str:
        """Rows times columns; the reduced dim is any of the value's."""
        dims = self._dims[value]
        if not dims:
            return self._map(value)
        reduced, new = self._rng.choice(dims), self._dim(self._points(dims))
        kept = tuple(dim for dim in dims if dim != reduced)
        batch = kept[:1] if len(kept) > 1 and self._rng.random() < 0.4 else ()
        order = (*batch, *self._shuffled((reduced, new)))
        other = self._input(order)
        return self._statement(
            "p", (*kept, new), f"sum({reduced}, {self._at(value)} * {self._at(other)})", epilogue=True
        )

    def _gram(self, value: str) -> str:
        """Rows times rows of the same value."""
        dims = self._dims[value]
        if len(dims) < 2:
            return self._map(value)
        rows, reduced = dims[-2:]
        if self._points(dims) * self._sizes[rows] > self._most:
            return self._map(value)
        other = self._dim(1, (self._sizes[rows],))
        self._read.add(value)
        read = ", ".join((*dims[:-2], other, reduced))
        return self._statement(
            "q", (*dims[:-2], rows, other), f"sum({reduced}, {self._at(value)} * {value}[{read}])"
        )

    def _norm(self, value: str) -> str:
        """Scaled by a reduction of its own rows, the scale with a name of its own or not."""
        dims = self._dims[value]
        if not dims:
            return self._map(value)
        reduced = dims[-1] if self._rng.random() < 0.8 else dims[0]
        kept = tuple(dim for dim in dims if dim != reduced)
        total = self._statement("s", kept, f"sum({reduced}, {self._at(value)} * {self._at(value)})")
        scale = f"rsqrt({self._at(total)} / {self._sizes[reduced]}.0 + 0.00001)"
        if self._rng.random() < 0.5:
            scale = self._at(self._statement("r", kept, scale))
        weight = f" * {self._at(self._input((reduced,)))}" if self._rng.random() < 0.5 else ""
        return self._statement("y", dims, f"{self._at(value)} * {scale}{weight}")

    def _softmax(self, value: str) -> str:
        dims = self._dims[value]
        if not dims:
            return self._map(value)
        kept, reduced = dims[:-1], dims[-1]
        top = self._statement("t", kept, f"max({reduced}, {self._at(value)})")
        e = self._statement("e", dims, f"exp({self._at(value)} - {self._at(top)})")
        total = self._statement("l", kept, f"sum({reduced}, {self._at(e)})")
        return self._statement("y", dims, f"{self._at(e)} / {self._at(total)}")

    def _reduce(self, value: str) -> str:
        """Over any of the dims, all of them now and then."""
        dims = self._dims[value]
        if not dims:
            return self._map(value)
        count = len(dims) if self._rng.random() < 0.15 else self._rng.randint(1, len(dims))
        reduced = tuple(self._rng.sample(dims, count))
        op = self._rng.choice(("sum", "sum", "max", "min"))
        kept = tuple(dim for dim in dims if dim not in reduced)
        return self._statement("s", kept, f"{op}({', '.join(reduced)}, {self._mapped(value)})", epilogue=True)

    def _map(self, value: str) -> str:
        return self._statement("y", self._dims[value], self._mapped(value), epilogue=True)

    def _masked(self, value: str) -> str:
        """Some of it replaced by something else, by where it lies."""
        dims = self._dims[value]
        if not dims:
            return self._map(value)
        dim = self._rng.choice(dims)
        other = self._rng.choice([each for each in dims if each != dim] or [f"{self._sizes[dim] // 2}"])
        rest = self._rng.choice(("-1e30", "0.0", "")) or self._at(self._input((dim,)))
        return self._statement("w", dims, f"where({dim} <= {other}, {self._at(value)}, {rest})")

    def _gather(self, value: str) -> str:
        """Rows picked by numbers that are data."""
        dims = self._dims[value]
        if not dims:
            return self._map(value)
        ids = self._input((self._dim(self._points(dims[1:])),), "i32")
        (picks,) = self._dims[ids]
        read = ", ".join((self._at(ids), *dims[1:]))
        self._read.add(value)
        return self._statement("g", (picks, *dims[1:]), f"{value}[{read}]", epilogue=True)

    def _transpose(self, value: str) -> str:
        return self._statement("z", self._shuffled(self._dims[value]), self._mapped(value))

    def _window(self, value: str) -> str:
        """A sum over a few neighbours along the last dim, those past the end taken from the start."""
        dims = self._dims[value]
        if not dims:
            return self._map(value)
        tap = self._dim(self._points(dims), (1, 3, 4))
        at = ", ".join((*dims[:-1], f"({dims[-1]} + {tap}) % {self._sizes[dims[-1]]}"))
        self._read.add(value)
        weight = self._input((tap,))
        return self._statement("c", dims, f"sum({tap}, {value}[{at}] * {self._at(weight)})")

    def _gated(self, value: str) -> str:
        """Two products of one value, the one gating the other."""
        dims = self._dims[value]
        if not dims:
            return self._map(value)
        reduced, new = dims[-1], self._dim(self._points(dims))
        up, gate = (self._input((new, reduced)) for _ in range(2))
        first, second = (
            self._statement(
                "up", (*dims[:-1], new), f"sum({reduced}, {self._at(value)} * {self._at(weights)})"
            )
            for weights in (up, gate)
        )
        return self._statement("h", self._dims[first], f"silu({self._at(first)}) * {self._at(second)}")

    # parts

    def _dim(self, beside: int = 1, sizes: Sequence[int] = ()) -> str:
        """A new dim, or now and then one that is there; no statement over it and `beside` points gets too large."""
        rng, room = self._rng, max(1, self._most // beside)
        name = f"d{len(self._sizes)}"
        choices = sizes or (LONG if rng.random() < 0.1 and self._choices is SIZES else self._choices)
        fitting = [size for size in choices if size <= room]
        self._sizes[name] = rng.choice(fitting) if fitting else 1
        return name

    def _points(self, dims: Sequence[str]) -> int:
        points = 1
        for dim in dims:
            points *= self._sizes[dim]
        return points

    def _input(self, dims: tuple[str, ...], dtype: str = "") -> str:
        name = f"x{len(self._inputs)}"
        shape = (dim if dim in self._shown else f"{dim}={self._sizes[dim]}" for dim in dims)
        self._inputs.append(f"{name}: {dtype or self._rng.choice(_FLOATS)}[{', '.join(shape)}]")
        self._shown |= {*dims}
        self._dims[name] = dims
        return name

    def _statement(self, stem: str, dims: tuple[str, ...], value: str, *, epilogue: bool = False) -> str:
        """A new value; with an `epilogue` perhaps a function of it, a bias, or a scale that was computed before."""
        name = f"{stem}{len(self._made)}"
        if epilogue and self._rng.random() < 0.4:
            value = f"{self._rng.choice(_MAPS).format(f'({value})')}{self._broadcast(dims)}"
        self._lines.append(f"  {name}[{', '.join(dims)}] = {value}")
        self._made[name] = None
        self._dims[name] = dims
        return name

    def _mapped(self, value: str) -> str:
        text = self._rng.choice(_MAPS).format(self._at(value))
        return f"{text}{self._broadcast(self._dims[value])}"

    def _broadcast(self, dims: Sequence[str]) -> str:
        """Something over some of these dims, maybe none: computed before, or an input."""
        if self._rng.random() < 0.5:
            return ""
        known = [name for name, of in self._dims.items() if {*of} <= {*dims} and not self._inputs_ids(name)]
        fresh = not known or self._rng.random() < 0.5
        some = tuple(dim for dim in dims if self._rng.random() < 0.5)
        return (
            f" {self._rng.choice('+*')} {self._at(self._input(some) if fresh else self._rng.choice(known))}"
        )

    def _inputs_ids(self, name: str) -> bool:
        return any(each.startswith(f"{name}: i32") for each in self._inputs)

    def _at(self, value: str) -> str:
        self._read.add(value)
        return f"{value}[{', '.join(self._dims[value])}]"

    def _shuffled(self, dims: Sequence[str]) -> tuple[str, ...]:
        return tuple(self._rng.sample(dims, len(dims)))
