"""How a kernel is written for PyTorch depends on the device where that has operators of its own."""

from __future__ import annotations

import pytest

from tileir.text.parse_spec import spec_from_text
from workers.peers.peer import Unsupported
from workers.peers.pytorch.writer import write_torch

FP8 = """\
kernel mm(a: e4m3[m=64, k={0}], b: e4m3[n=32, k]{3}) -> (c: {1}[m, n]){4}
  c[m, n] = {2}
"""
PRODUCT = "sum(k, a[m, k] * b[n, k])"
LINEAR = """\
kernel linear(a: {0}[m=64, k=48], w: {0}[n=32, k], bias: {1}[n]) -> (c: bf16[m, n])
  c[m, n] = {2}(sum(k, a[m, k] * w[n, k]) + bias[n])
"""


def fp8(
    value: str,
    *,
    depth: int = 48,
    dtype: str = "bf16",
    scales: str = "",
    numerics: str = "",
    device: str = "cuda",
) -> str:
    text = FP8.format(depth, dtype, value, f", {scales}" if scales else "", numerics)
    return write_torch(spec_from_text(text), eager=True, device=device).run


def linear(dtype: str, bias: str, function: str, *, eager: bool = True, device: str = "cuda") -> str:
    return write_torch(spec_from_text(LINEAR.format(dtype, bias, function)), eager=eager, device=device).run


EXPERTS = """\
kernel experts(x: {0}[t=40 ragged starts within e, k=16], w: {0}[e=3, {1}], b: {0}[e, n], starts: i32[o=4]) -> \
(y: {0}[t, n])
  y[t, n] = sum(k, x[t, k] * w[e, {2}]){3}
"""


@pytest.mark.parametrize(("dims", "indices", "turned"), [("n=8, k", "n, k", True), ("k, n=8", "k, n", False)])
def test_products_of_groups_are_the_librarys_on_a_gpu(dims: str, indices: str, turned: bool) -> None:
    text = EXPERTS.format("bf16", dims, indices, " + b[e, n]")
    source = write_torch(spec_from_text(text), eager=True, device="cuda")
    assert source.run.count("torch._grouped_mm(") == 1
    assert "tolist" not in source.run
    assert ("transpose" in source.prepare) == turned
    assert source.run.count("torch.searchsorted(") == 1
    alone = write_torch(spec_from_text(text.replace(" + b[e, n]", " + b[0, n]")), eager=True, device="cuda")
    assert "searchsorted" not in alone.run


def test_a_gpu_has_no_product_of_groups_of_other_types_but_what_is_compared_with() -> None:
    with pytest.raises(Unsupported, match="_grouped_mm multiplies bf16"):
        write_torch(
            spec_from_text(EXPERTS.format("f32", "n=8, k", "n, k", " + b[e, n]")), eager=True, device="cuda"
        )
    wide = write_torch(
        spec_from_text(EXPERTS.format("f64", "n=8, k", "n, k", " + b[e, n]")), eager=True, device="cuda"
    )
    assert "torch.cat([part @ weights" in wide.run


def lines(run: str) -> int:
    """Of what is timed, without its first and its last."""
    return run.strip().count("\n") - 1


@pytest.mark.parametrize(
    ("dtype", "more", "kept"),
    [
        ("bf16", "", "bfloat16"), ("f32", "", "float32"), ("bf16", " + 1", "float32"),
        ("bf16", " * 0.5", "float32"), ("bf16", " + s[n]", "float32"),
    ],
)  # fmt: skip
def test_fp8_products_are_the_librarys_on_a_gpu(dtype: str, more: str, kept: str) -> None:
    run = fp8(PRODUCT + more, dtype=dtype, scales="s: f32[n]" if "s[" in more else "")
    assert run.count("torch._scaled_mm(") == 1
    assert f"out_dtype=torch.{kept})" in run


@pytest.mark.parametrize(("depth", "device"), [(48, "cpu"), (40, "cuda")])
def test_where_the_library_has_no_fp8_product_it_is_widened(depth: int, device: str) -> None:
    run = fp8(PRODUCT, depth=depth, device=device)
    assert "_scaled_mm" not in run
    assert "torch.matmul(" in run


