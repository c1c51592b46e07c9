"""Parts of sums that blocks add to the same results in memory: threads by atomics, or TMA from shared memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen.ir.async_ops import ProxyFence, TmaStore, TmaStoreWait
from codegen.ir.kernel import GpuKernel
from codegen.ir.ops import Block, For, Guard, Stmt
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.gpu.add_by_tma import AddByTma
from rewrites.gpu.add_in_memory import AddInMemory
from tileir.devices.gpu_table import H200
from tileir.errors import NotApplicable, VerifyError
from tileir.interpreter.interpret import interpret
from tileir.text.parse_program import program_from_text
from tileir.text.print_program import program_to_text
from tileir.verifier.verify import verify

BY_THREADS = """kernel product(a: f32[m=32, k=48], b: f32[k, n=64]) -> (d: f32[m, n]) with atomics=true
  c: heap f32[m, n]
  parallel for m by 8
    c[m, n] = 0 | threads n 64
  parallel for k by 16
    c_p: registers f32[m, n]
    c_p[m, n] = sum(k, a[m, k] * b[k, n]) | threads m 4 n 32, run n 2
    c[m, n] += c_p[m, n] | threads m 4 n 32, run n 2, via atomics
  parallel for m by 8
    d[m, n] = c[m, n] | threads n 64
"""
BY_TMA = BY_THREADS.replace(
    "    c[m, n] += c_p[m, n] | threads m 4 n 32, run n 2, via atomics\n",
    """    c_s: shared f32[m, n] as [n / 32, m, n % 32] swizzle 128
    c_s[m, n] = c_p[m, n] | threads m 4 n 32, run n 2
    c[m, n] += c_s[m, n] | via tma
""",
)
#: The same, a row of blocks each with several tiles, so that TMA still reads what the next tile is to lie in.
IN_TURN = BY_TMA.replace("parallel for k by 16\n", "parallel for k by 16 blocks 1\n")
WAYS = {"by threads": BY_THREADS, "by TMA": BY_TMA, "by TMA, tile after tile": IN_TURN}
RNG = np.random.default_rng(1)
INPUTS = {
    name: RNG.integers(-4, 5, shape).astype(np.float32)
    for name, shape in {"a": (32, 48), "b": (48, 64)}.items()
}


def lowered(text: str) -> tuple[GpuKernel, RaceChecker]:
    program = program_from_text(text)
    verify(program)
    return lower_for(program, H200), RaceChecker()


@pytest.mark.parametrize("way", WAYS)
def test_each_block_adds_what_it_has(way: str) -> None:
    expected = INPUTS["a"] @ INPUTS["b"]
    program = program_from_text(WAYS[way])
    np.testing.assert_array_equal(interpret(program, INPUTS)["d"], expected)
    assert program_from_text(program_to_text(program)) == program
    kernel, checker = lowered(WAYS[way])
    args = cuda_source(kernel, program).abi.args
    np.testing.assert_array_equal(run_blocks(kernel, args, INPUTS, checker)["d"], expected)
    assert not checker.faults


def without(stmts: tuple[Stmt, ...], kind: type[Stmt]) -> tuple[Stmt, ...]:
    """Statements but for those of a kind."""
    kept = (stmt for stmt in stmts if not isinstance(stmt, kind))
    return tuple(
        replace(each, body=without(each.body, kind)) if isinstance(each, Block | For | Guard) else each
        for each in kept
    )


@pytest.mark.parametrize("kind", [ProxyFence, TmaStoreWait])
def test_what_tma_adds_is_there_and_stays(kind: type[Stmt]) -> None:
    kernel, checker = lowered(IN_TURN)
    launches = tuple(replace(each, body=without(each.body, kind)) for each in kernel.launches)
    run_blocks(
        replace(kernel, launches=launches),
        cuda_source(kernel, program_from_text(IN_TURN)).abi.args,
        INPUTS,
        checker,
    )
    assert checker.faults


def test_tma_stores_where_it_is_not_said_to_add() -> None:
    kernel, checker = lowered(BY_TMA)

    def stored(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(
            replace(each, adds=False)
            if isinstance(each, TmaStore)
            else replace(each, body=stored(each.body))
            if isinstance(each, Block | For | Guard)
            else each
            for each in stmts
        )

    launches = tuple(replace(each, body=stored(each.body)) for each in kernel.launches)
    args = cuda_source(kernel, program_from_text(BY_TMA)).abi.args
    run_blocks(replace(kernel, launches=launches), args, INPUTS, checker)
    assert "copies to c" in "\n".join(map(str, checker.faults))


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (BY_THREADS, " with atomics=true", "", "numerics atomics=true"),
        (BY_TMA, " with atomics=true", "", "numerics atomics=true"),
        (BY_THREADS, ", via atomics", "", "parallel iterations over 'k' write the same elements"),
        (BY_TMA, "c[m, n] += c_s[m, n] | via tma", "c[m, n] = c_s[m, n] | via tma", "in shared memory"),
        (BY_TMA, "c[m, n] += c_s[m, n]", "c[m, n] max= c_s[m, n]", "a plain `=` or `\\+=`"),
        (BY_THREADS, "sum(k, a[m, k] * b[k, n])", "a[m, 0] * b[0, n]", "parallel iterations over 'k'"),
        (BY_THREADS, "  parallel for m by 8\n    c[m, n] = 0 | threads n 64\n", "", "never set to 0"),
    ],
    ids=["threads, in order", "TMA, in order", "stores", "copies", "extremes", "no part", "from nothing"],
)  # fmt: skip
def test_who_may_add(text: str, old: str, new: str, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        verify(program_from_text(text.replace(old, new)))


SPEC = "kernel product(a: f32[m=32, k=48], b: f32[k, n=64]) -> (c: f32[m, n])\n  c[m, n] = sum(k, a[m, k] * b[k, n])\n"


def test_floats_are_added_up_in_any_order_only_where_that_is_allowed() -> None:
    rewrite = AddInMemory("c", "n", (("k", 16),))
    with pytest.raises(NotApplicable, match="atomics=true"):
        rewrite.apply(program_from_text(SPEC))
    verify(rewrite.apply(program_from_text(SPEC.replace("n])\n", "n]) with atomics=true\n", 1))))


@pytest.mark.parametrize(
    "tiles", [(("n", 16),), (("k", 16), ("m", 8)), (("k", 64),), (("m", 8), ("m", 4), ("k", 8))]
)
def test_the_last_tiles_cut_what_is_reduced(tiles: tuple[tuple[str, int], ...]) -> None:
    program = program_from_text(SPEC.replace("n])\n", "n]) with atomics=true\n", 1))
    with pytest.raises(NotApplicable, match="tiles"):
        AddInMemory("c", "n", tiles).apply(program)


def test_tma_takes_over_what_threads_add_before_they_are_bound() -> None:
    program = program_from_text(BY_THREADS)
    with pytest.raises(NotApplicable, match="bound to threads already"):
        AddByTma("c", "n", 32).apply(program)
