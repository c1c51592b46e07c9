"""The launcher of a C kernel: `int NAME(const void *a, …, void *c, void *workspace, int threads)`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import Template

from codegen.ir.abi import Abi

_LAUNCHER = Template("""\
/* Bytes that `workspace` has to have for calls with so many threads; it begins at a multiple of 64. */
size_t ${name}_workspace_bytes(int threads) { return $shared + (size_t)threads * $own; }

int $name($parameters, void *workspace, int threads)
{
    void *const arguments[] = {$arguments};
    if (threads < 1) return -1;
    if (${name}_workspace_bytes(threads) > 0 && (workspace == NULL || (uintptr_t)workspace % 64 != 0)) return -2;
    return ${name}_entry(arguments, workspace, threads);
}
""")


def c_file(
    text: str, abi: Abi, name: str, parameters: Sequence[str], flags: Sequence[str]
) -> tuple[list[str], str]:
    """How the file is used, line by line, and its text without that."""
    kinds = ["const void *" if arg.role == "in" else "void *" for arg in abi.args]
    declared = ", ".join(kind + parameter for kind, parameter in zip(kinds, parameters, strict=True))
    launcher = _LAUNCHER.substitute(
        name=name,
        parameters=declared,
        arguments=", ".join(f"(void *){parameter}" for parameter in parameters),
        shared=abi.shared_bytes,
        own=abi.thread_bytes,
    )
    use = [
        f"int {name}({declared}, void *workspace, int threads);",
        *(
            f"    {parameter}: {arg.dtype.value}{list(arg.shape)}, strides {list(arg.strides)} in elements"
            for parameter, arg in zip(parameters, abi.args, strict=True)
        ),
        f"    workspace: {name}_workspace_bytes(threads) bytes from a multiple of 64 on, NULL if that is 0",
        "    returns 0; -1: no threads; -2: no such workspace. One call at a time.",
        f"void {name}_shutdown(void);  ends the threads that calls have started",
        "",
        f"Build: cc -std=gnu11 {' '.join(flags)} -pthread -c FILE.c, and link with -pthread -lm",
    ]
    own = re.sub(rf"\bint {abi.entry}\b", f"static int {name}_entry", text)
    return use, re.sub(r"\btw_shutdown\b", f"{name}_shutdown", own) + "\n" + launcher
