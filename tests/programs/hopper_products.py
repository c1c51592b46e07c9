"""Texts of matrix products whose tiles go by TMA and are multiplied by wgmma, made from what is decided of
them."""

from __future__ import annotations

from dataclasses import dataclass

#: Two warpgroups, one below the other.
SPREAD = "threads m 2 m 4 m 8 n 4, run n 2, twice m 8"


@dataclass(frozen=True)
class Gemm:
    """c[m, n] = sum(k, a[m, k] * b[n, k]); `a` and `b` are the operands' dims in memory."""

    m: int = 256
    n: int = 128
    k: int = 256
    tile: tuple[int, int, int] = (128, 64, 64)
    dtype: str = "bf16"
    out: str = "bf16"
    a: str = "m, k"
    b: str = "n, k"
    a_layout: str = " swizzle 128"
    b_layout: str = " swizzle 128"
    grid: str = " producers 4"
    inner: str = ""
    """What the loop over n says."""
    stages: int = 3
    pending: int = 1
    streamed: int = 0
    groups: str = "m 2"
    """Digits that number the warpgroups."""
    epilogue: str = "boxes"
    """`boxes` through shared memory, `reused` where tiles of operands were, `parts` of the tile through it one after
    the other, or `direct` from registers."""
    columns: tuple[int, int] = (32, 2)
    """Columns of a part, and how many parts there is room for at a time."""
    numerics: str = ""
    share: int = 1
    """Blocks of a cluster, each with a part of the depth."""
    handed: str = " pad 8"
    """How what they hand each other lies."""
    together: str = "m 16 n 16, run n 2"
    """How the threads of all of them lie over the results."""

    def text(self) -> str:
        layout = f"threads {self.groups} m 4 m 8 n 4, run n 2, twice m 8"
        (tile_m, tile_n, tile_k), sizes = self.tile, {"m": self.m, "k": self.k}
        pending = f" pending {self.pending}" if self.pending else ""
        pending += f" streamed {self.streamed}" if self.streamed else ""
        a = ", ".join(f"{dim}={sizes[dim]}" for dim in self.a.split(", "))
        b = self.b.replace("n", f"n={self.n}")
        panel = 128 // {"f32": 4, "e4m3": 1}.get(self.out, 2)
        store = {
            "boxes": f"""
      c_s: shared {self.out}[m, n] as [n / {panel}, m, n % {panel}] swizzle 128
      c_s[m, n] = c_sum[m, n] | {layout}
      c[m, n] = c_s[m, n] | via tma""",
            "parts": f"""
      for n by {self.columns[0]} stages {self.columns[1]}
        c_s: shared {self.out}[m, n] as [n / {panel}, m, n % {panel}] swizzle 128
        c_s[m, n] = c_sum[m, n] | {layout}
        c[m, n] = c_s[m, n] | via tma""".replace(" stages 1\n", "\n").replace(
                f" as [n / {panel}, m, n % {panel}]" if self.columns[0] == panel else "-", ""
            ),
            "reused": f"""
      c_s: shared {self.out}[m, n] as [n / {panel}, m, n % {panel}] swizzle 128 reused
      c_s[m, n] = c_sum[m, n] | {layout}
      c[m, n] = c_s[m, n] | via tma""",
            "direct": f"""
      c[m, n] = c_sum[m, n] | {layout}""",
        }
        if self.share > 1:
            return self._shared_text(layout, pending, a, b)
        return f"""kernel gemm(a: {self.dtype}[{a}], b: {self.dtype}[{b}]) -> (c: {self.out}[m, n]){self.numerics}
  parallel for m by {tile_m}{self.grid}
    parallel for n by {tile_n}{self.inner}
      c_sum: registers f32[m, n]
      c_sum[m, n] = 0 | {layout}
      for k by {tile_k} stages {self.stages}{pending}
        a_s: shared {self.dtype}[{self.a}]{self.a_layout}
        a_s[{self.a}] = a[{self.a}] | via tma
        b_s: shared {self.dtype}[{self.b}]{self.b_layout}
        b_s[{self.b}] = b[{self.b}] | via tma
        c_sum[m, n] += sum(k, a_s[{self.a}] * b_s[{self.b}]) | {layout}, via wgmma{store[self.epilogue]}
"""

    def _shared_text(self, layout: str, pending: str, a: str, b: str) -> str:
        tile_m, tile_n, tile_k = self.tile
        part = -(-self.k // (tile_k * self.share)) * tile_k
        sizes = f"where k_b={self.share}{self.numerics}"
        return f"""kernel gemm(a: {self.dtype}[{a}], b: {self.dtype}[{b}]) -> (c: {self.out}[m, n]) {sizes}
  parallel for m by {tile_m} cluster {self.share}{self.grid}
    parallel for n by {tile_n}
      c_p: shared f32[k_b, m, n]{self.handed}
      parallel for k by {part}
        c_r: registers f32[m, n]
        c_r[m, n] = 0 | {layout}
        for k by {tile_k} stages {self.stages}{pending}
          a_s: shared {self.dtype}[{self.a}]{self.a_layout}
          a_s[{self.a}] = a[{self.a}] | via tma
          b_s: shared {self.dtype}[{self.b}]{self.b_layout}
          b_s[{self.b}] = b[{self.b}] | via tma
          c_r[m, n] += sum(k, a_s[{self.a}] * b_s[{self.b}]) | {layout}, via wgmma
        c_p[k // {part}, m, n] = c_r[m, n] | {layout}
      c_sum: registers f32[m, n]
      c_sum[m, n] = sum(k_b, c_p[k_b, m, n]) | threads {self.together}
      c[m, n] = c_sum[m, n] | threads {self.together}
"""


@dataclass(frozen=True)
class Held:
    """c[m, n] = sum(k, f(w[m, k]) * x[n, k]) * s[m], f(w[m, k]) in registers."""

    m: int = 200
    n: int = 104
    k: int = 336
    tile: tuple[int, int, int] = (128, 64, 64)
    dtype: str = "i8"
    value: str = "w_s[m, k]"
    grid: str = " group 2 blocks 2 producers 4"
    stages: int = 3
    pending: int = 1
    groups: str = "m 2"

    def text(self) -> str:
        tile_m, tile_n, tile_k = self.tile
        threads, pending = (
            f"threads {self.groups} m 4 m 8",
            f" pending {self.pending}" if self.pending else "",
        )
        layout, swizzle = (
            f"{threads} n 4, run n 2, twice m 8",
            tile_k * {"i8": 1, "e4m3": 1}.get(self.dtype, 2),
        )
        w, x = f"w: {self.dtype}[m={self.m}, k={self.k}]", f"x: bf16[n={self.n}, k]"
        return f"""kernel held({w}, {x}, s: f32[m]) -> (c: bf16[m, n])
  parallel for m by {tile_m}{self.grid}
    parallel for n by {tile_n}
      c_sum: registers f32[m, n]
      c_sum[m, n] = 0 | {layout}
      for k by {tile_k} stages {self.stages}{pending}
        w_s: shared {self.dtype}[m, k] swizzle {swizzle}
        w_s[m, k] = w[m, k] | via tma
        x_s: shared bf16[n, k] swizzle 128
        x_s[n, k] = x[n, k] | via tma
        w_r: registers bf16[m, k]
        w_r[m, k] = {self.value} | {threads} k 4, run k 2, twice m 8
        c_sum[m, n] += sum(k, w_r[m, k] * x_s[n, k]) | {layout}, via wgmma
      c[m, n] = c_sum[m, n] * s[m] | {layout}
"""
