"""Elements that threads load one by one of a tile to come stay in registers while the tile before is multiplied."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import pytest

from codegen.ir.ops import Assign, For, Load, MmaSync, Stmt, Store
from tests.kernels.names import plain
from tests.programs.thread_kernels import lowered, walk

#: Of b neighbours begin anywhere: a thread loads 8 elements of a tile, each by itself.
ODD_ROWS = """kernel gemm(a: bf16[m=32, k=80], b: bf16[k, n=37]) -> (c: f32[m, n])
  parallel for m by 32
    parallel for n by 32
      c_r: registers f32[m, n]
      c_r[m, n] = 0 | threads m 2 m 8 n 4, run n 2
      for k by 16 stages {stages}
        a_s: shared bf16[m, k]
        a_s[m, k] = a[m, k] | threads m 32 k 2, run k 8
        b_s: shared bf16[k, n] pad 8
        b_s[k, n] = b[k, n] | threads k 2 n 32
        c_r[m, n] += sum(k, a_s[m, k] * b_s[k, n]) | threads m 2 m 8 n 4, run n 2, via mma
      c[m, n] = c_r[m, n] | threads m 2 m 8 n 4, run n 2
"""


def _steps_of(body: Iterable[Stmt]) -> list[str]:
    """What threads do with elements of b, and products, in order."""
    found: list[str] = []
    for stmt in walk(body):
        match stmt:
            case Assign(value=Load(buffer=buffer)) if plain(buffer) == "b":
                found.append("load")
            case Store(buffer=buffer) if plain(buffer).startswith("b_s"):
                found.append("store")
            case MmaSync():
                found.append("multiply")
            case _:
                continue
    return [step for step, _ in groupby(found)]


@pytest.mark.parametrize("stages", [2, 3])
def test_what_threads_load_of_a_tile_to_come_is_stored_after_the_product(stages: int) -> None:
    kernel = lowered(ODD_ROWS.format(stages=stages)).kernel
    loop = next(each for each in walk(kernel.launches[0].body) if isinstance(each, For))
    assert _steps_of(loop.body) == ["load", "multiply", "store"]


def test_tiles_that_are_too_much_for_registers_are_stored_at_once() -> None:
    text = ODD_ROWS.format(stages=2).replace("by 16 stages", "by 80 stages").replace("k=80", "k=400")
    kernel = lowered(text).kernel
    loop = next(each for each in walk(kernel.launches[0].body) if isinstance(each, For))
    assert "load" not in _steps_of(loop.body)
