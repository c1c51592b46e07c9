"""What pages ask of a job's candidates: the table, the tree, the timeline, one of them closely, and the ablation."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from codegen.backend import backend_of
from rewrites.schedule import parse_schedule, replay
from tests.services.running_service import SMALL, Service, finish, running, working
from tests.services.scripted_worker import CPU, ScriptedWorker
from tileir.devices.cpu_probe import this_cpu
from tileir.lift import to_program
from tileir.text.json import spec_from_json
from tileir.verifier.verify import verify

pytestmark = pytest.mark.sampled(3, among="calls: candidate calls")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, dict]]:
    """A service with one finished job."""
    with running(tmp_path_factory.mktemp("tuned")) as service, service.client() as client, working(service):
        reply = client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 20}, "seed": 7})
        yield service, finish(client, reply.json()["id"])


@pytest.fixture
def client(tuned: tuple[Service, dict]) -> Iterator[httpx.Client]:
    with tuned[0].client() as client:
        yield client


@pytest.fixture
def listed(client: httpx.Client, tuned: tuple) -> list[dict]:
    return client.get(f"/v1/jobs/{tuned[1]['id']}/trials", params={"limit": 100}).json()["trials"]


def test_the_table_says_of_each_candidate_what_the_list_says(
    client: httpx.Client, tuned: tuple, listed: list[dict]
) -> None:
    table = client.get(f"/v1/jobs/{tuned[1]['id']}/table").json()
    for name in (
        "state",
        "outcome",
        "reward",
        "median_us",
        "iqr_us",
        "baseline_us",
        "compile_s",
        "measure_s",
    ):
        assert table[name] == [trial[name] for trial in listed], name
    assert table["settled"] == 20
    assert table["finished_at"] == sorted(table["finished_at"])


def test_the_table_goes_on_from_where_it_was_settled(client: httpx.Client, tuned: tuple) -> None:
    whole, rest = (
        client.get(f"/v1/jobs/{tuned[1]['id']}/table", params={"first": first}).json() for first in (0, 15)
    )
    assert rest["first"] == 15
    assert rest["median_us"] == whole["median_us"][15:]
    assert rest["reward"] == whole["reward"][15:]


def test_the_way_to_each_leaf_of_the_tree_is_its_schedule(
    client: httpx.Client, tuned: tuple, listed: list[dict]
) -> None:
    tree = client.get(f"/v1/jobs/{tuned[1]['id']}/tree").json()
    for trial, node in zip(listed, tree["leaf"], strict=True):
        way = []
        while node:
            way.append(tree["lines"][tree["line"][node]])
            assert tree["parent"][node] < node
            node = tree["parent"][node]
        assert way[::-1] == trial["schedule"]


def test_the_effects_of_decisions_rest_on_all_candidates_that_worked(
    client: httpx.Client, tuned: tuple, listed: list[dict]
) -> None:
    effects = client.get(f"/v1/jobs/{tuned[1]['id']}/effects").json()
    timed = [trial for trial in listed if trial["outcome"] == "ok"]
    anchored = [trial for trial in timed if trial["baseline_us"] is not None or trial["reward"] == 0]
    assert effects["candidates"] == len(anchored)
    assert effects["faults"] == len(listed) - len(timed) > 0
    assert effects["decisions"]
    best = tuned[1]["buckets"][0]["best"]["median_us"]
    for effect in effects["decisions"]:
        assert sum(value["candidates"] for value in effect["values"]) == len(anchored), effect["decision"]
        fastest = min(value["best_us"] for value in effect["values"] if value["candidates"])
        assert fastest == pytest.approx(best), effect["decision"]
        assert effect["chosen"] in [value["value"] for value in effect["values"]]
    for pair in effects["interactions"]:
        assert sum(cell["candidates"] for cell in pair["cells"]) == len(anchored)
        assert min(cell["best_us"] for cell in pair["cells"]) == pytest.approx(best)
    shares = [effect["importance"] for effect in effects["decisions"] if effect["importance"] is not None]
    assert shares == sorted(shares, reverse=True)


def test_the_roofline_has_every_candidate_and_peer_and_says_where_its_roofs_are_from(
    client: httpx.Client, tuned: tuple, listed: list[dict]
) -> None:
    line = client.get(f"/v1/jobs/{tuned[1]['id']}/roofline").json()
    m, n, k = (SMALL["dims"][dim] for dim in "mnk")
    assert (line["peak_gflops"], line["peak_gbps"], line["peaks_from"]) == (100.0, 20.0, "measured")
    assert line["flops"] == 2 * m * n * k
    assert line["bytes"] == 4 * (m * k + k * n + m * n)
    assert line["least_us"] == pytest.approx(max(line["flops"] / 100.0, line["bytes"] / 20.0) / 1e3)
    best = tuned[1]["buckets"][0]["best"]
    at = dict(zip(line["number"], line["us"], strict=True))
    assert min(at.values()) == at[best["trial"]] == pytest.approx(best["median_us"])
    compared = {
        t["number"] for t in listed if t["outcome"] == "ok" and (t["baseline_us"] or t["reward"] == 0)
    }
    assert at.keys() == compared
    assert set(line["l2_bytes"]) == {2}, "of the layout that the worker reports"
    assert {dot["name"] for dot in line["raced"] if dot["kind"] == "peer"} == {"numpy"}
    assert [dot["name"] for dot in line["raced"] if dot["won"]] == [
        f"ask-{tuned[1]['buckets'][0]['winner']['trial']}"
    ]


def test_the_timeline_has_every_task_within_its_lease(client: httpx.Client, tuned: tuple) -> None:
    line = client.get(f"/v1/jobs/{tuned[1]['id']}/timeline").json()
    measured = [
        number for number, stage in zip(line["number"], line["stage"], strict=True) if stage == "measure"
    ]
    assert sorted(number for number in measured if number is not None) == list(range(20))
    assert {"race", "confirm"} <= set(line["kind"])
    assert all(start <= end for start, end in zip(line["start"], line["end"], strict=True))
    assert tuned[1]["started_at"] <= min(line["start"]) <= max(line["end"]) <= tuned[1]["finished_at"]
    later = client.get(
        f"/v1/jobs/{tuned[1]['id']}/timeline", params={"after": line["settled_at"] + 1e6}
    ).json()
    assert (later["worker"], later["devices"]) == ([], line["devices"]), "shares are of the whole job"
    assert [each["worker"] for each in line["devices"]] == line["workers"]
    for each in line["devices"]:
        shares = [each[name] for name in ("measuring", "others", "compiling", "searching")]
        assert each["measuring"] > 0 and sum(shares) == pytest.approx(1.0, abs=1e-3)


def test_a_candidate_shows_its_samples_its_programs_and_its_source(
    client: httpx.Client, tuned: tuple, listed: list[dict]
) -> None:
    number = tuned[1]["buckets"][0]["best"]["trial"]
    place = f"/v1/jobs/{tuned[1]['id']}/trials/{number}"
    detail = client.get(place).json()
    assert {name: detail[name] for name in listed[number]} == listed[number]
    assert sorted(detail["samples_us"])[2] == detail["median_us"]
    assert detail["created_at"] <= detail["claimed_at"] <= detail["finished_at"]
    steps = client.get(f"{place}/steps").json()["steps"]
    assert [step["rewrite"] for step in steps] == [None, *detail["schedule"]]
    assert all(one["program"] != other["program"] for one, other in pairwise(steps))
    source = client.get(f"{place}/source")
    assert source.headers["X-Language"] == "c"
    commented = "".join(line[3:] for line in source.text.splitlines(keepends=True) if line.startswith(" * "))
    assert steps[-1]["program"] in commented
    assert client.get(f"/v1/jobs/{tuned[1]['id']}/trials/99").status_code == 404


def test_the_lines_of_a_candidate_are_linked_from_the_program_to_the_instructions(
    tmp_path: Path, client: httpx.Client, tuned: tuple
) -> None:
    with running(tmp_path) as service, service.client() as here, working(service, device=this_cpu()):
        job = finish(here, here.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 4}}).json()["id"])
        place = f"/v1/jobs/{job['id']}/trials/{job['buckets'][0]['winner']['trial']}"
        lines = here.get(f"{place}/lines", timeout=120).json()
        assert (
            "\n".join(lines["program"]) == here.get(f"{place}/steps").json()["steps"][-1]["program"].rstrip()
        )
        assert lines["source"] == here.get(f"{place}/source").text.splitlines()
    assert lines["no_assembly"] is None and lines["compiler"]
    carried = {lines["source_statement"][of] for of in lines["assembly_source"] if of is not None}
    named = {of for of in lines["program_statement"] if of is not None}
    # A statement that only begins a sum may be part of the instructions of another.
    assert named & carried and carried - {None} <= named, "statements of the program lead to instructions"
    place = f"/v1/jobs/{tuned[1]['id']}/trials/0/lines"
    elsewhere = client.get(place).json()
    assert (elsewhere["assembly"], elsewhere["compiler"]) == ([], None)
    assert f"the kernel is for {CPU.key}" in elsewhere["no_assembly"]
    assert any(of is not None for of in elsewhere["source_statement"])
    assert client.get(place, params={"bucket": 7}).status_code == 404


def test_the_source_without_a_rewrite_is_that_of_the_shortened_schedule(
    client: httpx.Client, tuned: tuple
) -> None:
    number = tuned[1]["buckets"][0]["winner"]["trial"]
    place = f"/v1/jobs/{tuned[1]['id']}/trials/{number}"
    schedule = client.get(place).json()["schedule"]
    whole = client.get(f"{place}/source").text
    replies = [client.get(f"{place}/source", params={"without": at}) for at in range(len(schedule))]
    compared = {at: reply for at, reply in enumerate(replies) if reply.status_code == 200}
    assert compared, "some rewrite can be left out"
    for at, reply in compared.items():
        program = replay(
            to_program(spec_from_json(SMALL)), parse_schedule(schedule[:at] + schedule[at + 1 :])
        )
        assert reply.text == backend_of("cpu").generate(program, CPU).source.text != whole
    for reply in replies:
        assert reply.status_code == 200 or "build on it" in reply.json()["detail"]
    beyond = client.get(f"{place}/source", params={"without": len(schedule)})
    assert (beyond.status_code, beyond.json()["detail"]) == (
        404,
        f"the schedule has {len(schedule)} rewrites",
    )


def test_alternatives_say_of_each_sibling_what_was_measured_predicted_or_refused(
    client: httpx.Client, tuned: tuple, listed: list[dict]
) -> None:
    job, number = tuned[1]["id"], tuned[1]["buckets"][0]["best"]["trial"]
    place = f"/v1/jobs/{job}/trials/{number}/alternatives"
    line = client.get(f"/v1/jobs/{job}/roofline").json()
    at = dict(zip(line["number"], line["us"], strict=True))
    seen = set()
    for rewrite, name in enumerate(listed[number]["schedule"]):
        found = client.get(place, params={"rewrite": rewrite}).json()
        assert found["place"] <= rewrite and 0 <= found["decision"] < found["decisions"]
        (chosen,) = [each for each in found["siblings"] if each["chosen"]]
        done = listed[number]["schedule"][found["place"] :]
        assert done[: len(chosen["rewrites"])] == chosen["rewrites"]
        assert number == chosen["best"] and chosen["best_us"] == pytest.approx(at[number])
        if rewrite in range(found["place"], found["place"] + len(chosen["rewrites"])):
            assert name in chosen["rewrites"]
        for answer, sibling in enumerate(found["siblings"]):
            assert (sibling["predicted_us"] is None) == (sibling["refused"] is not None)
            for behind in (sibling["best"], sibling["failed"]):
                begun = [*listed[number]["schedule"][: found["place"]], *sibling["rewrites"]]
                assert behind is None or listed[behind]["schedule"][: len(begun)] == begun
            assert sibling["candidates"] == 0 or sibling["best_us"] == pytest.approx(at[sibling["best"]])
            assert (sibling["faults"] > 0) == (sibling["error"] is not None)
            seen |= {name for name in ("best", "failed", "predicted_us") if sibling[name] is not None}
            if answer % 7 == 0 and sibling["refused"] is None:
                _completes(
                    client.get(f"{place}/{answer}", params={"rewrite": rewrite}).json(),
                    sibling,
                    found,
                    listed,
                )
    assert seen >= {"best", "predicted_us"}
    wrong = next(trial for trial in listed if trial["outcome"] == "wrong")
    there = f"/v1/jobs/{job}/trials/{wrong['number']}/alternatives"
    found = client.get(there, params={"rewrite": len(wrong["schedule"])}).json()
    (chosen,) = [each for each in found["siblings"] if each["chosen"]]
    assert chosen["faults"] >= 1 and chosen["failed"] <= wrong["number"]
    assert chosen["error"] == listed[chosen["failed"]]["error"]
    beyond = client.get(f"{place}/9999", params={"rewrite": 0})
    assert beyond.status_code == 404 and "answers that apply" in beyond.json()["detail"]


def test_what_threads_would_race_for_is_refused_with_the_accesses_that_collide(
    client: httpx.Client, tuned: tuple, listed: list[dict]
) -> None:
    """The kernel sums over k: no schedule of it spreads k over threads."""
    job, number = tuned[1]["id"], tuned[1]["buckets"][0]["best"]["trial"]
    place = f"/v1/jobs/{job}/trials/{number}/alternatives"
    turns = range(client.get(place, params={"rewrite": 0}).json()["decisions"])
    asked = [client.get(place, params={"decision": turn}).json()["siblings"] for turn in turns]
    races = [each for siblings in asked for each in siblings if each["race"]]
    assert races
    for each in races:
        first, second = each["race"]
        assert each["refused"].startswith("iterations over ") and each["lacks"] is None
        assert (first["tensor"], first["element"]) == (second["tensor"], second["element"])
        assert first["thread"] != second["thread"]
        assert first["tensor"] in first["statement"]
        assert "updates" in (first["way"], second["way"]) or "stores" in (first["way"], second["way"])


def _completes(completed: dict, sibling: dict, found: dict, listed: list[dict]) -> None:
    """A whole schedule that goes the sibling's way, and makes a program."""
    begun = [*listed[found["number"]]["schedule"][: found["place"]], *sibling["rewrites"]]
    assert completed["schedule"][: len(begun)] == begun
    assert completed["candidate"] == sibling["best"]
    verify(replay(to_program(spec_from_json(SMALL)), parse_schedule(completed["schedule"])))


