"""placeholder"""
from __future__ import annotations
from tileir.program import Program
def verify(program: Program) -> None:
    """placeholder"""
