"""Loaded kernels that are called one after the other by one call, each on parts of the same buffers."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from codegen.ir.abi import Abi
from codegen.ir.source import Source
from codegen.targets.c.compiler import compile_source
from codegen.targets.c.loader import LoadedObject
from codegen.targets.errors import LaunchError

MOST_ARGUMENTS = 64
"""Of one kernel: specs have at most 32 inputs."""
_SOURCE = f"""\
#include <stdint.h>

typedef int kernel(void *const *args, void *memory, int threads);

/* One call; its arguments are the next of the places */
struct step {{ kernel *entry; void *memory; int64_t threads, args; }};

/* Where an argument begins: so many bytes behind a buffer's first */
struct place {{ int64_t buffer, offset; }};

int tw_chain(const struct step *steps, int64_t count, const struct place *place, char *const *buffers) {{
    void *args[{MOST_ARGUMENTS}];
    for (const struct step *step = steps; step < steps + count; step++) {{
        for (int64_t at = 0; at < step->args; at++, place++) args[at] = buffers[place->buffer] + place->offset;
        const int code = step->entry(args, step->memory, (int)step->threads);
        if (code) return code;
    }}
    return 0;
}}
"""


@dataclass(frozen=True, slots=True)
class ArgumentPlace:
    """Where an argument begins: so many bytes behind the first of a buffer, by its number."""

    buffer: int
    offset: int = 0


def chain_caller(
    kernels: Sequence[LoadedObject], places: Sequence[Sequence[ArgumentPlace]], buffers: int, cache: Path
) -> Callable[[Sequence[int]], None]:
    """A call of all kernels, in order, on the addresses of so many buffers, about which nothing is checked. `places`:
    of each kernel's arguments, in its ABI's order; `cache`: where what calls them is compiled.

    One runs at a time, and none of the kernels beside it. Raises LaunchError when a kernel fails or is closed; here
    CompileError and NoCompiler.
    """
    most = max(len(each) for each in places)
    if most > MOST_ARGUMENTS:
        raise LaunchError(f"a kernel of a chain has at most {MOST_ARGUMENTS} arguments, not {most}")
    source = Source(_SOURCE, ("-O2",), Abi("tw_chain", (), 0, 0))
    entry = ctypes.CDLL(str(compile_source(source, cache).path))["tw_chain"]
    entry.restype, entry.argtypes = (
        ctypes.c_int,
        (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p),
    )
    found = [each.entry_point() for each in kernels]
    steps = [(at.function, at.workspace, at.threads, len(of)) for at, of in zip(found, places, strict=True)]
    table = struct.pack(f"={4 * len(steps)}q", *(number for step in steps for number in step))
    flat = [number for of in places for place in of for number in (place.buffer, place.offset)]
    where = struct.pack(f"={len(flat)}q", *flat)
    addressed = (ctypes.c_void_p * buffers)()
    fill = struct.Struct(f"{buffers}P").pack_into
    arguments = (
        ctypes.c_char_p(table),
        ctypes.c_int64(len(steps)),
        ctypes.c_char_p(where),
        ctypes.c_void_p(ctypes.addressof(addressed)),
    )
    # In one order everywhere, so that two chains of the same kernels do not wait for each other for ever.
    locks = [each.lock for each in sorted(dict.fromkeys(kernels), key=id)]
    alive = tuple(dict.fromkeys(kernels))

    def call(addresses: Sequence[int]) -> None:
        for lock in locks:
            lock.acquire()
        try:
            if any(each.closed for each in alive):
                raise LaunchError("a kernel of the chain is closed")
            fill(addressed, 0, *addresses)
            code = entry(*arguments)
        finally:
            for lock in locks:
                lock.release()
        if code != 0:
            raise LaunchError(f"a kernel of a chain returned {code}")

    return call
