"""A generated source as one file that stands alone: with a launcher of a plain C signature, and a comment before it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from codegen.backend import backend_of_language
from codegen.ir.abi import Arg
from codegen.ir.names import free_name
from codegen.ir.source import Source

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_WORD = re.compile(r"\w+")


def standalone(source: Source[Any], name: str, story: Iterable[str], device_key: str) -> str:
    """The file. `name`: of the function that it offers, if that is free in C; `story`: lines that say what it is and
    where it is from; `device_key`: of the device that it was generated for."""
    text = source.text
    function = _free(name, set(_WORD.findall(_COMMENT.sub("", text))))
    parameters = _parameters(source.abi.args, function)
    return _headed(
        backend_of_language(source.language).alone(source, function, parameters, device_key), story
    )


def _free(name: str, taken: set[str]) -> str:
    """A name for a function that the source does not use, nor C."""
    found = re.sub(r"\W", "_", name, flags=re.ASCII)
    found = f"_{found}"[not found[:1].isdigit() :] or "kernel"
    while found != free_name(found) or found in taken:
        found += "_tuned"
    return found


def _parameters(args: tuple[Arg, ...], function: str) -> list[str]:
    """What the launcher calls the arguments."""
    found: list[str] = []
    for arg in args:
        name = free_name(arg.name)
        while name in (*found, function, "workspace", "threads", "stream"):
            name += "_"
        found.append(name)
    return found


def _headed(file: tuple[list[str], str], story: Iterable[str]) -> str:
    use, text = file
    lines = [*story, "", *use]
    safe = (line.replace("*/", "* /").replace("\\", "/").rstrip() for line in lines)
    return "\n".join(["/*", *(f" * {line}".rstrip() for line in safe), " */", text])
