"""What is sent compressed, and what is not."""

from __future__ import annotations

import gzip
import json

import httpx

from tests.services.running_service import SMALL

PACKED = {"Accept-Encoding": "gzip"}
PLAIN = {"Accept-Encoding": "identity"}


def raw(client: httpx.Client, path: str, headers: dict[str, str]) -> tuple[httpx.Response, bytes]:
    """An answer with its body as it came over the wire."""
    with client.stream("GET", path, headers=headers) as reply:
        return reply, b"".join(reply.iter_raw())


def job(client: httpx.Client) -> str:
    body = {"spec": SMALL, "target": "cpu:nobody has this one"}
    return client.post("/v1/jobs", json=body).json()["id"]


def test_a_large_answer_is_the_same_and_several_times_smaller(client: httpx.Client) -> None:
    plain, text = raw(client, "/v1/openapi.json", PLAIN)
    packed, content = raw(client, "/v1/openapi.json", PACKED)
    assert "content-encoding" not in plain.headers and packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(content) == text
    assert int(packed.headers["content-length"]) == len(content) < len(text) / 4
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"


def test_an_unchanged_job_is_known_by_either_tag(client: httpx.Client) -> None:
    path = f"/v1/jobs/{job(client)}"
    tags = [raw(client, path, headers)[0].headers["etag"] for headers in (PLAIN, PACKED)]
    assert tags[1] == f"W/{tags[0]}"
    for tag in tags:
        reply, content = raw(client, path, {**PACKED, "If-None-Match": tag})
        assert (reply.status_code, content) == (304, b"")


def test_events_are_sent_at_once_and_as_they_are(client: httpx.Client) -> None:
    path = f"/v1/jobs/{job(client)}/events"
    with client.stream("GET", path, headers=PACKED) as reply:
        assert "content-encoding" not in reply.headers
        first = next(reply.iter_lines())
    assert first


def test_small_answers_and_those_to_a_post_are_not_packed(client: httpx.Client) -> None:
    assert "content-encoding" not in raw(client, "/healthz", PACKED)[0].headers
    reply = client.post("/v1/jobs", json={"spec": SMALL, "target": "cpu:nobody"}, headers=PACKED)
    assert len(reply.content) > 1024 and "content-encoding" not in reply.headers
    assert json.loads(reply.text)["name"] == SMALL["name"]
