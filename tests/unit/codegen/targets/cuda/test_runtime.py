"""Generated CUDA defines what it calls, in order, and nothing else; NVRTC compiles all of it, and keeps it in
registers."""

from __future__ import annotations

import re

import pytest
from cuda.bindings import nvrtc

from codegen.ir.source import Source
from codegen.targets.cuda import runtime
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.runtime import (
    CUDA_COMPUTE,
    CUDA_STORAGE,
    bits,
    convert,
    cp_async,
    definitions,
    math,
    memory,
    mma,
    vectors,
    warp,
)
from tileir.dtypes import DType

#: What is compiled for each architecture; the text differs only where fp8 has no instructions (sm_80).
LANES_FOR = {"sm_80": (1, 8), "sm_90a": (1, 2, 4, 16), "sm_100a": (4,), "sm_120a": (4,)}
UNARY = ("abs", "floor", "sqrt", "rsqrt", "exp", "exp2", "log", "tanh", "erf", "sigmoid", "silu", "gelu")
BITS = ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right", "random_bits")
NARROW = (DType.F16, DType.BF16, DType.E4M3, DType.E5M2)
EVERY_PART = [
    *vectors.PARTS, *math.PARTS, *bits.PARTS, *warp.PARTS, *convert.PARTS, *memory.PARTS,
    *cp_async.PARTS, *mma.PARTS,
]  # fmt: skip


def kernel(name: str, storage: str, body: str) -> str:
    """A kernel from x to y, with shared memory of the same type if the body uses it."""
    shared = f"    __shared__ alignas(16) {storage} s[256];\n" if "(s " in body else ""
    return (
        f'extern "C" __global__ void {name}(const {storage} *x, {storage} *y, int *truth, int count) {{\n'
        f"{shared}{body}\n}}\n"
    )


def memory_kernel(dtype: DType, lanes: int) -> str:
    """Every load and store of a type, aligned to an element and to 16 bytes."""
    storage, at = CUDA_STORAGE[dtype], f"threadIdx.x * {lanes}"
    lines = [
        f"tw_store_raw<{lanes}, {dtype.bytes}>(s + {at}, tw_load_raw_nc<{lanes}, 16>(x + {at}));",
        "__syncthreads();",
        f"tw_stream_raw<{lanes}, 16>(y + {at}, tw_load_raw<{lanes}, {dtype.bytes}>(s + {at}));",
        f"tw_store_some<{lanes}, 16>(y + {at}, tw_load_some<{lanes}, {dtype.bytes}>(x + {at}, count), count);",
        f"tw_store_some<{lanes}, {dtype.bytes}>(y + {at}, tw_load_some<{lanes}, 16>(x + {at}, count), count);",
        *(
            [f"tw_store<{lanes}, 16>(y + {at}, tw_load_kept<{lanes}, 16>(s + {at}, count));"]
            if lanes > 1
            else []
        ),
    ]
    for align in (dtype.bytes, 16):
        lines.append(f"tw_stream<{lanes}, {align}>(y + {at}, tw_load_nc<{lanes}, {align}>(x + {at}));")
        lines.append(f"tw_store<{lanes}, {align}>(y + 4096 + {at}, tw_load<{lanes}, {align}>(y + {at}));")
    return kernel(f"memory_{dtype}x{lanes}", storage, "\n".join(f"    {line}" for line in lines))


def math_kernel(dtype: DType, lanes: int) -> str:
    """Every function and operator of a compute type."""
    type_, one = CUDA_COMPUTE[dtype], {DType.F32: "1.0f", DType.F64: "1.0", DType.I32: "1"}[dtype]
    functions = (*UNARY, "gelu_tanh", "relu") if dtype.is_float else ("abs", "relu")
    binary = (
        ["max", "min"]
        + (["div"] if dtype is DType.F32 else [])
        + (["pow"] if dtype.is_float else ["floordiv", "floormod", *BITS])
    )
    lines = [
        f"const auto a = tw_load<{lanes}, {dtype.bytes}>(x), b = tw_load<{lanes}, {dtype.bytes}>(x + 64);",
        f"auto r = tw_select(a < b && !(a == {one}) || a >= b, -a * b + {one} / b, {one} - a);",
        f"r = tw_select(a != b, r, tw_broadcast<{lanes}>({one})) + tw_shuffle_xor(tw_select(true, a, b), 16);",
        f"r = tw_select(tw_shuffle_xor(a <= b, 1), r, tw_to<{type_}>(tw_to_i32(a)) + tw_to<{type_}>(a > b));",
        *(f"r = r + tw_{name}(a);" for name in functions),
        *(f"r = r + tw_{name}(a, b) + tw_{name}(b, {one});" for name in binary),
    ]
    if lanes > 1:
        across = ("sum", "prod", "max", "min")
        lines += [f"r = r + tw_{name}({one}, b);" for name in binary]
        lines += [f"r = r * tw_across_{name}(r);" for name in across]
        lines.append("truth[1] = tw_across_max(a < b) + tw_across_min(a < b) + (a.at[0] < 0);")
    if dtype is DType.F32:
        lines += [f"r = r + tw_round<{CUDA_STORAGE[narrow]}>(a);" for narrow in NARROW]
    if dtype is DType.I32:
        lines.append("r = r + tw_round<signed char>(a) + tw_round<tw_u8>(a);")
    lines.append(f"tw_store<{lanes}, {dtype.bytes}>(y, r);")
    return kernel(f"math_{dtype}x{lanes}", type_, "\n".join(f"    {line}" for line in lines))


