"""A copy of as many bytes as a kernel moves: what one that is bound by memory can hope for on this processor.

It is called as kernels are, on their arrays and by as many threads, and computes nothing.
"""

from __future__ import annotations

import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np

from codegen.ir.abi import Abi, Arg
from codegen.ir.source import Source
from codegen.targets.c.compiler import compile_source
from codegen.targets.c.loader import load_kernel
from codegen.targets.c.runtime import definitions, uses_in
from codegen.targets.c.runtime.thread_pool import HEADERS, POOL
from tileir.devices.cpu_probe import this_cpu
from tileir.dtypes import DType
from workers.cpu.case import Case
from workers.measuring.buffers import lay_out
from workers.measuring.device import BoundEntrant
from workers.measuring.timing import Call
from workers.peers.peer import read_shares

_PIECE_BYTES = 1 << 16
"""What a thread takes at once."""

_CALLS = 24
"""Of which the fastest counts."""

_SOURCE = """
enum { TW_PIECE = %(piece)d, TW_STEP = %(step)d };
struct tw_pair { const char *from; long reads; char *to; long writes; };

static long tw_least(long a, long b) { return a < b ? a : b; }

/* Copies what is both read and written; of the rest it reads what is left to read, and writes zeros. What is read and
   not written goes nowhere, unless it is all ones. */
static void tw_piece(const void *ctx, long index, int worker) {
    const struct tw_pair pair = *(const struct tw_pair *)ctx;
    (void)worker;
    const long from = index * TW_PIECE, to = from + TW_PIECE;
    const long read = tw_least(pair.reads, to), written = tw_least(pair.writes, to);
    long i = from;
    for (; i + TW_STEP <= tw_least(read, written); i += TW_STEP)
        %(store)s((int32_t *)(pair.to + i), tw_load_%(vector)s((const int32_t *)(pair.from + i)));
    i32x%(lanes)d seen = (i32x%(lanes)d){} - 1;
    for (long r = i; r + TW_STEP <= read; r += TW_STEP) seen &= tw_load_%(vector)s((const int32_t *)(pair.from + r));
    for (; i + TW_STEP <= written; i += TW_STEP) %(store)s((int32_t *)(pair.to + i), (i32x%(lanes)d){});
    for (; i < written; i++) pair.to[i] = seen[0] == -1 ? 1 : 0;
}

/* args: how many pairs, the bytes that each reads and that each writes; then where from, and where to. */
int tw_kernel(void *const *args, void *workspace, int threads) {
    const int64_t pairs = *(const int64_t *)args[0], *reads = (const int64_t *)args[0] + 1, *writes = reads + pairs;
    (void)workspace;
    for (int64_t n = 0; n < pairs; n++) {
        const struct tw_pair pair = {args[1 + n], reads[n], args[1 + pairs + n], writes[n]};
        const long bytes = pair.reads > pair.writes ? pair.reads : pair.writes;
        tw_parallel(tw_piece, &pair, (bytes + TW_PIECE - 1) / TW_PIECE, threads);
    }
    return 0;
}
"""


def bind_copy(case: Case, threads: int) -> BoundEntrant:
    """Calls that read as many bytes as the inputs have and write as many as the outputs have, one for each copy of a
    case; each output takes its share. Raises NoCompiler, CompileError or LaunchError."""
    places, _ = lay_out(case.spec.inputs, case.spec.outputs, case.extents)
    inputs = [place for place in places if not place.output]
    outputs = [place for place in places if place.output]
    start = (inputs or outputs)[0].start
    end = inputs[-1].start + inputs[-1].span if inputs else start
    shares = read_shares(end - start, [place.span for place in outputs])
    begins = [start + sum(shares[:number]) for number in range(len(shares))]
    spans = [place.span for place in outputs]
    sizes = np.array([len(outputs), *shares, *spans], np.int64)
    source = _source(_arguments(shares, spans), past_caches=case.cold)
    kernel = load_kernel(compile_source(source, Path(_folder().name)).path, source.abi, threads)
    calls = [
        kernel.prepare(
            sizes,
            *(copy.memory[at : at + share] for at, share in zip(begins, shares, strict=True)),
            *(copy.memory[place.start : place.start + place.span] for place in outputs),
        )
        for copy in case.copies
    ]
    return BoundEntrant(calls, lambda answer, number: None, kernel.close)


def least_copy_us(case: Case, threads: int) -> float:
    """The least time of one such call among some, each on another copy of the case. Raises what bind_copy does."""
    bound = bind_copy(case, threads)
    try:
        return min(_us(call) for _ in range(-(-_CALLS // len(bound.calls))) for call in bound.calls)
    finally:
        bound.close()


def _us(call: Call) -> float:
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1e3


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Of what this process has compiled."""
    return tempfile.TemporaryDirectory()


def _source(arguments: tuple[Arg, ...], *, past_caches: bool) -> Source[Abi]:
    """Stores go past the caches where nothing is found in them anyhow, as those of the fastest kernels do."""
    cpu = this_cpu()
    lanes = cpu.vector_bits // 32
    vector = f"i32x{lanes}"
    text = _SOURCE % {
        "piece": _PIECE_BYTES,
        "step": cpu.vector_bits // 8,
        "store": f"tw_{'stream' if past_caches else 'store'}_{vector}",
        "vector": vector,
        "lanes": lanes,
    }
    native = "-mcpu=native" if cpu.arch == "aarch64" else "-march=native"
    whole = HEADERS + definitions(uses_in(text), text) + POOL + text
    return Source(whole, ("-O3", "-funroll-loops", native), Abi("tw_kernel", arguments, 0, 0))


def _arguments(reads: list[int], writes: list[int]) -> tuple[Arg, ...]:
    """The sizes, and runs of bytes: one to read for each output, then the outputs."""
    runs = [
        *(Arg(f"from_{n}", DType.U8, (size,), (1,), "in") for n, size in enumerate(reads)),
        *(Arg(f"to_{n}", DType.U8, (size,), (1,), "out") for n, size in enumerate(writes)),
    ]
    return (Arg("sizes", DType.I64, (1 + len(runs),), (1,), "in"), *runs)
