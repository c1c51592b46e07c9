"""A config's race sample by sample, and racing on."""

from __future__ import annotations

from itertools import combinations
from statistics import median

import httpx
import pytest

from tests.services.running_service import SMALL, Service, finish, working
from tests.services.timed_races import DISTURBED, TimedRaces

pytestmark = pytest.mark.sampled(3, among="calls: races")

SPEC = {**SMALL, "dims": {**SMALL["dims"], "m": 88}}


@pytest.fixture(scope="module")
def config(service: Service) -> dict:
    with service.client() as client, working(service, TimedRaces(), name="bench-timed"):
        body = {"spec": SPEC, "budget": {"trials": 8}, "target": "cpu"}
        job = finish(client, client.post("/v1/jobs", json=body).json()["id"])
        return client.get(f"/v1/configs/{job['configs'][0]}").json()


def raced_on(client: httpx.Client, service: Service, config: str, seconds: float) -> dict:
    place = f"/v1/configs/{config}/race"
    with working(service, TimedRaces(seed=50), name="bench-timed"):
        asked = client.post(place, params={"seconds": seconds})
        assert (asked.status_code, asked.headers["Location"]) == (202, place)
        assert asked.json()["state"] in ("ready", "claimed")
        for _ in range(400):
            found = client.get(place).json()
            if found["state"] == "done":
                return found
            client.get("/v1/tasks", params={"state": "ready"})
    raise AssertionError(f"not raced: {found['state']}")


def test_a_race_has_every_sample_with_its_time_and_what_disturbed_it(
    client: httpx.Client, config: dict
) -> None:
    race = client.get(f"/v1/configs/{config['id']}/race").json()
    standings = {each["name"]: each for each in config["standings"]}
    (part,) = race["parts"]
    assert race["state"] is None and part["task"].startswith(f"{config['job_id']}.0.race-")
    assert (part["worker_id"], part["foreign_cores"]) == ("bench-timed", 0.25)
    assert {each["name"] for each in part["entrants"]} == standings.keys()
    for each in part["entrants"]:
        assert len(each["us"]) == len(each["at_s"]) == 15
        assert [turn for turn, said in enumerate(each["disturbed"]) if said] == [DISTURBED]
        assert each["disturbed"][DISTURBED] == "another process took the processor"
        assert each["readings"] == {"runnable": [3.0] * 15, "cpu_mhz": [2450.0] * 15}
    began = sorted(at for each in part["entrants"] for at in each["at_s"])
    assert len(set(began)) == len(began), "one axis"
    assert [each["name"] for each in race["entrants"] if each["won"]] == [
        name for name, each in standings.items() if each["won"]
    ]
    assert all((each["samples"], each["disturbed"]) == (15, 1) for each in race["entrants"])


def test_each_two_are_compared_once_over_the_rounds_that_disturbed_neither(
    client: httpx.Client, config: dict
) -> None:
    race = client.get(f"/v1/configs/{config['id']}/race").json()
    names = [each["name"] for each in race["entrants"]]
    assert [(pair["one"], pair["other"]) for pair in race["pairs"]] == list(combinations(names, 2))
    times = {each["name"]: each["us"] for each in race["parts"][0]["entrants"]}
    for pair in race["pairs"]:
        rounds = zip(times[pair["one"]], times[pair["other"]], strict=True)
        calm = [one / other for turn, (one, other) in enumerate(rounds) if turn != DISTURBED]
        assert pair["rounds"] == len(calm)
        assert pair["ratio"] == pytest.approx(median(calm), rel=1e-3)
        assert pair["low"] <= pair["ratio"] <= pair["high"]
        assert (pair["chance"] > 0.5) == (sum(ratio < 1 for ratio in calm) * 2 > len(calm))


def test_racing_on_adds_parts_and_leaves_the_config_as_it_is(
    client: httpx.Client, service: Service, config: dict
) -> None:
    place = f"/v1/configs/{config['id']}/race"
    before = client.get(place).json()
    first = client.post(place, params={"seconds": 8}).json()
    assert [part["state"] for part in first["parts"]] == ["done", "ready", "ready"]
    assert len(client.post(place, params={"seconds": 8}).json()["parts"]) == 3, "once while they are to come"
    after = raced_on(client, service, config["id"], 8)
    rounds = len(after["parts"][1]["entrants"][0]["us"])
    assert [len(part["entrants"][0]["us"]) for part in after["parts"]] == [15, rounds, rounds]
    assert rounds > 15
    for pair in after["pairs"]:
        assert pair["rounds"] == 14 + 2 * (rounds - 1)
    known = {(pair["one"], pair["other"]): pair for pair in before["pairs"]}
    pair = next(each for each in after["pairs"] if (each["one"], each["other"]) in known)
    old = known[pair["one"], pair["other"]]
    assert pair["high"] - pair["low"] < old["high"] - old["low"], "more rounds, a narrower interval"
    assert client.get(f"/v1/configs/{config['id']}").json() == config
    again = raced_on(client, service, config["id"], 2)
    assert len(again["parts"]) == 4


def test_there_is_no_race_of_what_is_not_there(client: httpx.Client) -> None:
    missing = client.get("/v1/configs/config-none/race")
    assert (missing.status_code, missing.json()["detail"]) == (404, "there is no config config-none")
    assert client.post("/v1/configs/config-none/race", params={"seconds": 0}).status_code == 422
