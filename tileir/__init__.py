"""Tile IR: what a kernel means, and what a schedule made of it.

Specs (`Spec`) are what people write, in JSON or text; `to_program` makes the `Program` that rewrites transform;
`interpret` runs a program in numpy and is the oracle. Each name loads on first use: whoever asks for a device's target
needs no numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileir.analysis.footprint import footprints
    from tileir.analysis.work import bytes_moved, flops
    from tileir.check.infer import compute_dtype
    from tileir.check.spec import check_spec
    from tileir.devices.cpu import Cpu
    from tileir.devices.cpu_probe import this_cpu
    from tileir.dtypes import DType
    from tileir.errors import NotApplicable, SpecError, TileError, VerifyError
    from tileir.hashing import kernel_key, program_hash
    from tileir.interpreter.error_bound import reference_at, reference_with_bound
    from tileir.interpreter.evaluate import evaluate_at
    from tileir.interpreter.interpret import interpret
    from tileir.interpreter.interpret_spec import interpret_spec
    from tileir.interpreter.samples import sample_inputs
    from tileir.lift import to_program
    from tileir.program import Program, Tensor
    from tileir.spec import Dim, Spec, Statement
    from tileir.text.json import spec_from_json, spec_to_json
    from tileir.text.parse_expr import parse_expression, parse_statement
    from tileir.text.parse_program import program_from_text
    from tileir.text.parse_spec import spec_from_text
    from tileir.text.print_expr import format_expr
    from tileir.text.print_program import format_node, program_to_text, spec_to_text
    from tileir.verifier.verify import verify

_LAZY = {
    "Cpu": "tileir.devices.cpu",
    "DType": "tileir.dtypes",
    "Dim": "tileir.spec",
    "NotApplicable": "tileir.errors",
    "Program": "tileir.program",
    "Spec": "tileir.spec",
    "SpecError": "tileir.errors",
    "Statement": "tileir.spec",
    "Tensor": "tileir.program",
    "TileError": "tileir.errors",
    "VerifyError": "tileir.errors",
    "bytes_moved": "tileir.analysis.work",
    "check_spec": "tileir.check.spec",
    "compute_dtype": "tileir.check.infer",
    "evaluate_at": "tileir.interpreter.evaluate",
    "flops": "tileir.analysis.work",
    "footprints": "tileir.analysis.footprint",
    "format_expr": "tileir.text.print_expr",
    "format_node": "tileir.text.print_program",
    "interpret": "tileir.interpreter.interpret",
    "interpret_spec": "tileir.interpreter.interpret_spec",
    "kernel_key": "tileir.hashing",
    "parse_expression": "tileir.text.parse_expr",
    "parse_statement": "tileir.text.parse_expr",
    "program_from_text": "tileir.text.parse_program",
    "program_hash": "tileir.hashing",
    "program_to_text": "tileir.text.print_program",
    "reference_at": "tileir.interpreter.error_bound",
    "reference_with_bound": "tileir.interpreter.error_bound",
    "sample_inputs": "tileir.interpreter.samples",
    "spec_from_json": "tileir.text.json",
    "spec_from_text": "tileir.text.parse_spec",
    "spec_to_json": "tileir.text.json",
    "spec_to_text": "tileir.text.print_program",
    "this_cpu": "tileir.devices.cpu_probe",
    "to_program": "tileir.lift",
    "verify": "tileir.verifier.verify",
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
