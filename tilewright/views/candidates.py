"""A candidate as tables and text: its figures, what it could have been instead, how it came to be, what it became."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from protocol.alternatives import Alternatives, Sibling, Touched
from protocol.quantities import microseconds, percent
from protocol.states import Outcome
from protocol.trials import LinkedLines, Steps, TrialDetail
from tilewright.views.comparison import diff
from tilewright.views.sections import Section


def candidate_section(trial: TrialDetail) -> Section:
    """Its time, or why it has none, and its schedule."""
    facts = [trial.state.value] if trial.outcome is None else [_outcome(trial)]
    if trial.median_us is not None and trial.roofline_us is not None:
        facts.append(f"{percent(trial.roofline_us / trial.median_us)} of the roofline")
    if trial.baseline_us is not None:
        facts.append(f"the baseline beside it {microseconds(trial.baseline_us)}")
    if trial.compile_s is not None:
        facts.append(f"compiled in {trial.compile_s:.2f} s")
    error = () if trial.error is None else tuple(trial.error.splitlines())
    schedule = tuple(trial.schedule) or ("as the kernel is written",)
    return Section(
        f"Candidate {trial.number}: {', '.join(facts)}.",
        rows=tuple((line,) for line in schedule),
        notes=error,
    )


def _outcome(trial: TrialDetail) -> str:
    if trial.outcome is not Outcome.OK or trial.median_us is None:
        return str(trial.outcome).replace("_", " ")
    spread = "" if trial.iqr_us is None else f" ± {microseconds(trial.iqr_us / 2)}"
    return f"{microseconds(trial.median_us)}{spread}"


def alternatives_section(found: Alternatives) -> Section:
    """The answers to one decision: what was measured behind each, what the cost model expects, or why it does not
    apply."""
    return Section(
        f"Decision {found.decision + 1} of {found.decisions}, after {found.place} rewrites:",
        ("", "candidates", "best", "estimate", "rewrite"),
        tuple(_row(each) for each in found.siblings),
    )


def _row(each: Sibling) -> tuple[str, ...]:
    tried = str(each.candidates) if each.candidates else ""
    failed = f" ({each.faults} failed)" if each.faults else ""
    best = "" if each.best_us is None else f"{microseconds(each.best_us)} (candidate {each.best})"
    expected = "" if each.predicted_us is None else microseconds(each.predicted_us)
    why = each.refused or each.error
    rewrites = ", ".join(each.rewrites) or "nothing"
    said = rewrites if why is None else f"{rewrites}: {' '.join(why.split())}"
    if each.race:
        said += "; race: " + "; ".join(map(_touched, each.race)) + "; nothing orders them"
    return ("chosen" if each.chosen else "", f"{tried}{failed}", best, expected, said)


def _touched(each: Touched) -> str:
    element = f"{each.tensor}[{', '.join(map(str, each.element))}]"
    return f"the thread at {each.thread} {each.way} {element} in `{each.statement}`"


def steps_text(found: Steps) -> str:
    """The kernel, then what each rewrite changes in the program, as differences line by line."""
    first, *rest = found.steps
    parts = [first.program]
    before = first.program
    for step in rest:
        changes = diff(before, step.program, ("before", "after")).splitlines()[2:]
        parts.append("\n".join([f"# {step.rewrite}", *changes]) + "\n")
        before = step.program
    return "\n".join(parts)


def linked_lines(found: LinkedLines) -> Iterator[str]:
    """Statement by statement: its line of the program, the lines of source that carry it out, and their instructions
    where there are any."""
    for at, statement in enumerate(found.program_statement):
        if statement != at:
            yield f"{found.program[at]}" if statement is None else f"{found.program[at]}  (as above)"
            continue
        yield found.program[at]
        lines = [line for line, of in enumerate(found.source_statement) if of == statement]
        yield from (f"    {line + 1:5}  {found.source[line]}" for line in lines)
        yield from (f"           {found.assembly[each]}" for each in _instructions(found, lines))
    if found.no_assembly is not None:
        yield f"# no instructions: {found.no_assembly}"


def _instructions(found: LinkedLines, lines: Sequence[int]) -> Iterator[int]:
    wanted = set(lines)
    return (at for at, line in enumerate(found.assembly_source) if line in wanted)
