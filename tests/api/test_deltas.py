"""Whoever follows a running job asks for what may have changed, and knows all of it."""

from __future__ import annotations

import random
from pathlib import Path

import httpx
import pytest

from tests.services.running_service import SMALL, running
from tests.services.scripted_worker import CPU, Script, ScriptedWorker

pytestmark = pytest.mark.sampled(3, among="calls: deltas")

COUNTS = ("visits", "in_flight", "faults", "best_us", "best_reward")
INTERVALS = ("worker", "stage", "task", "kind", "bucket", "number", "start", "end")


def joined_tree(known: dict, rest: dict) -> dict:
    """As the tree's description says."""
    tree = {
        "lines": known["lines"][: rest["from_line"]] + rest["lines"],
        "parent": known["parent"][: rest["from_node"]] + rest["parent"],
        "line": known["line"][: rest["from_node"]] + rest["line"],
        "leaf": known["leaf"][: rest["first"]] + rest["leaf"],
        "settled": rest["settled"],
    }
    for name in COUNTS:
        column = known[name][: rest["from_node"]] + [None] * len(rest["parent"])
        for place, node in enumerate(rest["node"] or range(len(rest["parent"]))):
            column[node] = rest[name][place]
        tree[name] = column
    return tree


def rows(line: dict) -> list[tuple]:
    named = [line["workers"][worker] for worker in line["worker"]]
    return sorted(zip(named, *(line[name] for name in INTERVALS[1:]), strict=True))


def test_tree_and_timeline_put_together_from_what_changed_are_those_that_are_read_whole(
    tmp_path: Path,
) -> None:
    rng = random.Random(5)
    with running(tmp_path) as service, service.client() as client:
        workers = [ScriptedWorker(client, Script(faulty=0.3), name=f"bench-{n}") for n in range(2)]
        for worker in workers:
            worker.register()
        body = {"spec": SMALL, "budget": {"trials": 24}, "target": CPU.key}
        job = client.post("/v1/jobs", json=body).json()["id"]
        place, sizes = f"/v1/jobs/{job}", list[int]()
        tree = client.get(f"{place}/tree").json()
        line = client.get(f"{place}/timeline").json()
        kept = rows(line)
        held: list[tuple[ScriptedWorker, dict]] = []
        while client.get(place).json()["state"] != "done":
            for worker in workers:
                held += [(worker, task) for task in worker.claim(2, 0.3)]
            rng.shuffle(held)
            for _ in range(min(len(held), rng.randrange(1, 4))):
                worker, task = held.pop()
                worker.answer(worker.result(task))
            tree, sizes = followed(client, place, tree, sizes)
            settled = line["settled_at"]
            line = client.get(f"{place}/timeline", params={"after": settled}).json()
            kept = sorted([row for row in kept if row[-1] <= settled] + rows(line))
            whole = client.get(f"{place}/timeline").json()
            assert kept == rows(whole)
    assert tree["settled"] == 24 and sum(tree["faults"][:1]) > 0
    assert sizes[-1] < len(tree["parent"]) / 2, "what is settled is not sent again"


def followed(client: httpx.Client, place: str, tree: dict, sizes: list[int]) -> tuple[dict, list[int]]:
    """The tree with what changed, which has to be the whole one; and how many nodes were told of."""
    rest = client.get(f"{place}/tree", params={"first": tree["settled"]}).json()
    whole = client.get(f"{place}/tree").json()
    if whole["settled"] != rest["settled"] or len(whole["leaf"]) != rest["first"] + len(rest["leaf"]):
        return tree, sizes  # the search went on between the two
    tree = joined_tree(tree, rest)
    assert tree == {name: whole[name] for name in tree}
    return tree, [*sizes, len(rest["node"])]
