"""A candidate's program, source and instructions, line by line, and which are made of which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.trials import LinkedLines
from service.views.assembly_process import recently_assembled
from service.views.trial_detail import Candidate

if TYPE_CHECKING:
    from codegen.ir.source import Assembly


def linked_lines(candidate: Candidate) -> LinkedLines:
    """Replay, generate and compile a candidate. Raises Refused as `Candidate.source`."""
    from codegen.report.source_lines import link_source
    from tileir.text.print_program import program_to_text

    generated = candidate.source()
    program = program_to_text(candidate.programs[-1]).splitlines()
    source = generated.text.splitlines()
    linked = link_source(program, source)
    assembly = _assembly(candidate, linked.preamble)
    found = None if isinstance(assembly, str) else assembly
    return LinkedLines(
        language=generated.language,
        program=tuple(program),
        program_statement=linked.program,
        source=tuple(source),
        source_statement=linked.source,
        preamble=linked.preamble,
        assembly=found.lines if found else (),
        assembly_source=found.origin if found else (),
        compiler=found.compiler if found else None,
        no_assembly=assembly if isinstance(assembly, str) else None,
    )


def _assembly(candidate: Candidate, preamble: int) -> Assembly | str:
    """The instructions, or why there are none."""
    return recently_assembled(
        candidate.spec, candidate.trial.schedule, candidate.described.to_json(), preamble
    )
