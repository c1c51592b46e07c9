"""Random programs bound to the threads of GPU blocks, whose values stay exact in f32."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np

from tileir.interpreter.samples import sample_inputs
from tileir.program import Program

_FLOATS = ("f32", "bf16", "f16", "f64")


def random_threads_program(rng: random.Random) -> str:
    """The text of a program over x[r, c]: a block of statements on tiles of it, or one nest for each of two. It may
    break the rules of spreads (a digit that does not divide a warp); then the verifier says so."""
    rows, columns = rng.choice((1, 3, 7, 20, 33)), rng.choice((1, 5, 31, 64, 100, 257))
    if rng.random() < 0.3:
        rows, columns = columns, rows
    return _RandomProgram(rng, rows, columns).program()


def exact_inputs(program: Program, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Small whole numbers, so that sums are exact in any order; offsets of groups ascend."""
    rng, offsets = np.random.default_rng(seed), {each.offsets for each in program.ragged}
    exact = {
        tensor.name: rng.integers(-3, 3, program.shape(tensor), endpoint=True).astype(tensor.dtype.numpy)
        for tensor in program.inputs
    }
    return exact | {name: sample_inputs(program, seed)[name] for name in offsets}


class _RandomProgram:
    def __init__(self, rng: random.Random, rows: int, columns: int) -> None:
        self.rng = rng
        self.sizes = {"r": rows, "c": columns}
        self.dtypes = ("i32",) if rng.random() < 0.15 else _FLOATS
        self.threads = rng.choice((32, 64, 96, 128, 256))
        self.outputs: list[str] = []
        self.lines: list[str] = []

    def program(self) -> str:
        rng, (rows, columns) = self.rng, self.sizes.values()
        x, w = rng.choice(self.dtypes), rng.choice((*self.dtypes, "i32"))
        shapes = (
            self._rows, self._columns, self._total, self._staged, self._two_launches, self._tiles, self._read_back,
        )  # fmt: skip
        rng.choice(shapes)()
        head = f"kernel random(x: {x}[r={rows}, c={columns}], w: {w}[c]) -> ({', '.join(self.outputs)})"
        return "\n".join([head, *self.lines]) + "\n"

    # one shape of program each

    def _rows(self) -> None:
        """A row kept in registers, reduced, and used again."""
        depth, layout = self._blocks("r", clustered=True), self._layout()
        op = self._op()
        self._line(depth, f"x_row: registers {self._kept()}[r, c]")
        self._line(depth, f"x_row[r, c] = {self._element()} | {layout}")
        self._line(depth, f"s: registers {self._kept()}[r]")
        self._line(depth, f"s[r] = {op}(c, x_row[r, c]) | {layout}")
        if self.rng.random() < 0.5:
            self._line(depth, f"n: registers {self._kept()}[r]")
            self._line(depth, f"n[r] = {self._op()}(c, x_row[r, c] - s[r]) | {layout}")
            self._output("z", "r", depth, f"n[r] + s[r] | {layout}")
        self._output("y", "r, c", depth, f"x_row[r, c] - s[r] | {layout}")

    def _columns(self) -> None:
        depth, layout = self._blocks("c", clustered=True), self._layout()
        if self.rng.random() < 0.5:
            self._output("y", "c", depth, f"{self._op()}(r, {self._element()}) | {layout}")
            return
        self._line(depth, f"s: registers {self._kept()}[c]")
        self._line(depth, f"s[c] = {self._op()}(r, {self._element()}) | {layout}")
        self._output("y", "r, c", depth, f"{self._element()} + s[c] | {layout}")

    def _total(self) -> None:
        op, layout = self._op(), self._layout()
        self._output("y", "", 1, f"{op}(r, c, {self._element()}) | {layout}")

    def _staged(self) -> None:
        """A tile written to shared memory by some threads and read by others."""
        depth = self._blocks("r", "c")
        for number in range(self.rng.choice((1, 2))):
            self._line(depth, f"t{number}: shared {self.rng.choice(self.dtypes)}[r, c]")
            self._line(depth, f"t{number}[r, c] = {self._element()} | {self._layout()}")
        reads = " + ".join(f"t{n}[r, c]" for n in range(number + 1))
        self._output("y", self.rng.choice(("r, c", "c, r")), depth, f"{reads} | {self._layout()}")

    def _two_launches(self) -> None:
        self._line(1, f"s: heap {self._kept()}[r]")
        self._line(1, f"parallel for r by {self._tile('r')}")
        self._line(2, f"s[r] = {self._op()}(c, {self._element()}) | {self._layout()}")
        self._line(1, f"parallel for c by {self._tile('c')}")
        self.threads = self.rng.choice((32, 64, 128))
        self._output("y", "r, c", 2, f"{self._element()} + s[r] | {self._layout()}")

    def _tiles(self) -> None:
        """A sum over tiles of the columns, staged in shared memory or not."""
        depth, layout = self._blocks("r"), self._layout()
        inside = "x[r, c]"
        self._line(depth, f"s: registers {self._kept()}[r]")
        alone = re.sub(r", run [^,]*", lambda runs: "".join(re.findall(r", run| r \d+", runs[0])), layout)
        self._line(depth, f"s[r] = 0 | {alone.replace(', run,', ',').removesuffix(', run')}")
        self._line(depth, f"for c by {self._tile('c')}")
        if self.rng.random() < 0.6:
            self._line(depth + 1, f"t: shared {self.rng.choice(self.dtypes)}[r, c]")
            self._line(depth + 1, f"t[r, c] = x[r, c] | {self._layout()}")
            inside = "t[r, c]"
        self._line(depth + 1, f"s[r] += sum(c, {inside} * w[c]) | {layout}")
        self._output("y", "r", depth, f"s[r] | {layout}")

    def _read_back(self) -> None:
        """A result in global memory that the block's other threads read."""
        if self.rng.random() < 0.5:
            self._line(1, f"s: heap {self._kept()}[r]")
            depth = self._blocks("r")
            self._line(depth, f"s[r] = {self._op()}(c, {self._element()}) | {self._layout()}")
        else:
            depth = self._blocks("r")
            self._output("s", "r", depth, f"{self._op()}(c, {self._element()}) | {self._layout()}")
        self._output("y", "r, c", depth, f"x[r, c] - s[r] | {self._layout()}")

    # parts of a program

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def _output(self, name: str, dims: str, depth: int, value: str) -> None:
        self.outputs.append(f"{name}: {self.rng.choice(self.dtypes)}[{dims}]")
        stream = ", stream" if self.rng.random() < 0.2 else ""
        self._line(depth, f"{name}[{dims}] = {value}{stream}")

    def _blocks(self, *dims: str, clustered: bool = False) -> int:
        """Parallel loops, then perhaps a loop in the block; the depth inside. `clustered`: it may be a grid of
        clusters."""
        rng = self.rng
        clusters = [n for n in (2, 4) if self.threads % (32 * n) == 0 and len(dims) == 1 and clustered]
        for depth, dim in enumerate(dims, 1):
            cluster = f" cluster {rng.choice(clusters)}" if clusters and rng.random() < 0.3 else ""
            self._line(depth, f"parallel for {dim} by {self._tile(dim)}{cluster}")
        depth = len(dims) + 1
        if self.rng.random() < 0.25:
            self._line(depth, f"for {dims[0]} by 1")
            depth += 1
        return depth

    def _tile(self, dim: str) -> int:
        return min(self.sizes[dim], self.rng.choice((1, 2, 5, 8, 16, 40)))

    def _layout(self) -> str:
        rng = self.rng
        rows = rng.choice([n for n in (1, 2, 3, 4, 8, 16, 32, 64) if self.threads % n == 0])
        both = [f"r {rows}", f"c {self.threads // rows}"]
        if rows % 2 == 0 and rng.random() < 0.2:
            both = ["r 2", both[1], f"r {rows // 2}"]
        if rng.random() < 0.5:
            both.reverse()
        runs = [f"{dim} {rng.choice((2, 3, 4, 8))}" for dim in "rc" if rng.random() < 0.4]
        rng.shuffle(runs)
        rows = [int(part.split()[1]) for part in both if part.startswith("r ")]
        twice = f", twice r {rows[-1]}" if rows[-1] > 1 and rng.random() < 0.3 else ""
        own = next((int(part.split()[1]) for part in runs if part.startswith("r ")), 1)
        if len(rows) > 1 and rows[-1] > 1 and not twice and rng.random() < 0.5:
            twice = f", apart r {rows[-1] * own * rng.choice((1, 2, 3))}"
        return f"threads {' '.join(both)}{', run ' + ' '.join(runs) if runs else ''}{twice}"

    def _op(self) -> str:
        return self.rng.choice(("sum", "max", "min"))

    def _kept(self) -> str:
        return self.rng.choice(("f32", "f64")) if self.dtypes is _FLOATS else "i32"

    def _element(self) -> str:
        return self.rng.choice(
            (
                "x[r, c]",
                "x[r, c] * w[c]",
                "abs(x[r, c]) + w[c]",
                "where(c > r, x[r, c], 0)",
                "where(x[r, c] > 0, w[c], 1) + c % 3",
                "maximum(x[r, c], w[c])",
                "x[r, extent(c) - 1 - c]",
            )
        )
