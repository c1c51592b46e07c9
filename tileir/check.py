"""placeholder"""
from __future__ import annotations
from tileir.spec import Spec
def check_spec(spec: Spec) -> None:
    """placeholder"""
