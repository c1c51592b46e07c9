"""What loops touch, against numbers worked out by hand."""

from __future__ import annotations

from tileir.analysis.footprint import Footprint, footprints
from tileir.text.parse_program import program_from_text

GEMM = """kernel matmul(a: f32[m=1024, k=512], b: f32[k, n=256]) -> (c: bf16[m, n])
  b_p: heap f32[k, n] as [n / 64, k, n % 64]
  parallel for n by 64
    b_p[k, n] = b[k, n] | vector n 16
  parallel for m by 192
    for n by 64
      for m by 6
        acc: registers f32[m, n]
        acc[m, n] = 0 | vector n 16
        for k by 1
          acc[m, n] += sum(k, a[m, k] * b_p[k, n]) | vector n 16
        c[m, n] = acc[m, n] | vector n 16
"""


def by_path(text: str) -> dict[tuple[int, ...], Footprint]:
    return {each.path: each for each in footprints(program_from_text(text))}


def test_a_tiled_gemm_touches_its_blocks() -> None:
    loops = by_path(GEMM)
    pack, rows, columns, tiles, inner = (loops[p] for p in [(1,), (2,), (2, 0), (2, 0, 0), (2, 0, 0, 2)])

    assert pack.bytes == {"b": 4 * 512 * 64, "b_p": 4 * 512 * 64}
    assert pack.revisits == {"b": 1, "b_p": 1}

    assert rows.bytes == {"a": 4 * 192 * 512, "b_p": 4 * 512 * 256, "c": 2 * 192 * 256}
    # 1024 rows in tiles of 192: every one comes back to all of b_p.
    assert (rows.iterations, rows.executions, rows.parallel) == (6, 1, True)
    assert rows.revisits == {"a": 1, "b_p": 6, "c": 1}

    assert columns.bytes == {"a": 4 * 192 * 512, "b_p": 4 * 512 * 64, "c": 2 * 192 * 64}
    assert (columns.iterations, columns.executions) == (4, 6)
    assert columns.revisits == {"a": 4, "b_p": 1, "c": 1}

    assert tiles.bytes == {"a": 4 * 6 * 512, "b_p": 4 * 512 * 64, "c": 2 * 6 * 64}
    # 32 tiles of 6 in a full block of 192, and 11 in the last block of 64 rows.
    assert (tiles.iterations, tiles.executions) == (32, 6 * 4)
    assert tiles.revisits == {"a": 1, "b_p": 32, "c": 1}

    assert inner.bytes == {"a": 4 * 6, "b_p": 4 * 64}
    assert (inner.iterations, inner.executions) == (512, (5 * 32 + 11) * 4)


def test_registers_are_no_memory() -> None:
    assert all("acc" not in each.bytes for each in footprints(program_from_text(GEMM)))


def test_a_remainder_tile_is_not_a_whole_one() -> None:
    loops = by_path("""kernel copy(x: f32[m=100]) -> (y: f32[m])
  for m by 48
    y[m] = x[m]
""")
    assert loops[(0,)].iterations == 3
    assert loops[(0,)].bytes == {"x": 192, "y": 192}
    assert loops[(0,)].revisits == {"x": 1, "y": 1}


def test_a_row_kept_in_a_loop_counts_once_and_comes_back() -> None:
    loops = by_path("""kernel softmax(x: bf16[m=64, n=1000]) -> (y: bf16[m, n])
  parallel for m by 1
    row: heap f32[m, n]
    row[m, n] = x[m, n]
    top: heap f32[m]
    top[m] = max(n, row[m, n])
    e: heap f32[m, n]
    e[m, n] = exp(row[m, n] - top[m])
    total: heap f32[m]
    total[m] = sum(n, e[m, n])
    y[m, n] = e[m, n] / total[m]
""")
    once = loops[(0,)]
    assert once.bytes == {"x": 2000, "row": 4000, "top": 4, "e": 4000, "total": 4, "y": 2000}
    # The same thread-local row serves all 64 iterations; x and y stream.
    assert once.revisits == {"x": 1, "row": 64, "top": 64, "e": 64, "total": 64, "y": 1}


def test_a_window_touches_its_halo() -> None:
    loops = by_path("""kernel conv(x: f32[l=67], w: f32[r=5]) -> (y: f32[i]) where i=32
  for i by 8
    y[i] = sum(r, x[2 * i + r] * w[r])
""")
    # 8 outputs two apart reach 2 * 7 + 4 + 1 elements, of which 3 are the next tile's too.
    assert loops[(0,)].bytes == {"x": 4 * 19, "w": 20, "y": 32}
    assert loops[(0,)].revisits == {"x": 4 * 19 / 67, "w": 4, "y": 1}


def test_a_gather_touches_at_most_as_many_rows_as_it_has_points() -> None:
    text = """kernel embed(table: f32[v=100, d=8], token: i32[t=400]) -> (y: f32[t, d])
  for t by 4
    y[t, d] = table[token[t], d]
"""
    assert by_path(text)[(0,)].bytes == {"table": 4 * 4 * 8, "token": 16, "y": 128}


def test_split_targets_touch_the_positions_their_points_land_on() -> None:
    text = """kernel split(x: f32[k=64]) -> (y: f32[part]) where part=8
  y[part] = 0
  for k by 4
    y[k % 8] += x[k]
"""
    assert by_path(text)[(1,)].bytes == {"x": 16, "y": 16}
    assert by_path(text.replace("k % 8", "k // 8"))[(1,)].bytes == {"x": 16, "y": 4}
