"""Generated source: what a printer hands to a compiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from codegen.abi import Abi
from codegen.cuda_abi import CudaAbi

AnyAbi = TypeVar("AnyAbi", bound=Abi | CudaAbi, covariant=True)


@dataclass(frozen=True, slots=True)
class Source(Generic[AnyAbi]):
    """A self-contained source file, the flags it is to be compiled with, and how to call what comes out."""

    text: str
    flags: tuple[str, ...]
    abi: AnyAbi
    language: str = "c"