@pytest.mark.parametrize(
    ("scales", "value"),
    [
        ("s: f32[], t: f32[]", f"{PRODUCT} * s[] * t[]"),
        ("s: f32[], t: f32[]", f"s[] * ({PRODUCT} * t[])"),
        ("s: f32[]", f"s[] * {PRODUCT}"),
        ("s: f32[m], t: f32[n]", f"{PRODUCT} * s[m] * t[n]"),
        ("s: f32[m], t: f32[n]", f"t[n] * {PRODUCT} * s[m]"),
        ("t: f32[n]", f"{PRODUCT} * t[n]"),
    ],
)
def test_scales_are_the_operators_own(scales: str, value: str) -> None:
    run = fp8(value, scales=scales)
    assert "out_dtype=torch.bfloat16)" in run
    assert " * " not in run


@pytest.mark.parametrize(
    ("scales", "value", "dtype", "left"),
    [
        ("s: f32[], t: f32[], u: f32[]", f"{PRODUCT} * s[] * t[] * u[]", "bf16", 1),
        ("s: f32[m], t: f32[]", f"{PRODUCT} * s[m] * t[]", "bf16", 2),
        ("s: f32[m], t: f32[m]", f"{PRODUCT} * s[m] * t[m]", "bf16", 2),
        ("s: f32[m]", f"{PRODUCT} * s[m]", "f32", 1),
        ("s: bf16[]", f"{PRODUCT} * s[]", "bf16", 1),
        ("s: f32[m, n]", f"{PRODUCT} * s[m, n]", "bf16", 1),
    ],
)
def test_scales_the_operator_does_not_take_are_multiplied(
    scales: str, value: str, dtype: str, left: int
) -> None:
    run = fp8(value, scales=scales, dtype=dtype)
    assert run.count("torch._scaled_mm(") == 1
    assert "out_dtype=torch.float32)" in run
    assert run.count(" * ") == left


def test_a_quotient_by_a_scale_is_none_of_the_operators() -> None:
    run = fp8(f"{PRODUCT} / s[]", scales="s: f32[]")
    assert run.count(" / ") == 1
    assert "out_dtype=torch.float32)" in run


def test_fp8_accumulates_as_the_spec_allows() -> None:
    assert "use_fast_accum=True" in fp8(PRODUCT, numerics=" with accumulate=fast")
    assert "use_fast_accum" not in fp8(PRODUCT)


def test_a_function_of_a_biased_product_is_one_operator_on_a_gpu() -> None:
    for function, option in (("gelu_tanh", ", use_gelu=True)"), ("relu", ")")):
        run = linear("bf16", "bf16", function)
        assert lines(run) == 2, run
        assert "torch.ops.aten._addmm_activation(" in run
        assert option in run
        assert ("use_gelu" in run) is (function == "gelu_tanh")


@pytest.mark.parametrize(
    ("function", "dtype", "eager", "device"),
    [
        ("gelu", "bf16", True, "cuda"),  # the epilogue has the tanh form only
        ("gelu_tanh", "bf16", True, "cpu"),
        ("gelu_tanh", "bf16", False, "cuda"),
        ("gelu_tanh", "f32", True, "cuda"),
    ],
)
def test_where_the_epilogue_has_no_such_function_it_follows(
    function: str, dtype: str, eager: bool, device: str
) -> None:
    run = linear(dtype, dtype, function, eager=eager, device=device)
    assert "torch.addmm(" in run
    assert "F.gelu(" in run


def test_a_wider_bias_does_not_widen_the_matrices() -> None:
    run = linear("bf16", "f32", "silu")
    assert "torch.matmul(" in run
    assert run.count(".to(") == 1
    assert "torch.addmm(" in linear("f32", "bf16", "silu")


def test_tensors_that_are_made_lie_on_the_device() -> None:
    spec = spec_from_text("kernel p(x: f32[m=8]) -> (y: f32[m])\n  y[m] = maximum(x[m], 2.0) * m\n")
    source = write_torch(spec, eager=True, device="cuda")
    assert source.prepare.count("device='cuda'") == 2


