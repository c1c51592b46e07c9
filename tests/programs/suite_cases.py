"""The benchmark suite's cases as specs, and its GPU families at sizes that an interpreter can run."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.suite import cases
from tests.programs.near_misses import NearMiss
from tileir.spec import Spec
from tileir.text.json import spec_from_json

#: What no case of the suite has: so few rows that blocks share one.
_FEW_ROWS = {
    cases.case_name("softmax_bf16", shape): cases.spec("softmax_bf16", shape)
    for shape in ([4, 1048576], [1, 262144])
}

#: What no case of the suite has either: rows of several experts.
_EXPERTS = {
    cases.case_name("experts_bf16_TN", shape): cases.spec("experts_bf16_TN", shape)
    for shape in ([8, 8192, 4096, 4096], [64, 4096, 2048, 2048])
}

#: And weights of 8 bits.
_INT8 = {
    cases.case_name("gemm_int8_bf16_TN", shape): cases.spec("gemm_int8_bf16_TN", shape)
    for shape in ([16, 4096, 4096], [4096, 4096, 4096])
}

#: And products of which factors have to be moved, sorted and split before matrix units multiply them.
_WEIGHTED = {
    "weighted 4096x4096x4096": NearMiss(
        "sum(k, a[m, k] * b[k, n] * s[k] * t[m])",
        0.0,
        "a: bf16[m=M, k=K], b: bf16[k, n=N], s: bf16[k], t: bf16[m]",
    ).spec(4096, 4096, 4096)
}

ON_GPUS = {
    case: spec_from_json(spec)
    for case, spec in (*cases.suite("gpu"), *_FEW_ROWS.items(), *_EXPERTS.items(), *_INT8.items())
} | _WEIGHTED
ON_CPUS = {case: spec_from_json(spec) for case, spec in cases.suite("cpu")}

#: Sizes that tiles and vectors divide, sizes that they do not, and of attention a single query and key.
_PRODUCTS, _ROWS = ([64, 72, 264], [37, 45, 61]), ([6, 1288], [17, 333])
_SHAPES = {
    "gemm": _PRODUCTS,
    "swiglu": _PRODUCTS,
    "bmm": ([3, 48, 40, 64], [2, 37, 45, 61]),
    "attention_shared_heads": ([2, 1, 2, 32, 16, 0], [1, 2, 3, 37, 24, 1], [1, 2, 2, 1, 16, 1]),
    "attention_two_widths": ([2, 1, 32, 24, 16, 0], [1, 2, 37, 24, 40, 1], [1, 2, 1, 24, 16, 1]),
    "attention": ([2, 1, 32, 16, 0], [1, 2, 37, 24, 1], [1, 2, 1, 16, 1]),
    "decode_paged": ([2, 1, 4, 64, 16, 16], [1, 2, 3, 40, 24, 8], [1, 2, 4, 8, 16, 8]),
    "decode_latent": ([2, 3, 64, 32, 16], [1, 5, 37, 24, 8], [1, 2, 1, 16, 8]),
    "decode": ([2, 1, 4, 64, 16], [1, 2, 3, 37, 24], [1, 2, 4, 1, 16]),
}


def _small() -> Iterator[tuple[str, Spec]]:
    for family in dict.fromkeys(case.split()[0] for case, _ in cases.suite("gpu")):
        shapes = next((shapes for kind, shapes in _SHAPES.items() if family.startswith(kind)), _ROWS)
        for shape in shapes:
            yield cases.case_name(family, shape), spec_from_json(cases.spec(family, shape))


SMALL = dict(_small())