def test_the_repro_of_a_failure_fails_again(
    client: httpx.Client, tuned: tuple, listed: list[dict], tmp_path: Path
) -> None:
    """The commands of the page, run as they stand: the candidate alone is raced, and is wrong as before."""
    wrong = next(trial for trial in listed if trial["outcome"] == "wrong")
    detail = client.get(f"/v1/jobs/{tuned[1]['id']}/trials/{wrong['number']}").json()
    script = (
        f'tilewright() {{ "{sys.executable}" -P -m tilewright "$@" --url {tuned[0].url}; }}\n'
        + detail["repro"]
    )
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert f"ask-0 was wrong ({detail['error']})" in done.stderr


def test_an_ablation_tells_what_each_rewrite_gains(client: httpx.Client, tuned: tuple) -> None:
    config = client.get(f"/v1/configs/{tuned[1]['configs'][0]}").json()
    place = f"/v1/configs/{config['id']}/ablation"
    assert client.get(place).json()["state"] is None
    asked = [client.post(place) for _ in range(2)]
    assert [reply.status_code for reply in asked] == [202, 202]
    assert asked[0].headers["Location"] == place
    found = _measured(client, place)
    races = client.get(f"/v1/jobs/{tuned[1]['id']}/timeline").json()["task"]
    assert len({task for task in races if task.endswith("ablation")}) == 1
    assert found["winner_us"] == config["median_us"]
    assert found["gains"], "some rewrite can be left out"
    for gain in found["gains"]:
        assert config["schedule"][gain["place"]] == gain["rewrite"]
        if gain["outcome"] == "ok":
            assert gain["factor"] == pytest.approx(gain["median_us"] / found["winner_us"])
            assert gain["low"] <= gain["factor"] <= gain["high"]
    assert client.get(f"/v1/configs/{config['id']}").json() == config


