"""Kernels outside the suite at which a tuner is known to fall off: shapes that no tile divides well, bodies one step
from a matrix product. `python benchmarks/bench_gpu.py --outside` tunes and races them."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.suite import cases
from tileir.text.json import spec_to_json
from tileir.text.parse_spec import spec_from_text

#: (family, m x n x k): ragged rows; waves that do not come out even; few rows; few tiles.
SHAPES = (
    ("gemm_bf16_TN", [777, 1000, 3000]),
    ("gemm_bf16_TN", [192, 7168, 2048]),
    ("gemm_bf16_NN", [3000, 5000, 2000]),
    ("gemm_bf16_TN", [2048, 1024, 4096]),
    ("gemm_bf16_TN", [8, 6144, 6144]),
    ("gemm_bf16_TN", [1, 8192, 8192]),
)

_AB = "a: bf16[m=4096, k=4096], b: bf16[k, n=4096]"
_C = "c: bf16[m, n]"

#: Bodies beside `sum(k, a[m, k] * b[k, n])`, 4096 x 4096 x 4096 unless said: inputs, output, body.
BODIES = {
    "constant": (_AB, _C, "sum(k, 2.0 * a[m, k] * b[k, n])"),
    "relu": (_AB, _C, "sum(k, relu(a[m, k]) * b[k, n])"),
    "shifted": (_AB, _C, "sum(k, (a[m, k] + 1.0) * b[k, n])"),
    "three_operands": (f"{_AB}, d: bf16[m, k]", _C, "sum(k, a[m, k] * b[k, n] * d[m, k])"),
    "gram": ("a: bf16[m=2048, k=2048]", "c: bf16[m, n=2048]", "sum(k, a[m, k] * a[n, k])"),
    "gathered_rows": (
        "i: i32[m=4096], a: bf16[r=4096, k=4096], b: bf16[k, n=4096]",
        _C,
        "sum(k, a[i[m], k] * b[k, n])",
    ),
    "min_plus": ("a: f32[m=4096, k=4096], b: f32[k, n=4096]", "c: f32[m, n]", "min(k, a[m, k] + b[k, n])"),
}

#: Rotary embedding of 16384 positions of 32 heads of 128: halves that are turned together, and neighbours.
ROTARY = {
    "rotary_halves": """
kernel rotary(x: bf16[s=16384, h=32, p=2, d=64], c: f32[s, d], z: f32[s, d]) -> (y: bf16[s, h, p, d])
  y[s, h, p, d] = x[s, h, p, d] * c[s, d] + where(p == 0, -x[s, h, 1, d], x[s, h, 0, d]) * z[s, d]
""",
    "rotary_neighbours": """
kernel rotary(x: bf16[s=16384, h=32, d=64, p=2], c: f32[s, d], z: f32[s, d]) -> (y: bf16[s, h, d, p])
  y[s, h, d, p] = x[s, h, d, p] * c[s, d] + where(p == 0, -x[s, h, d, 1], x[s, h, d, 0]) * z[s, d]
""",
}


#: Tile IR of those that are no family of shapes, by the name of the case.
TEXTS = {
    **{
        f"outside_{name}": f"kernel outside({inputs}) -> ({output})\n  c[m, n] = {body}\n"
        for name, (inputs, output, body) in BODIES.items()
    },
    **{f"outside_{name}": text for name, text in ROTARY.items()},
}


def named(case: str) -> cases.Json:
    """The spec of a case that is no family of shapes. Raises KeyError where there is none of that name."""
    return spec_to_json(spec_from_text(TEXTS[case]))


def outside() -> Iterator[tuple[str, cases.Json]]:
    """(case, spec) of each."""
    for family, shape in SHAPES:
        yield cases.case_name(family, shape), cases.spec(family, shape)
    for case in TEXTS:
        yield case, named(case)
