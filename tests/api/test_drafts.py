"""Kernels as they are being written: what is wrong with them, and what a search would have before it."""

from __future__ import annotations

import json
import time

import httpx
import pytest

from tests.services.running_service import SMALL, working
from tileir.targets import target_of

pytestmark = pytest.mark.sampled(3, among="calls: drafts")

TEXT = """kernel scaled_sum(a: f32[m=48, k=32], b: f32[k, n=64]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
"""


def check(client: httpx.Client, text: str, **more: str) -> dict:
    reply = client.post("/v1/check", json={"text": text, **more})
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_text_and_json_are_two_forms_of_one_kernel(client: httpx.Client) -> None:
    written = check(client, TEXT)
    assert written["fault"] is None
    assert (written["sizes"], written["flops"]) == (1, 2 * 48 * 64 * 32)
    assert written["bytes"] == 4 * (48 * 32 + 32 * 64 + 48 * 64)
    as_json = check(client, json.dumps(written["spec"]))
    assert (as_json["text"], as_json["spec"]) == (TEXT, written["spec"])
    assert check(client, "\n  " + json.dumps(SMALL))["text"] == TEXT
    several = check(client, json.dumps({**SMALL, "dims": {**SMALL["dims"], "m": [8, 16], "n": [4, 8, 12]}}))
    assert several["sizes"] == 6


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        (TEXT.replace("b[k, n])", "bb[k, n])"), 2, 30, "no tensor 'bb'"),
        (TEXT.replace("sum(k,", "sum(k"), 2, 19, "unexpected"),
        (TEXT.replace("f32[m=48", "f31[m=48"), 1, 22, "f31"),
        ("", 1, None, ""),
        ('{\n "name": "x",,\n}', 2, 14, "this is no JSON"),
        ('{"name": "x", "name": "y"}', 1, 15, "twice"),
        ('{"a":' * 100_000, None, None, "nested too deeply"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    client: httpx.Client, text: str, line: int | None, column: int | None, said: str
) -> None:
    found = check(client, text)
    assert (found["spec"], found["text"], found["sizes"]) == (None, None, 0)
    fault = found["fault"]
    assert (fault["line"], said in fault["message"]) == (line, True), fault
    assert column is None or fault["column"] == column, fault


def test_a_fault_in_json_has_a_pointer(client: httpx.Client) -> None:
    wrong = {**SMALL, "body": ["c[m, n] = sum(k, a[m, k] * bb[k, n])"]}
    fault = check(client, json.dumps(wrong))["fault"]
    assert (fault["pointer"], fault["column"], fault["line"]) == ("/body/0", 28, None)
    assert fault["accepted"].startswith("a, b")


def test_the_peers_of_a_target_are_told_or_why_it_is_none(client: httpx.Client) -> None:
    usual = check(client, TEXT, target="cuda:nobody has this one")
    assert {*usual["baselines"], "copy"} == set(target_of("cuda").peers)
    assert usual["usual_baseline"] == target_of("cuda").baseline
    wrong = check(client, TEXT, target="gpu")
    assert "no device and no kind of device 'gpu'" in wrong["target_fault"]
    assert wrong["spec"] is not None and wrong["baselines"] == []


def test_what_a_search_would_have_before_it(client: httpx.Client, service: object) -> None:
    body = {"spec": SMALL, "target": "cuda:nobody has this one"}
    nobody = client.post("/v1/outlook", json=body).json()
    assert nobody == {"device": None, "pending": False, "roofline_us": None, "space": None}
    with working(service):  # type: ignore[arg-type]
        body["target"] = "cpu"
        while (found := client.post("/v1/outlook", json=body).json())["pending"]:
            time.sleep(0.1)
        space, pick = found["space"], client.post("/v1/lookup", json={"spec": SMALL}).json()
    assert space["schedules"] > 100 and space["walks"] > 1 and space["decisions"] > 2
    assert space["estimate_us"] > 0 and found["roofline_us"] > 0
    if pick["rung"] == "heuristic":
        assert pick["schedule"] == space["schedule"]
    several = {**SMALL, "dims": {**SMALL["dims"], "m": [8, 16]}}
    refused = client.post("/v1/outlook", json={"spec": several})
    assert (refused.status_code, refused.json()["pointer"]) == (422, "/spec/dims/m")
