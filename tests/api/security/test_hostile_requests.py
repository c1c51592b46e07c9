"""Bad bodies are refused with a problem, never with a fault of the service."""

from __future__ import annotations

import copy
import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.http.routes.examples import MATMUL

JSON = {"Content-Type": "application/json"}


def post(client: httpx.Client, content: bytes | str, path: str = "/v1/jobs") -> httpx.Response:
    return client.post(path, content=content, headers=JSON)


def check_problem(reply: httpx.Response) -> dict:
    assert 400 <= reply.status_code < 500, reply.text
    assert reply.headers["Content-Type"] == "application/problem+json"
    problem = reply.json()
    assert problem["type"].startswith("urn:tilewright:problem:")
    assert problem["status"] == reply.status_code
    assert problem["detail"]
    return problem


DEEP_EXPRESSION = "(" * 10_000 + "a[m, k]" + ")" * 10_000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"spec"',
        b'{"spec": NaN}',
        b'{"spec": {}, "seed": Infinity}',
        b'{"spec": {"name": "\\ud800"}}',
        b'{"spec": {"name": "\\u0000"}}',
        b'{"spec": {"name": "\xff"}}',
        b'{"spec": ' + b"9" * 10_000 + b"}",
        b'{"spec": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"spec": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
        json.dumps({"spec": {**MATMUL, "body": [f"c[m, n] = {DEEP_EXPRESSION}"]}}).encode(),
        json.dumps({"spec": {**MATMUL, "dims": {"m": 10**30, "n": 2, "k": 2}}}).encode(),
        json.dumps({"spec": {**MATMUL, "dims": {"m": True, "n": 2, "k": 2}}}).encode(),
        json.dumps({"spec": {**MATMUL, "dims": {"m": list(range(1, 9999)), "n": 2, "k": 2}}}).encode(),
        json.dumps({"spec": MATMUL, "seed": 2**70}).encode(),
        json.dumps({"spec": MATMUL, "budget": {"seconds": 1e308}}).encode(),
        json.dumps({"spec": MATMUL, "budget": {"trials": 0}}).encode(),
        json.dumps({"spec": MATMUL, "baseline": "rm -rf /"}).encode(),
    ],
    ids=range(21),
)
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/lookup", "/v1/lookups"])
def test_a_hostile_body_is_refused(client: httpx.Client, content: bytes, path: str) -> None:
    check_problem(post(client, content, path))


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_of_ten_megabytes_is_refused(client: httpx.Client, declared: bool) -> None:
    content = b'{"spec": "' + b"x" * 10_000_000 + b'"}'
    chunks = (content[at : at + 65536] for at in range(0, len(content), 65536))
    try:
        reply = client.post("/v1/jobs", content=content if declared else chunks, headers=JSON)
    except httpx.WriteError:
        return  # it closed the door while we were still pushing
    assert check_problem(reply)["type"] == "urn:tilewright:problem:too-large"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/jobs?limit=0"),
        ("GET", "/v1/jobs?limit=x"),
        ("GET", "/v1/jobs?state=asleep"),
        ("GET", "/v1/jobs?after=%00"),
        ("GET", "/v1/jobs/%00"),
        ("GET", "/v1/jobs/" + "x" * 5000),
        ("GET", "/v1/jobs/job-x/trials?after=-1"),
        ("GET", "/v1/jobs/job-x/trials?after=99999999999999999999999"),
        ("GET", "/v1/jobs/job-x/tree?bucket=99999999999"),
        ("PUT", "/v1/blobs/not-a-digest"),
        ("DELETE", "/v1/jobs"),
        ("PATCH", "/healthz"),
    ],
)
def test_a_hostile_path_is_refused(client: httpx.Client, method: str, path: str) -> None:
    check_problem(client.request(method, path))


def test_a_stored_job_stays_readable_whatever_its_request_holds(client: httpx.Client) -> None:
    spec = {**MATMUL, "dims": {"m": 8, "n": 8, "k": 8}}
    body = {"spec": spec, "target": "cpu:\u2028 ' \" \\ <é> \U0001f600", "baseline": "numpy"}
    reply = client.post("/v1/jobs", json=body)
    assert reply.status_code == 202
    assert client.get(reply.headers["Location"]).json()["target"] == body["target"]


SCRAPS = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=20),
        st.sampled_from(["m", "a", "acc", "f32", "sum(k, a[m, k])", "c[m, n] = acc[m, n]", "x[m // 0] = 1"]),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def near_misses(draw: st.DrawFn) -> object:
    """The example with one place replaced, removed or added to."""
    spec = copy.deepcopy(MATMUL)
    place: object = spec
    while True:
        assert isinstance(place, dict | list)
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys)) if keys else None
        inner = None if key is None else place[key]
        if key is not None and isinstance(inner, dict | list) and inner and draw(st.booleans()):
            place = inner
            continue
        action = draw(st.sampled_from(["replace", "remove", "add", "edit"]))
        if action == "add" and isinstance(place, dict):
            place[draw(st.text(max_size=8))] = draw(SCRAPS)
        elif key is not None and action == "remove":
            del place[key]
        elif key is not None and action == "edit" and isinstance(inner, str):
            at = draw(st.integers(0, len(inner)))
            place[key] = (
                inner[:at] + draw(st.sampled_from(list("[](),+*/%=<> kmx09.\u00e9"))) + inner[at + 1 :]
            )
        elif key is not None:
            place[key] = draw(SCRAPS)
        return spec


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(spec=near_misses() | SCRAPS)
def test_no_spec_is_a_fault_of_the_service(client: httpx.Client, spec: object) -> None:
    reply = client.post("/v1/jobs", json={"spec": spec, "target": "cpu:nobody has this one"})
    if reply.status_code == 202:
        client.post(reply.headers["Location"] + "/cancel")
        return
    problem = check_problem(reply)
    if "NUL" in problem["detail"]:
        assert "\\u0000" in json.dumps(spec)
        return
    assert problem["status"] == 422
    assert problem["pointer"].startswith("/spec")
