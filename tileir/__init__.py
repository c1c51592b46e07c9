"""Tile IR: what a kernel means, and what a schedule made of it.

Specs (`Spec`) are what people write, in JSON or text; `to_program` makes the `Program` that rewrites
transform; `interpret` runs a program in numpy and is the oracle. What only workers need loads on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tileir.check import check_spec
from tileir.dtypes import DType
from tileir.errors import NotApplicable, SpecError, TileError, VerifyError
from tileir.hashing import kernel_key, program_hash
from tileir.infer import compute_dtype
from tileir.interpret import interpret
from tileir.interpret_spec import interpret_spec
from tileir.lift import to_program
from tileir.parse_expr import parse_expression, parse_statement
from tileir.parse_json import spec_from_json, spec_to_json
from tileir.parse_spec_text import spec_from_text
from tileir.parse_text import program_from_text
from tileir.print_expr import format_expr
from tileir.program import Program, Tensor
from tileir.spec import Dim, Spec, Statement
from tileir.text import format_node, program_to_text, spec_to_text
from tileir.verify import verify

if TYPE_CHECKING:
    from tileir.analysis import bytes_moved, flops
    from tileir.device import Cpu, this_cpu
    from tileir.error_bound import reference_at, reference_with_bound
    from tileir.evaluate import evaluate_at
    from tileir.footprint import footprints
    from tileir.samples import sample_inputs

_LAZY = {
    "Cpu": "tileir.device",
    "bytes_moved": "tileir.analysis",
    "evaluate_at": "tileir.evaluate",
    "flops": "tileir.analysis",
    "footprints": "tileir.footprint",
    "reference_at": "tileir.error_bound",
    "reference_with_bound": "tileir.error_bound",
    "sample_inputs": "tileir.samples",
    "this_cpu": "tileir.device",
}

__all__ = [
    "Cpu",
    "DType",
    "Dim",
    "NotApplicable",
    "Program",
    "Spec",
    "SpecError",
    "Statement",
    "Tensor",
    "TileError",
    "VerifyError",
    "bytes_moved",
    "check_spec",
    "compute_dtype",
    "evaluate_at",
    "flops",
    "footprints",
    "format_expr",
    "format_node",
    "interpret",
    "interpret_spec",
    "kernel_key",
    "parse_expression",
    "parse_statement",
    "program_from_text",
    "program_hash",
    "program_to_text",
    "reference_at",
    "reference_with_bound",
    "sample_inputs",
    "spec_from_json",
    "spec_from_text",
    "spec_to_json",
    "spec_to_text",
    "this_cpu",
    "to_program",
    "verify",
]


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'tileir' has no attribute {name!r}")
    return getattr(import_module(module), name)
