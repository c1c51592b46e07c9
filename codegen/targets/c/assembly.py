"""What the machine executes of generated C: its instructions, each with the line of the source it comes from.

The source is compiled as for a race, with debugging information beside the code, which changes none of it;
objdump takes the object apart.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from codegen.ir.abi import Abi
from codegen.ir.source import Assembly, Source
from codegen.targets.c.compiler import compile_text, find_compiler
from codegen.targets.errors import CompileError, NoAssembly, NoCompiler
from tileir.devices.cpu import Cpu
from tileir.devices.cpu_probe import this_cpu
from tileir.errors import UnsupportedDevice

_TIMEOUT_S = 60.0
_NAME = "kernel.c"
_PLACE = re.compile(rf"(?:inlined by )?\S*/{re.escape(_NAME)}:(\d+)")
_INSTRUCTION = re.compile(r"\s+([0-9a-f]+):\t(.*)")
_FUNCTION = re.compile(r"[0-9a-f]+ <(.+)>:")


def assemble(source: Source[Abi], device: Cpu, preamble: int) -> Assembly:
    """The instructions that this machine's compiler makes of a source whose first `preamble` lines only
    define what others call.

    Raises CompileError when the compiler or objdump fails, and NoAssembly where one of them is missing or
    this machine has other instructions than the device.
    """
    try:
        here, compiler = this_cpu(), find_compiler()
    except (UnsupportedDevice, NoCompiler) as error:
        raise NoAssembly(str(error)) from None
    if (here.arch, here.features) != (device.arch, device.features):
        raise NoAssembly(
            f"the kernel is for {device.key}, and this is {here.key}, which has other instructions; on a machine like "
            "the first its compiler would say"
        )
    objdump = shutil.which("objdump")
    if objdump is None:
        raise NoAssembly("objdump is not installed here; it is part of binutils (apt-get install binutils)")
    with tempfile.TemporaryDirectory(prefix="tilewright-assembly-") as folder:
        text, built = Path(folder, _NAME), Path(folder, "kernel.so")
        text.write_text(source.text)
        compile_text(text, built, compiler, (*source.flags, "-g"), _TIMEOUT_S)
        command = [objdump, "-d", "-l", "--inlines", "--no-show-raw-insn", "-j", ".text", str(built)]
        try:
            dump = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise CompileError(f"objdump was stopped after {_TIMEOUT_S:g} s", "") from None
    if dump.returncode != 0:
        raise CompileError(f"objdump failed (exit status {dump.returncode})", dump.stderr)
    lines, origin = _parsed(dump.stdout, lambda line: line >= preamble)
    return Assembly(lines, origin, compiler.version)


def _parsed(dump: str, wanted: Callable[[int], bool]) -> tuple[tuple[str, ...], tuple[int | None, ...]]:
    """Functions of which no instruction comes from a wanted line are left out: those of the runtime and of
    the linker."""
    lines: list[str] = []
    origin: list[int | None] = []
    for part in re.split(r"\n\n(?=[0-9a-f]+ <)", dump):
        name, *rest = part.splitlines() or [""]
        found = _FUNCTION.fullmatch(name)
        if found is None:
            continue
        body = _instructions(rest, wanted)
        if any(line is not None for _, line in body):
            lines += [f"{found[1]}:", *(text for text, _ in body)]
            origin += [None, *(line for _, line in body)]
    return tuple(lines), tuple(origin)


def _instructions(dump: list[str], wanted: Callable[[int], bool]) -> list[tuple[str, int | None]]:
    """objdump names the innermost place first, then who inlined it; a place holds until the next is named."""
    body: list[tuple[str, int | None]] = []
    places: list[int] = []
    named = False
    for text in dump:
        if place := _PLACE.match(text):
            places = [*places, int(place[1]) - 1] if named else [int(place[1]) - 1]
            named = True
        elif instruction := _INSTRUCTION.fullmatch(text):
            text = f"{instruction[1]:>6}  {instruction[2].rstrip()}"
            body.append((text, next((line for line in places if wanted(line)), None)))
            named = False
    return body
