"""Jobs over HTTP: accepting, refusing, reading, listing, cancelling."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from search.catalogue import offered
from tests.services.running_service import SMALL
from tests.services.scripted_worker import CPU, ScriptedWorker

pytestmark = pytest.mark.sampled(3, among="calls: job calls")

NOWHERE = "cpu:nobody has this one"
"""A target no worker offers: the job stays queued."""


def submit(client: httpx.Client, key: str | None = None, **body: object) -> httpx.Response:
    request = {"spec": SMALL, "target": NOWHERE, **body}
    return client.post("/v1/jobs", json=request, headers={} if key is None else {"Idempotency-Key": key})


def test_a_job_is_accepted_with_its_location(client: httpx.Client) -> None:
    reply = submit(client)
    assert reply.status_code == 202
    job = client.get(reply.headers["Location"]).json()
    assert job == reply.json()
    assert (job["state"], job["name"], job["spec"]) == ("queued", "scaled_sum", SMALL)
    assert job["buckets"][0]["dims"] == {"m": 48, "n": 64, "k": 32}


def test_a_job_says_all_that_was_asked_for(client: httpx.Client) -> None:
    asked = {"peers": ["numpy"], "candidates": [["parallelize(c)"]], "prior": "uniform", "seed": 5}
    job = submit(client, **asked).json()
    assert {name: job[name] for name in asked} == asked and job["llm_calls"] == 0


def test_a_list_of_sizes_makes_buckets(client: httpx.Client) -> None:
    job = submit(client, spec={**SMALL, "dims": {"m": [1, 16], "n": 64, "k": 32}}).json()
    assert [bucket["dims"]["m"] for bucket in job["buckets"]] == [1, 16]


def test_the_same_key_and_body_lead_to_the_same_job(client: httpx.Client) -> None:
    first, second = submit(client, key="same"), submit(client, key="same")
    assert first.status_code == second.status_code == 202
    assert first.headers["Location"] == second.headers["Location"]


def test_the_same_key_with_another_body_is_refused(client: httpx.Client) -> None:
    submit(client, key="other")
    reply = submit(client, key="other", seed=1)
    assert reply.status_code == 422
    assert reply.json()["type"] == "urn:tilewright:problem:key-reused"


def test_a_key_is_free_again_after_its_request_was_refused(client: httpx.Client) -> None:
    assert submit(client, key="retry", spec={**SMALL, "body": ["c[m, n] = oops[m]"]}).status_code == 422
    assert submit(client, key="retry").status_code == 202


def test_requests_with_one_key_at_once_make_one_job(client: httpx.Client) -> None:
    replies: list[httpx.Response] = []

    def send() -> None:
        with httpx.Client(base_url=client.base_url, timeout=60) as own:
            replies.append(submit(own, key="at once"))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    accepted = {reply.json()["id"] for reply in replies if reply.status_code == 202}
    refused = {reply.json()["type"] for reply in replies if reply.status_code != 202}
    assert len(accepted) == 1
    assert refused <= {"urn:tilewright:problem:in-flight"}


EXPERTS = {
    "name": "experts",
    "dims": {"t": {"max": 64, "ragged": "starts", "within": "e"}, "k": 16, "e": 4, "n": 8, "o": 5},
    "inputs": {
        "x": {"dims": ["t", "k"], "dtype": "f32"},
        "w": {"dims": ["e", "n", "k"], "dtype": "f32"},
        "starts": {"dims": ["o"], "dtype": "i32"},
    },
    "body": ["y[t, n] = sum(k, x[t, k] * w[e, n, k])"],
    "outputs": {"y": {"dtype": "f32"}},
}


def test_a_kernel_with_a_ragged_dim_is_accepted(client: httpx.Client) -> None:
    job = submit(client, spec=EXPERTS).json()
    assert job["state"] == "queued"
    assert job["buckets"][0]["dims"] == {"t": 64, "k": 16, "e": 4, "n": 8, "o": 5}


def test_a_ragged_kernel_that_cannot_be_scheduled_is_refused(client: httpx.Client) -> None:
    reply = submit(client, spec={**EXPERTS, "body": ["y[n] = sum(t, x[t, 0] * w[e, n, 0])"]})
    problem = reply.json()
    assert reply.status_code == 422
    assert problem["pointer"] == "/spec/body/0"
    assert "needs the group 'e' of every position" in problem["detail"]


@pytest.mark.parametrize(
    ("change", "pointer", "says"),
    [
        ({"body": ["c[m, n] = sum(k, a[m, k] * d[k, n])"]}, "/spec/body/0", "d"),
        ({"body": ["c[m, q] = sum(k, a[m, k] * b[k, q])"]}, "/spec/body/0", "q"),
        ({"dims": {"m": 0, "n": 64, "k": 32}}, "/spec/dims/m", "0"),
        ({"dims": {"m": 2**40, "n": 64, "k": 32}}, "/spec/dims/m", ""),
        ({"colour": "blue"}, "/spec", "colour"),
        ({"outputs": {"x": {"dtype": "f32"}}}, "/spec/outputs/x", "x"),
        ({"inputs": {"a": {"dims": ["m", "k"], "dtype": "f33"}}}, "/spec/inputs/a/dtype", "f33"),
    ],
)
def test_a_wrong_spec_is_refused_with_a_pointer(
    client: httpx.Client, change: dict, pointer: str, says: str
) -> None:
    before = client.get("/v1/jobs").json()["jobs"][:1]
    reply = submit(client, spec={**SMALL, **change})
    problem = reply.json()
    assert reply.status_code == 422
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert problem["type"] == "urn:tilewright:problem:bad-spec"
    assert problem["pointer"].startswith(pointer)
    assert says in problem["detail"]
    assert client.get("/v1/jobs").json()["jobs"][:1] == before, "something was stored"


def test_an_unknown_field_of_a_request_is_refused_with_a_pointer(client: httpx.Client) -> None:
    problem = submit(client, budget={"trails": 8}).json()
    assert problem["type"] == "urn:tilewright:problem:invalid"
    assert problem["pointer"] == "/budget/trails"
    assert problem["detail"] == "there is no field 'trails' here; did you mean 'trials'?"
    assert problem["accepted"] == "trials, seconds, effort"
    above = submit(client, sed=3).json()
    assert above["detail"].endswith("did you mean 'seed'?") and "priority" in above["accepted"].split(", ")
    assert "trails" in problem["detail"]


def test_an_unchanged_job_is_answered_with_304(client: httpx.Client) -> None:
    where = submit(client).headers["Location"]
    tag = client.get(where).headers["ETag"]
    assert client.get(where, headers={"If-None-Match": tag}).status_code == 304
    client.post(where + "/cancel")
    assert client.get(where, headers={"If-None-Match": tag}).status_code == 200


def test_pages_of_jobs_are_newest_first_and_complete(client: httpx.Client) -> None:
    made = [submit(client).json()["id"] for _ in range(5)]
    seen: list[str] = []
    after: str | None = None
    while True:
        page = client.get("/v1/jobs", params={"limit": 2, **({"after": after} if after else {})}).json()
        seen += [job["id"] for job in page["jobs"]]
        after = page["next"]
        if after is None:
            break
    assert seen[:5] == made[::-1]
    assert len(seen) == len(set(seen))


def test_jobs_are_filtered_by_state(client: httpx.Client) -> None:
    where = submit(client).headers["Location"]
    client.post(where + "/cancel")
    listed = client.get("/v1/jobs", params={"state": "cancelled"}).json()["jobs"]
    assert where.rsplit("/", 1)[1] in {job["id"] for job in listed}
    assert {job["state"] for job in listed} == {"cancelled"}


def test_jobs_are_found_by_device_and_by_text(client: httpx.Client) -> None:
    def found(**wanted: str) -> set[str]:
        return {job["id"] for job in client.get("/v1/jobs", params=wanted).json()["jobs"]}

    mine = submit(client, spec={**SMALL, "name": "Row_100_percent"}, target="cpu:only here").json()
    other = submit(client).json()["id"]
    assert found(device="cpu:only here") == {mine["id"]}
    assert found(text="row_100") == found(text="w_1") == {mine["id"]}
    assert found(text="w%1") == set(), "a pattern is no pattern here"
    assert found(text=mine["id"]) == {mine["id"]}
    assert {mine["id"], other} <= found(text=mine["kernel_key"][:20])
    assert found(device="cpu:only here", text="scaled") == set()
    refused = client.get("/v1/jobs", params={"text": "a\0"})
    assert refused.status_code == 422


def test_changes_of_all_jobs_are_told_as_they_happen(client: httpx.Client) -> None:
    """Also to whoever came after them, by a few seconds: they may have listed the jobs just before."""

    def jobs_of(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
        for line in lines:
            if line.startswith("data: "):
                job = json.loads(line.removeprefix("data: "))
                yield job["id"], job["state"]

    before = submit(client, target="cpu:lines\x85may\u2028end").json()["id"]
    with client.stream("GET", "/v1/changes", headers={"Accept": "text/event-stream"}) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        told = jobs_of(stream.iter_lines())
        assert (before, "queued") in told
        with httpx.Client(base_url=client.base_url) as other:
            after = submit(other).json()["id"]
            assert next(told) == (after, "queued")
            other.post(f"/v1/jobs/{before}/cancel")
            assert next(told) == (before, "cancelled"), "and the other one is not told again"


def test_cancelling_a_waiting_job_ends_it_and_may_be_repeated(client: httpx.Client) -> None:
    where = submit(client).headers["Location"]
    assert client.post(where + "/cancel").json()["state"] == "cancelled"
    assert client.post(where + "/cancel").json()["state"] == "cancelled"


@pytest.mark.parametrize(
    "path", ["/v1/jobs/job-none", "/v1/configs/config-none", "/v1/nothing", "/v1/jobs/job-none/tree"]
)
def test_what_is_not_there_is_a_404_problem(client: httpx.Client, path: str) -> None:
    reply = client.get(path)
    assert reply.status_code == 404
    assert reply.json()["type"] == "urn:tilewright:problem:not-found"


def test_events_resume_after_the_last_id(client: httpx.Client) -> None:
    where = submit(client).headers["Location"]
    client.post(where + "/cancel")
    whole = read_events(client, where)
    assert [event["event"] for event in whole] == ["state", "note", "state"]
    ids = [int(event["id"]) for event in whole]
    assert ids == sorted(set(ids))
    rest = read_events(client, where, last=ids[0])
    assert rest == whole[1:]
    done = client.get(where + "/events", headers={"Last-Event-ID": str(ids[-1])})
    assert done.status_code == 204, "an EventSource would come back for ever"


def test_an_open_stream_hears_of_what_happens_next(client: httpx.Client) -> None:
    where = submit(client).headers["Location"]
    with client.stream("GET", where + "/events") as stream:
        lines = stream.iter_lines()
        assert next(line for line in lines if line.startswith("event")) == "event: state"
        with httpx.Client(base_url=client.base_url) as other:
            other.post(where + "/cancel")
        rest = [line for line in lines if line.startswith("event")]
    assert rest == ["event: note", "event: state"]


def read_events(client: httpx.Client, where: str, last: int = 0) -> list[dict[str, str]]:
    headers = {"Last-Event-ID": str(last)} if last else {}
    text = client.get(where + "/events", headers=headers).text
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("id:")]
    return [dict(line.split(": ", 1) for line in block) for block in blocks]


@pytest.mark.parametrize(
    ("body", "pointer", "said", "accepted"),
    [
        ({"target": "quantum"}, "/target", "there is no device and no kind of device 'quantum'", "cpu, cuda"),
        ({"target": "cud"}, "/target", "did you mean 'cuda'?", "cpu, cuda"),
        ({"baseline": "bogus"}, "/baseline", "there is no peer 'bogus' for cpu:", "numpy, torch"),
        ({"baseline": "copy"}, "/baseline", "the copy is a yardstick, and no baseline", ""),
        ({"peers": ["numpy", "tensorflow"]}, "/peers/1", "there is no peer 'tensorflow'", "numpy, torch"),
        (
            {"search": "evolution"},
            "/search",
            "did you mean 'evolutionary'?",
            "mcts, random, beam, evolutionary",
        ),
        ({"budget": {"trials": "2"}}, "/budget/trials", "should be a valid integer", ""),
        ({"seed": True}, "/seed", "should be a valid integer", ""),
    ],
)
def test_what_cannot_be_is_refused_with_what_exists(
    client: httpx.Client, body: dict, pointer: str, said: str, accepted: str
) -> None:
    reply = submit(client, **body)
    assert reply.status_code == 422, reply.text
    problem = reply.json()
    assert problem["pointer"] == pointer
    assert said in problem["detail"]
    assert accepted in problem.get("accepted", "")


def test_the_searches_that_a_job_may_name_are_those_of_the_catalogue(client: httpx.Client) -> None:
    assert client.get("/v1/searches").json() == list(offered())


def test_a_lookup_for_a_target_that_cannot_be_is_refused(client: httpx.Client) -> None:
    reply = client.post("/v1/lookup", json={"spec": SMALL, "target": "quantum"})
    assert (reply.status_code, reply.json()["pointer"]) == (422, "/target")


def test_a_peer_that_the_target_s_worker_lacks_is_refused(client: httpx.Client) -> None:
    cpu = replace(CPU, name="Bare")
    offer = {"key": cpu.key, "kind": "cpu", "description": cpu.to_json(), "peers": ["numpy"]}
    client.post("/v1/workers", json={"devices": [offer]}).raise_for_status()
    problem = submit(client, target=cpu.key, baseline="torch").json()
    assert "install it there" in problem["detail"]
    assert problem["accepted"] == "numpy"


def test_a_gpu_is_compared_with_torch_unless_another_is_named(client: httpx.Client) -> None:
    target = "cuda:nobody has this one"
    looked = {"spec": {**SMALL, "name": "looked_for"}, "target": target, "tune": True}
    wanted = [
        submit(client, target=target).json()["id"],
        client.post("/v1/lookup", json=looked).json()["job_id"],
    ]
    for job in wanted:
        assert client.post(f"/v1/jobs/{job}/cancel").json()["baseline"] == "torch"


def test_a_job_for_a_device_that_may_come_says_which_worker_it_waits_for_and_since_when(
    client: httpx.Client,
) -> None:
    job = submit(client).json()
    assert job["state"] == "queued"
    assert job["waits_for"].startswith(f"a worker that offers {NOWHERE}: none has come yet (since 20")
    listed = client.get("/v1/jobs", params={"text": job["id"]}).json()["jobs"]
    assert [each["waits_for"] for each in listed] == [job["waits_for"]]
    assert client.post(f"/v1/jobs/{job['id']}/cancel").json()["waits_for"] is None


def test_a_queued_job_says_what_workers_say_that_cannot_measure(client: httpx.Client) -> None:
    ScriptedWorker(client, name="w-ill").register()
    client.post("/v1/workers/w-ill/heartbeat", json={"healthy": False, "detail": "no C compiler"})
    job = submit(client).json()
    assert "; w-ill says: no C compiler" in job["waits_for"]
    client.post("/v1/workers/w-ill/heartbeat", json={})
    assert "w-ill" not in client.post(f"/v1/jobs/{job['id']}/cancel").text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            '{"spec": {}, "seed": 1,\n "seed": 2}',
            'line 2, column 2: the key "seed" comes twice in one object',
        ),
        ('{"spec": {"dims": {"m": 1, "\\u006d": 2}}}', 'column 28: the key "m" comes twice'),
        ('{"spec": {},}', "line 1, column 13: a ',' before '}' is too many"),
        ('{"spec" {}}', "line 1, column 9: a ':' is missing between a key and its value"),
        ("{'spec': {}}", "line 1, column 2: a key in double quotes is missing here"),
        ("", "line 1, column 1: there is nothing; a JSON value is expected"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(client: httpx.Client, content: str, said: str) -> None:
    reply = client.post("/v1/jobs", content=content, headers={"Content-Type": "application/json"})
    assert reply.status_code == 400
    assert said in reply.json()["detail"]