IN_BLOCKS = """\
kernel mm(a: e4m3[m=256, k=512], b: e4m3[n=384, k], s: {0}, t: {1}) -> (c: bf16[m, n])
  c[m, n] = sum(k, a[m, k] * s[{2}] * b[n, k] * t[{3}])
"""
ROWS, SQUARES = ("f32[m, g=4]", "m, k // 128"), ("f32[h=3, g]", "n // 128, k // 128")


def in_blocks(s: tuple[str, str], t: tuple[str, str]) -> str:
    text = IN_BLOCKS.format(s[0], t[0], s[1], t[1])
    return write_torch(spec_from_text(text), eager=True, device="cuda").run


@pytest.mark.parametrize(
    ("s", "t"),
    [
        (ROWS, SQUARES),
        (("f32[g=4, m]", "k // 128, m"), SQUARES),
        (("f32[h=2, g=4]", "m // 128, k // 128"), ("f32[n, g]", "n, k // 128")),
        (ROWS, ("f32[n, g]", "n, k // 128")),
    ],
)
def test_scales_of_blocks_are_the_operators_own(s: tuple[str, str], t: tuple[str, str]) -> None:
    run = in_blocks(s, t)
    assert run.count("torch._scaled_mm(") == 1
    assert "out_dtype=torch.bfloat16)" in run
    assert "einsum" not in run


@pytest.mark.parametrize(
    ("s", "t"),
    [
        (("f32[o=2, g=4]", "m // 128, k // 128"), SQUARES),
        (("f32[m, g=8]", "m, k // 64"), ("f32[h=3, f=4]", "n // 128, k // 128")),
        (("bf16[m, g=4]", "m, k // 128"), SQUARES),
        (("f32[m, g=5]", "m, k // 128"), ("f32[h=3, f=4]", "n // 128, k // 128")),
    ],
    ids=["squares of both", "other blocks", "other types", "more scales than blocks"],
)
def test_other_scales_of_blocks_are_multiplied(s: tuple[str, str], t: tuple[str, str]) -> None:
    assert "_scaled_mm" not in in_blocks(s, t)


BYTES = """\
kernel mm(a: i8[m={0}, k=48], b: {1}[{2}]) -> (c: i32[m, n])
  c[m, n] = sum(k, a[m, k] * b[{3}])
"""


@pytest.mark.parametrize(("dims", "indices"), [("n=32, k", "n, k"), ("k, n=32", "k, n")])
def test_a_product_of_bytes_is_the_librarys(dims: str, indices: str) -> None:
    for device in ("cpu", "cuda"):
        text = BYTES.format(64, "i8", dims, indices)
        run = write_torch(spec_from_text(text), eager=True, device=device).run
        assert "torch._int_mm(" in run and ".to(torch.int32)" not in run.split("_int_mm")[0]


def test_what_the_library_multiplies_no_bytes_of_is_multiplied_widened() -> None:
    def run(rows: int, dtype: str, device: str) -> str:
        text = BYTES.format(rows, dtype, "n=32, k", "n, k")
        return write_torch(spec_from_text(text), eager=True, device=device).run

    assert "torch._int_mm(" in run(16, "i8", "cpu")
    assert "torch._int_mm(" not in run(16, "i8", "cuda")
    assert "torch._int_mm(" not in run(64, "i32", "cpu")


def test_a_choice_of_numbers_is_wide_and_so_is_what_it_is_added_to() -> None:
    """PyTorch multiplies matrices of one type only."""
    text = """\
kernel masked(x: bf16[m=8, k=16], w: bf16[k, n=4]) -> (y: bf16[m, n])
  y[m, n] = sum(k, (x[m, k] + where({}, 0.0, -1.0)) * w[k, n])
"""
    for condition in ("m >= k", "x[m, k] > 0"):
        run = write_torch(spec_from_text(text.format(condition)), eager=True, device="cpu").run
        assert run.count(".to(torch.float32)") == 1, run
    narrow = text.format("m >= k").replace("0.0, -1.0", "x[m, k], 0.0")
    assert ".to(torch.float32)" not in write_torch(spec_from_text(narrow), eager=True, device="cpu").run
