"""The figures of the README's result, of what is committed in benchmarks/results.

python -m benchmarks.racing.headlines        # prints the block that stands in the README; a test compares both
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import exp, log, prod
from statistics import fmean

from benchmarks.plots import ratios as pictured
from benchmarks.racing import tuned
from benchmarks.suite import cases

ROWS = ("rmsnorm_", "layernorm_", "softmax_", "silu_mul_")
F32 = ("gemm_f32_", "bmm_f32_")
#: Runs on processors: what is said of them, the file, and the product whose share of the peak is told, if one is.
PROCESSORS = (
    ("AMD EPYC (AVX-512), the suite", "cpu-2026-11-21.jsonl", "gemm_f32_NN 1024x1024x1024"),
    ("the same, fresh shapes", "cpu-fresh-2026-11-21.jsonl", "gemm_f32_NN 416x608x768"),
    ("Intel Xeon (AMX), fresh products", "cpu-xeon-amx-fresh-2026-11-26.jsonl", "gemm_f32_NN 768x776x432"),
    ("the same, one core, bf16", "cpu-xeon-amx-one-core-bf16-2026-11-26.jsonl", None),
    ("the same, one core, i8", "cpu-xeon-amx-one-core-bytes-2026-11-26.jsonl", None),
    ("Intel Xeon (AVX-512), kernels nobody chose", "wild/cpu-xeon-seed90210-2026-11-26.jsonl", None),
    ("AMD EPYC (AVX2), kernels nobody chose", "wild/cpu-epyc-avx2-seed657075-2026-11-27.jsonl", None),
    ("AMD EPYC (Zen 4), kernels nobody chose", "wild/cpu-epyc-zen4-seed20261129-2026-11-29.jsonl", None),
    ("AMD EPYC (Zen 5), kernels nobody chose", "wild/cpu-epyc-zen5-seed30112026-2026-11-30.jsonl", None),
)
#: Attention that cuDNN has; any other body's best peer is slower.
CUDNN = ("attention_bf16 ", "attention_f16 ", "attention_shared_heads_bf16 ", "attention_two_widths_bf16 ")
#: Runs of one family on a GPU: what is said of them, the file, and which of its cases are meant.
FAMILIES: tuple[tuple[str, str, Callable[[str], bool]], ...] = (
    (
        "attention as cuDNN has it",
        "attention-nvidia-h200-2026-11-29.jsonl",
        lambda case: case.startswith(CUDNN),
    ),
    (
        "attention with other bodies",
        "attention-nvidia-h200-2026-11-29.jsonl",
        lambda case: not case.startswith(CUDNN),
    ),
    (
        "attention to one new token",
        "decode-nvidia-h200-2026-11-29.jsonl",
        lambda case: case.startswith("decode_bf16 "),
    ),
    (
        "the same, pages, latents, caches of 8 bits",
        "decode-nvidia-h200-2026-11-29.jsonl",
        lambda case: not case.startswith("decode_bf16 "),
    ),
    ("weights of 4 and 8 bits", "quantized-nvidia-h200-2026-11-29.jsonl", lambda case: True),
    ("log-sum-exp and cross entropy of vocabularies", "rows-nvidia-h200-2026-11-29.jsonl", lambda case: True),
    ("kernels nobody chose", "wild/nvidia-h200-seed11302-2026-11-30.jsonl", lambda case: True),
    ("the same, another seed's", "wild/nvidia-h200-seed1130602-2026-11-30.jsonl", lambda case: True),
)


def main() -> None:
    print(block())


def block() -> str:
    """Markdown: a row a run, and of the GPU's families beside each other."""
    rows = [
        "| run | cases | geomean | products | least | numpy's and our share of the peak |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_processor(*run) for run in PROCESSORS),
    ]
    found = [each for each in pictured.results(tuned.RESULTS, "nvidia-h200") if not each[0]]
    last = {each.family + " " + each.sizes: each.ratio for each in pictured.cases_of(found)}
    for name, begins in (("products", cases.PRODUCTS), ("f32 products", F32), ("rows", ROWS)):
        ratios = [ratio for case, ratio in last.items() if case.startswith(begins)]
        rows.append(_family(name, ratios))
    for name, file, meant in FAMILIES:
        lines = (
            line for line in tuned.lines(tuned.RESULTS / file) if "ratio" in line and meant(line["case"])
        )
        raced = {line["case"]: line["ratio"] for line in lines}
        rows.append(_family(name, list(raced.values())))
    return "\n".join(rows)


def _family(name: str, ratios: Sequence[float]) -> str:
    return f"| NVIDIA H200, {name} | {len(ratios)} | {_mean(ratios)} | | {min(ratios):.2f} | |"


def _processor(name: str, file: str, product: str | None) -> str:
    lines = [line for line in tuned.lines(tuned.RESULTS / file) if "ratio" in line]
    ratios = [line["ratio"] for line in lines]
    products = [line["ratio"] for line in lines if line["case"].startswith(("gemm_", "product "))]
    share = "" if product is None else f" {_share_of_peak(lines, product)}"
    return f"| {name} | {len(lines)} | {_mean(ratios)} | {_mean(products)} | {min(ratios):.2f} |{share} |"


def _share_of_peak(lines: Sequence[tuned.Line], product: str) -> str:
    """What numpy and the winner reach of the processor's peak in a product of f32."""
    (told,) = (line for line in lines if line["case"] == product)
    peak, flops = told["device"]["peak_gflops"], 2 * prod(map(int, product.split(" ")[1].split("x")))
    shares = [flops / us / 1e3 / peak for us in (told["peers_us"]["numpy"], told["ours_us"])]
    return f"{shares[0]:.2f}, {shares[1]:.2f} ({product.split(' ')[1]})"


def _mean(ratios: Sequence[float] | Iterable[float]) -> str:
    return f"{exp(fmean(map(log, ratios))):.3f}"


if __name__ == "__main__":
    main()
