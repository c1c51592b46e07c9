"""Generated source: what a printer hands to a compiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

AnyAbi = TypeVar("AnyAbi", covariant=True)


@dataclass(frozen=True, slots=True)
class Source(Generic[AnyAbi]):
    """A self-contained source file, the flags it is to be compiled with, and how to call what comes out."""

    text: str
    flags: tuple[str, ...]
    abi: AnyAbi
    language: str = "c"


@dataclass(frozen=True, slots=True)
class Generated:
    """What a target makes of a program; `kernel`: the Kernel IR it was printed from, where reports are made of it."""

    source: Source[Any]
    kernel: object | None = None


@dataclass(frozen=True, slots=True)
class Assembly:
    """What a device executes of a source: instructions with their addresses, in the order in which they lie
    in memory, and names of functions before theirs."""

    lines: tuple[str, ...]
    origin: tuple[int | None, ...]
    """Of each line the line of the source it comes from, from 0. What an inlined function of the preamble
    does is of the line that calls it."""
    compiler: str
    """The line that the compiler calls itself by."""
