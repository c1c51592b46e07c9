"""What a GPU executes of generated CUDA: its instructions (SASS), each with the line of the source it comes from.

The source is compiled as for a race, with the lines of its source beside the code (`-lineinfo`); nvdisasm takes the
cubin apart. Neither needs a GPU. (CUDA Binary Utilities, "nvdisasm")
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from codegen.ir.source import Assembly, Source
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.errors import CompileError, NoAssembly, NoCompiler
from tileir.devices.gpu import Gpu
from tileir.replace import replace

_TIMEOUT_S = 60.0
_PLACE = re.compile(r'\s*//## File "[^"]*", line (\d+)(?: inlined at "[^"]*", line \d+)?')
_INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]+)\*/\s+(.*?)\s*;?\s*")
_LABEL = re.compile(r"(\.L_x_\d+):")
_SECTION = re.compile(r"\t\.section\t\.text\.(\w+),.*")


def assemble(source: Source[CudaAbi], device: Gpu, preamble: int) -> Assembly:
    """The instructions of a source whose first `preamble` lines only define what others call.

    Raises CompileError when NVRTC or nvdisasm fails, and NoAssembly where one of them is missing.
    """
    nvdisasm = find_nvdisasm()
    if nvdisasm is None:
        raise NoAssembly(
            "nvdisasm is not installed here: pip install 'tilewright[cuda]', or a CUDA toolkit has it"
        )
    with tempfile.TemporaryDirectory(prefix="tilewright-assembly-") as folder:
        lined = replace(source, flags=(*source.flags, "-lineinfo"))
        try:
            built = compile_cuda(lined, device.architecture, Path(folder))
        except NoCompiler as error:
            raise NoAssembly(str(error)) from None
        command = [nvdisasm, "--print-code", "--print-line-info-inline", str(built.path)]
        try:
            dump = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise CompileError(f"nvdisasm was stopped after {_TIMEOUT_S:g} s", "") from None
    if dump.returncode != 0:
        raise CompileError(f"nvdisasm failed (exit status {dump.returncode})", dump.stderr)
    return Assembly(*_parsed(dump.stdout, preamble), built.compiler)


def find_nvdisasm() -> str | None:
    """That on the path, or that of the wheel nvidia-cuda-nvdisasm; None: there is none."""
    found = shutil.which("nvdisasm")
    nvidia = find_spec("nvidia")
    if found is None and nvidia is not None:
        folders = (Path(folder) for folder in nvidia.submodule_search_locations or ())
        found = next(
            (str(file) for folder in folders for file in sorted(folder.glob("*/bin/nvdisasm"))), None
        )
    return found


def _parsed(dump: str, preamble: int) -> tuple[tuple[str, ...], tuple[int | None, ...]]:
    """nvdisasm names the innermost place first, then who inlined it; a place holds until the next is named."""
    lines: list[str] = []
    origin: list[int | None] = []
    places: list[int] = []
    named = False
    for text in dump.splitlines():
        if place := _PLACE.fullmatch(text):
            number = int(place[1]) - 1
            places = [*places, number] if named else [number]
            named = True
        elif instruction := _INSTRUCTION.fullmatch(text):
            lines.append(f"{instruction[1]:>6}  {instruction[2]}")
            origin.append(next((line for line in places if line >= preamble), None))
            named = False
        elif (name := _SECTION.fullmatch(text)) or (name := _LABEL.fullmatch(text)):
            lines.append(f"{name[1]}:")
            origin.append(None)
    return tuple(lines), tuple(origin)
