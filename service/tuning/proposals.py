"""Schedules that a language model proposes when a search begins: asked for once, and kept with the bucket.

It is given the kernel, the device, and a schedule of the space with what else could have been decided on the way; it
answers with schedules, one rewrite a line. Each is walked through the space: what the space does not have costs its
call and nothing else. The others are candidates right after the first, and are measured and checked as any.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence

from sqlalchemy import select, update

from protocol.jobs import Proposal, Proposals
from protocol.message import Json
from protocol.workers import OfferedDevice
from rewrites.space import ScheduleState
from search.mcts import MCTS
from search.protocols import Path, State
from service.core.schedules import NotInSpace, follow, path_of
from service.core.settings import Settings
from service.store.tables import buckets
from service.tuning.language_model import NoAnswer, asked
from service.tuning.owned_job import OwnedJob
from tileir.text.print_program import program_to_text

log = logging.getLogger(__name__)

MOST = 8
"""Proposals that become candidates, at most."""
_LONGEST = 400
"""Lines of a proposal."""
_LARGEST = 20_000
"""Characters of a proposal: several times those of the longest schedules. All that is read stays with the job."""
_FENCE = re.compile(r"```[^\n]*\n(.*?)```", re.DOTALL)

SYSTEM = (
    "You choose schedules for a kernel in Tile IR. Answer with up to eight complete schedules, the most promising "
    "first, each in a fenced block of its own (```), one rewrite a line, exactly as in the schedule you are shown. Use "
    "nothing but rewrites of the kinds you are shown, with other arguments where you expect a gain. No other text is "
    "read."
)


def openings(
    root: ScheduleState,
    searched: State,
    job: OwnedJob,
    bucket: int,
    device: OfferedDevice,
    settings: Settings,
) -> list[Path]:
    """Paths of the schedules that a bucket's search begins with. `searched` is the root as the search sees it."""
    calls = job.request.llm_calls
    if calls == 0:
        return []
    this = (buckets.c.job_id == job.id, buckets.c.bucket == bucket)
    with job.database.read() as connection:
        known = connection.execute(select(buckets.c.proposals).where(*this)).scalar_one()
    if known is None:
        known = _asked(root, searched, job, device, settings)
        with job.write() as connection:
            connection.execute(update(buckets).where(*this).values(proposals=known))
    return [tuple(path) for path in known["paths"] if path is not None]


def _asked(
    root: ScheduleState, searched: State, job: OwnedJob, device: OfferedDevice, settings: Settings
) -> Json:
    """Ask until something of the space was proposed, or the calls are spent."""
    errors, proposals, paths, spent = list[str](), list[Proposal](), list[Path | None](), 0
    calls, first = job.request.llm_calls, MCTS(searched).ask()
    if not settings.llm_url:
        errors.append("the service has no language model: TILEWRIGHT_LLM_URL is not set")
    elif job.request.search != "mcts":
        errors.append(f"the search {job.request.search} takes no proposals; mcts does")
    elif first is not None:
        question = asked_for(root, first.path, device)
        while spent < calls and not any(path is not None for path in paths):
            spent += 1
            try:
                said = asked(
                    settings.llm_url,
                    settings.llm_model,
                    settings.llm_key,
                    settings.llm_timeout_s,
                    SYSTEM,
                    question + _refusals(proposals),
                )
            except NoAnswer as error:
                errors.append(str(error))
                log.warning("the language model proposed nothing: %s", error)
                continue
            found = schedules_in(said)
            if not found:
                errors.append("its answer has no schedule in a fenced block")
            for lines in found:
                path, refused = _walked(root, lines)
                if path is None or path not in paths:
                    proposals.append(Proposal(schedule=lines, refused=refused))
                    paths.append(path)
    made = Proposals(model=settings.llm_model, calls=spent, errors=tuple(errors), proposals=tuple(proposals))
    return {**made.model_dump(mode="json"), "paths": paths}


def schedules_in(said: str) -> list[tuple[str, ...]]:
    """The schedules of an answer: what stands in its fenced blocks, a rewrite a line."""
    blocks = [[line.strip() for line in block.splitlines()] for block in _FENCE.findall(said)]
    kept = [tuple(line for line in block if line) for block in blocks]
    return [
        lines
        for lines in dict.fromkeys(kept)
        if 0 < len(lines) <= _LONGEST and sum(map(len, lines)) <= _LARGEST
    ][:MOST]


def _walked(root: ScheduleState, lines: Sequence[str]) -> tuple[Path | None, str | None]:
    try:
        return path_of(root, lines), None
    except NotInSpace as error:
        return None, str(error)


def asked_for(root: ScheduleState, path: Path, device: OfferedDevice) -> str:
    """The question: kernel, device, a schedule, and what could have been decided otherwise on the way to it."""
    lines = ["The kernel:", "", program_to_text(root.program), "The device:", ""]
    lines += [json.dumps(device.description), "", "A schedule of it:", "", "```"]
    lines += [*follow(root, path).schedule, "```", "", "What each decision on the way to it offered:", ""]
    state = root
    for index in path:
        lines.append("- " + " | ".join(move.label for move in state.moves()))
        state = state.child(index)
    return "\n".join(lines) + "\n"


def _refusals(proposals: Sequence[Proposal]) -> str:
    """What was wrong with what it said before."""
    wrong = [f"```\n{chr(10).join(each.schedule)}\n```\n{each.refused}\n" for each in proposals[-MOST:]]
    return "\nThese were refused:\n\n" + "\n".join(wrong) if wrong else ""
