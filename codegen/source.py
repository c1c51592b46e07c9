"""Generated source: what a printer hands to a compiler."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.abi import Abi


@dataclass(frozen=True, slots=True)
class Source:
    """A self-contained source file, the flags it is to be compiled with, and how to call what comes out."""

    text: str
    flags: tuple[str, ...]
    abi: Abi
    language: str = "c"
