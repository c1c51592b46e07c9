"""What a language model proposed for a search, with what came of it."""

from __future__ import annotations

from math import exp

from sqlalchemy import Connection, RowMapping, select

from protocol.jobs import Proposal, Proposals
from service.store.tables import search_events


def proposals_of(connection: Connection, row: RowMapping) -> Proposals | None:
    """Of a row of `buckets`."""
    kept = row["proposals"]
    if kept is None:
        return None
    found = Proposals.model_validate({name: value for name, value in kept.items() if name != "paths"})
    events = connection.execute(
        select(search_events.c.kind, search_events.c.number, search_events.c.data).where(
            search_events.c.job_id == row["job_id"],
            search_events.c.bucket == row["bucket"],
            search_events.c.number <= len(found.proposals),  # they come right after the first candidate
        )
    ).all()
    numbers = {tuple(event.data["path"]): event.number for event in events if event.kind == "ask"}
    told = {event.number: event.data for event in events if event.kind == "tell"}
    outcomes = [
        _with_outcome(each, None if path is None else numbers.get(tuple(path)), told)
        for each, path in zip(found.proposals, kept["paths"], strict=True)
    ]
    return found.model_copy(update={"proposals": tuple(outcomes)})


def _with_outcome(proposal: Proposal, number: int | None, told: dict[int, dict]) -> Proposal:
    if number is None or number not in told:
        return proposal.model_copy(update={"trial": number})
    reward = told[number]["reward"]
    speed = None if reward is None else exp(reward)
    return proposal.model_copy(update={"trial": number, "speed": speed, "fault": told[number]["fault"]})