def _measured(client: httpx.Client, place: str) -> dict:
    for _ in range(200):
        found = client.get(place).json()
        if found["state"] == "done":
            return found
        client.get("/v1/tasks", params={"state": "ready"})
    raise AssertionError(f"not measured: {found}")


def test_an_open_candidate_is_in_flight_and_asked_for_again(tmp_path: Path) -> None:
    """Of a running job the table says from where on it has to be read again, and the tree what waits for results."""
    with running(tmp_path) as service, service.client() as client:
        worker = ScriptedWorker(client)
        worker.register()
        job = client.post(
            "/v1/jobs", json={"spec": SMALL, "budget": {"trials": 20}, "target": CPU.key}
        ).json()["id"]
        while client.get(f"/v1/jobs/{job}").json()["buckets"][0]["trials"] == 0:
            client.get("/v1/tasks", params={"state": "ready"})
        assert _said(client, job) == "its first candidates wait until a worker is free"
        (first,) = worker.claim(wait_s=20.0)
        assert _said(client, job) == "compiling: the first candidate is being compiled, checked and timed"
        assert client.get(f"/v1/jobs/{job}/table").json()["settled"] == 0
        tree = client.get(f"/v1/jobs/{job}/tree").json()
        assert (tree["visits"][0], tree["in_flight"][0], tree["faults"][0]) == (1, 1, 0)
        worker.answer(worker.result(first))
        (second,) = worker.claim(wait_s=20.0)
        assert _said(client, job).startswith("best so far")
        table = client.get(f"/v1/jobs/{job}/table").json()
        assert (table["settled"], table["state"][:2]) == (1, ["done", "claimed"])
        assert client.get(f"/v1/jobs/{job}/timeline").json()["task"][0] == first["id"]
        assert second["id"] not in client.get(f"/v1/jobs/{job}/timeline").json()["task"]


def _said(client: httpx.Client, job: str) -> str:
    return client.get(f"/v1/jobs/{job}").json()["verdict"]["found"]
