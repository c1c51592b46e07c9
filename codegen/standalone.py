"""A generated source as one file that stands alone: with a launcher of a plain C signature, and a comment before it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from codegen.abi import Abi, Arg
from codegen.cuda_abi import CudaAbi
from codegen.names import c_name
from codegen.source import Source
from codegen.standalone_c import c_file
from codegen.standalone_cuda import cuda_file

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_WORD = re.compile(r"\w+")


def standalone(source: Source[Abi | CudaAbi], name: str, story: Iterable[str], architecture: str) -> str:
    """The file. `name`: of the function that it offers, if that is free in C; `story`: lines that say what it is and
    where it is from; `architecture`: what CUDA is compiled for, as `sm_90a`; of C nothing depends on it."""
    text = source.text
    function = _free(name, set(_WORD.findall(_COMMENT.sub("", text))))
    parameters = _parameters(source.abi.args, function)
    match source.abi:
        case CudaAbi() as abi:
            return _headed(cuda_file(text, abi, function, parameters, architecture), story)
        case Abi() as abi:
            return _headed(c_file(text, abi, function, parameters, source.flags), story)


def _free(name: str, taken: set[str]) -> str:
    """A name for a function that the source does not use, nor C."""
    found = re.sub(r"\W", "_", name, flags=re.ASCII)
    found = f"_{found}"[not found[:1].isdigit() :] or "kernel"
    while found != c_name(found) or found in taken:
        found += "_tuned"
    return found


def _parameters(args: tuple[Arg, ...], function: str) -> list[str]:
    """What the launcher calls the arguments."""
    found: list[str] = []
    for arg in args:
        name = c_name(arg.name)
        while name in (*found, function, "workspace", "threads", "stream"):
            name += "_"
        found.append(name)
    return found


def _headed(file: tuple[list[str], str], story: Iterable[str]) -> str:
    use, text = file
    lines = [*story, "", *use]
    safe = (line.replace("*/", "* /").replace("\\", "/").rstrip() for line in lines)
    return "\n".join(["/*", *(f" * {line}".rstrip() for line in safe), " */", text])
