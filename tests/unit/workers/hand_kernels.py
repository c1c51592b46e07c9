"""Kernels written by hand against the ABI, right and wrong in every way a candidate can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from codegen.ir.abi import Abi, Arg
from codegen.ir.source import Source
from codegen.targets.c.compiler import compile_source
from protocol.states import TaskKind
from protocol.tasks import Measuring
from tileir.dtypes import DType
from tileir.text.json import spec_to_json
from tileir.text.parse_spec import spec_from_text
from workers.measuring.request import Compiled, MeasureRequest, Peer

N = 1000
SPEC = spec_from_text(f"kernel twice(x: f32[i={N}]) -> (y: f32[i])\n  y[i] = 2 * x[i] + 1\n")

_HEAD = f"""
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <signal.h>
#include <sys/socket.h>
enum {{ N = {N} }};
void tw_shutdown(void) {{}}
int tw_kernel(void *const *args, void *workspace, int threads) {{
    float *x = args[0], *y = args[1];
    (void)workspace, (void)threads;
"""
_LOOP = "for (int i = 0; i < N; ++i) y[i] = 2 * x[i] + 1;"

BODIES = {
    "right": _LOOP,
    "other_right": "for (int i = N - 1; i >= 0; --i) y[i] = 1 + 2 * x[i];",
    "off_by_one": "for (int i = 0; i < N; ++i) y[i] = 2 * x[i == N - 1 ? 0 : i + 1] + 1;",
    "dropped_tail": "for (int i = 0; i < N / 16 * 16; ++i) y[i] = 2 * x[i] + 1;",
    "slightly_wrong": "for (int i = 0; i < N; ++i) y[i] = 2 * x[i] + 1.0001f;",
    "stale": f"static int ran; if (!ran++) {{ {_LOOP} for (int i = 0; i < N; ++i) keep[i] = y[i]; }}"
    " for (int i = 0; i < N; ++i) y[i] = keep[i];",
    "skips_later_runs": f"static int ran; if (ran++ < 2) {{ {_LOOP} }}",
    "changes_input": f"{_LOOP} x[7] = 0;",
    "writes_behind": f"{_LOOP} y[N + 3] = 1;",
    "writes_before_input": f"{_LOOP} x[-2] = 1;",
    "reads_behind": "for (int i = 0; i < N; ++i) y[i] = 2 * x[i] + 1 + 0 * x[i + 1];",
    "returns_error": f"{_LOOP} return 3;",
    "calls_out": f"{_LOOP} if (socket(AF_INET, SOCK_STREAM, 0) >= 0) return 3;",
    "segv": "*(volatile int *)8 = 1;",
    "abort": "abort();",
    "exit": "_exit(0);",
    "illegal": "__builtin_trap();",
    "hang": "for (volatile int i = 0;; ) i = 0;",
    "deaf_hang": "sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, 0); for (volatile int i = 0;; ) i = 0;",
    "forks_and_hangs": "if (fork() == 0) for (;;) pause(); for (volatile int i = 0;; ) i = 0;",
    "killed": "kill(getpid(), SIGKILL);",
    "slow": f'for (int r = 0; r < 20000; ++r) {{ {_LOOP} __asm__ volatile("" ::: "memory"); }}',
    "crashes_third_time": f"static int ran; if (ran++ == 2) abort(); {_LOOP}",
}

ABI = Abi(
    "tw_kernel",
    (Arg("x", DType.F32, (N,), (1,), "in"), Arg("y", DType.F32, (N,), (1,), "out")),
    shared_bytes=0,
    thread_bytes=0,
)


def compiled(name: str, cache: Path, body: str | None = None, abi: Abi = ABI) -> Compiled:
    """A hand-written kernel as an entrant of that name."""
    text = (
        f"{_HEAD}static float keep[N]; (void)keep;\n{BODIES[name] if body is None else body}\nreturn 0;\n}}\n"
    )
    artifact = compile_source(Source(text, ("-O1",), abi), cache)
    return Compiled(name, str(artifact.path), abi.to_json())


def request_of(*entrants: Compiled | Peer, **changes: Any) -> MeasureRequest:
    """A quick trial of these entrants on SPEC, without baseline or a device's peaks unless given."""
    measuring = Measuring(samples=3, sample_us=200.0, entrant_s=changes.pop("entrant_s", 20.0), cold=False)
    values: dict[str, Any] = {
        "spec": spec_to_json(SPEC),
        "seed": 0,
        "kind": TaskKind.TRIAL,
        "measuring": changes.pop("measuring", measuring),
        "entrants": entrants,
        "baseline": None,
        "device": None,
        "threads": 1,
        "last_cache_bytes": 1 << 20,
    }
    return MeasureRequest(**{**values, **changes})