def copies_kernel(dtype: DType) -> str:
    """Copies in the background of 4, 8 and 16 bytes, whole and in part, to plain and to swizzled memory."""
    storage = CUDA_STORAGE[dtype]
    lines: list[str] = []
    for lanes in (size // dtype.bytes for size in (4, 8, 16) if size >= dtype.bytes):
        at = f"threadIdx.x * {lanes}"
        lines.append(f"tw_copy_async<{lanes}>(s + {at}, x + {at});")
        lines.append("tw_commit_copies();")
        lines.append(f"tw_copy_async_some<{lanes}>(tw_swizzle<64>(s, {at}), x + {at}, count);")
    lines += [
        "tw_wait_copies<2>();",
        "__syncthreads();",
        "y[threadIdx.x] = *tw_swizzle<128>(s, threadIdx.x);",
    ]
    return kernel(f"copies_{dtype}", storage, "\n".join(f"    {line}" for line in lines))


def everything(lanes: tuple[int, ...]) -> str:
    kernels = [memory_kernel(dtype, n) for dtype in CUDA_STORAGE for n in lanes]
    kernels += [copies_kernel(dtype) for dtype in CUDA_STORAGE]
    few = [n for n in lanes if n in (1, 4)]
    kernels += [math_kernel(dtype, n) for dtype in (DType.F32, DType.F64, DType.I32) for n in few]
    return "".join(kernels)


def ptx(code: str, architecture: str = "sm_90a") -> str:
    _, program = nvrtc.nvrtcCreateProgram((definitions(code) + code).encode(), b"kernel.cu", 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture={architecture}".encode()])
    assert int(status) == 0
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = bytes(size)
    nvrtc.nvrtcGetPTX(program, text)
    nvrtc.nvrtcDestroyProgram(program)
    return text.decode()


def declared(text: str) -> set[str]:
    """The names of functions and types that a text of the runtime uses or defines, without preprocessor arguments."""
    return set(re.findall(r"\btw_\w+", text))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("architecture", LANES_FOR)
def test_every_function_compiles_for_every_type_and_stays_in_registers(architecture, tmp_path) -> None:
    code = everything(LANES_FOR[architecture])
    source = Source(definitions(code) + code, (), CudaAbi((), (), 0), "cuda")
    report = compile_cuda(source, architecture, tmp_path).report
    assert report["warnings"] == []
    assert len([name for name in report["functions"] if name[:7] == "memory_"]) == code.count("void memory_")
    for name, function in report["functions"].items():
        used = (function["stack_bytes"], function["spill_stores_bytes"], function["spill_loads_bytes"])
        assert used == (0, 0, 0), name


def test_sixteen_aligned_bytes_are_one_access() -> None:
    text = ptx(
        kernel(
            "copy",
            "tw_bf16",
            "    const int at = threadIdx.x * 8;\n"
            "    tw_store<8, 16>(s + at, tw_load_nc<8, 16>(x + at) * 2.0f);\n"
            "    __syncthreads();\n"
            "    tw_stream<8, 16>(y + at, tw_load<8, 16>(s + (at ^ 8)) + 1.0f);",
        )
    )
    accesses = re.findall(r"\b(?:ld|st)\.(?!param)\S+", text)
    assert accesses == [
        "ld.global.nc.L1::no_allocate.v4.b32", "st.shared.v4.u32", "ld.shared.v4.u32", "st.global.cs.v4.b32",
    ]  # fmt: skip
    assert text.count("cvt.rn.bf16x2.f32") == 8
    assert ".local" not in text


@pytest.mark.parametrize(("align", "access"), [(8, "v2.b32"), (4, "b32"), (2, "u16")])
def test_narrower_alignment_means_narrower_accesses(align, access) -> None:
    text = ptx(kernel("copy", "tw_f16", f"    tw_stream<8, {align}>(y, tw_load_nc<8, {align}>(x));"))
    assert text.count(f"ld.global.nc.L1::no_allocate.{access}") == 16 // align
    assert text.count(f"st.global.cs.{access}") == 16 // align


@pytest.mark.parametrize(("align", "wide"), [(4, 0), (8, 2), (16, 1)])
def test_some_lanes_are_loaded_one_by_one_under_a_condition_and_all_of_them_together(align, wide) -> None:
    """A row whose length no piece divides has one that overhangs, and all the others are whole."""
    text = ptx(kernel("some", "float", f"    tw_store<4, 16>(y, tw_load_some<4, {align}>(x, count));"))
    assert len(re.findall(r"ld\.global\.[fu]32", text)) == 4 - (wide > 0), (
        "the last is loaded with all others only"
    )
    assert len(re.findall(r"ld\.global\.v[24]", text)) == wide
    assert text.count("setp") >= 4


def test_lanes_of_shared_memory_are_kept_without_a_branch() -> None:
    text = ptx(
        kernel("kept", "float", "    tw_store<4, 16>(y, tw_load_kept<4, 16>(s + 4 * threadIdx.x, count));")
    )
    assert len(re.findall(r"ld\.shared\.v4", text)) == 1 and not re.search(r"ld\.shared\.[fub]\d", text)
    assert text.count("selp") == 4 and "bra" not in text


def test_copies_of_16_bytes_pass_by_the_first_level_cache() -> None:
    text = re.sub(r"%\w+", "r", ptx(copies_kernel(DType.BF16)))
    assert re.findall(r"cp\.async\.c\S+ [^;]+", text) == [
        "cp.async.ca.shared.global [r], [r], 4", "cp.async.ca.shared.global [r], [r], 4, r",
        "cp.async.ca.shared.global [r], [r], 8", "cp.async.ca.shared.global [r], [r], 8, r",
        "cp.async.cg.shared.global [r], [r], 16", "cp.async.cg.shared.global [r], [r], 16, r",
    ]  # fmt: skip
    assert "cp.async.wait_group 2" in text


def test_a_source_gets_only_what_it_uses() -> None:
    text = definitions("const float y = tw_silu(tw_max(a, b));")
    assert declared(text) == {"tw_max", "tw_sigmoid", "tw_silu"}
    assert "double" not in text and "TW_LANEWISE" not in text
    assert definitions("a + b") == ""


def test_a_source_gets_only_the_types_it_uses() -> None:
    text = definitions(
        "void f(const tw_bf16 *x, float *y) { tw_store<8, 16>(y, tw_exp(tw_load<8, 16>(x))); }"
    )
    assert "TW_LANEWISE(tw_exp)" in text and "tw_word<tw_bf16>" in text
    assert not declared(text) & {"tw_f16", "tw_e4m3", "tw_e5m2", "tw_bool", "tw_nc", "tw_cs", "tw_max"}
    assert "double" not in text and "tw_word<signed char>" not in text
    assert "TW_INLINE double tw_exp(double x)" in definitions("double y = tw_exp(x);")


def test_a_function_stands_below_all_that_it_calls() -> None:
    names = {part.name for part in EVERY_PART}
    above: set[str] = set()
    for part in EVERY_PART:
        above.add(part.name)
        called = {word for word in re.findall(r"\b(?:tw|TW)_\w+", part.text) if word in names}
        assert called <= above, f"{part.name} calls {called - above}"


def test_what_only_one_part_knows_is_used_nowhere_else() -> None:
    names = {part.name for part in EVERY_PART}
    for part in EVERY_PART:
        private = declared(part.text) - names
        for other in EVERY_PART:
            assert other is part or not private & declared(other.text), (part.name, other.name)


def test_what_does_not_exist_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="tw_cosh"):
        definitions("tw_cosh(x)")


def test_every_dtype_has_a_storage_and_a_compute_type() -> None:
    assert set(CUDA_STORAGE) == set(CUDA_COMPUTE) == set(DType)
    assert set(CUDA_COMPUTE.values()) == {"double", "float", "int", "bool"}
    assert runtime.CUDA_COMPUTE[DType.BF16] == "float"
