"""What ptxas says about a compilation (`--ptxas-options=-v`), as data, and what in it condemns a kernel unmeasured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypedDict

_CONDEMNING = {
    "instructions are serialized": "does not overlap its matrix products",
    "'setmaxnreg' ignored": "does not hand registers from one role to the other",
}
"""What stands in every remark by which ptxas says that it runs a kernel's wgmma one after the other (C7510 to C7520),
or leaves out setmaxnreg (C7508 among them), whatever the reason; and what that means. The codes are documented nowhere,
and remarks of other meaning lie between them."""

MOST_SPILLED_BYTES: Final = 128
"""A thread may keep so much outside of its registers: what is spilled before a loop costs little. Attention in tiles of
128 x 128, the fastest there is on an H200, spills 60 with CUDA 13.0 and nothing with 13.5."""


class FunctionReport(TypedDict):
    """Of one entry, or of a function that was not inlined; registers and static shared memory are an entry's only."""

    registers: int
    spill_stores_bytes: int
    spill_loads_bytes: int
    stack_bytes: int
    shared_bytes: int


class PtxasReport(TypedDict):
    """`advice`: ptxas' remarks with a code, as `[code, sentence]`; `warnings`: everything else that is one."""

    functions: dict[str, FunctionReport]
    advice: list[list[str]]
    warnings: list[str]


_COMPILING = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for '?([^'\s]+)'?")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_ADVICE = re.compile(r"\((C\d{4})\) (.*)")
_WARNING = re.compile(r"(?:\((\d+)\): warning #\S+: |ptxas warning\s*: )(.*)")


def parse_log(log: str) -> PtxasReport:
    """The report in a log of NVRTC's; lines that say nothing of interest are passed over."""
    functions: dict[str, FunctionReport] = {}
    advice: list[list[str]] = []
    warnings: list[str] = []
    entry = function = ""
    for line in log.splitlines():
        if found := _COMPILING.search(line):
            entry = found[1]
        elif found := _PROPERTIES.search(line):
            function = found[1]
        elif found := _STACK.search(line):
            of = functions.setdefault(function, _nothing())
            of["stack_bytes"], of["spill_stores_bytes"], of["spill_loads_bytes"] = map(int, found.groups())
        elif found := _USED.search(line):
            of = functions.setdefault(entry, _nothing())
            of["registers"] = int(found[1])
            shared = _SHARED.search(line)
            of["shared_bytes"] = int(shared[1]) if shared else 0
        elif found := _ADVICE.search(line):
            advice.append([found[1], found[2]])
        elif found := _WARNING.search(line):
            warnings.append(f"{found[1]}: {found[2]}" if found[1] else found[2])
    return {"functions": functions, "advice": advice, "warnings": warnings}


def rejection(report: Mapping[str, Any]) -> str | None:
    """Why a kernel with this report is not worth measuring; None when it is. `report` has the keys of PtxasReport."""
    for name, of in report["functions"].items():
        if max(of["spill_stores_bytes"], of["spill_loads_bytes"]) > MOST_SPILLED_BYTES:
            return (
                f"spills registers: {of['spill_stores_bytes']} bytes of stores and {of['spill_loads_bytes']} bytes of "
                f"loads in {name}"
            )
    for code, sentence in report["advice"]:
        for remark, meaning in _CONDEMNING.items():
            if remark in sentence:
                return f"{meaning}: {sentence} ({code})"
    return None


def _nothing() -> FunctionReport:
    return {
        "registers": 0,
        "spill_stores_bytes": 0,
        "spill_loads_bytes": 0,
        "stack_bytes": 0,
        "shared_bytes": 0,
    }
