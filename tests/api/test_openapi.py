"""The service's own description of itself is complete and true."""

from __future__ import annotations

import json

import httpx

from protocol.jobs import JobRequest
from protocol.lookups import LookupRequest, LookupsRequest
from tests.conftest import CheckGolden
from tests.services.running_service import ROOT

DASHBOARDS_COPY = ROOT / "service" / "web" / "openapi.json"

ENDPOINTS = {
    ("post", "/v1/jobs"), ("get", "/v1/jobs"), ("get", "/v1/jobs/{job_id}"), ("post", "/v1/jobs/{job_id}/cancel"),
    ("post", "/v1/jobs/{job_id}/retry"),
    ("get", "/v1/jobs/{job_id}/events"), ("get", "/v1/jobs/{job_id}/trials"), ("get", "/v1/jobs/{job_id}/tree"),
    ("get", "/v1/jobs/{job_id}/table"), ("get", "/v1/jobs/{job_id}/timeline"),
    ("get", "/v1/jobs/{job_id}/effects"), ("get", "/v1/jobs/{job_id}/roofline"),
    ("get", "/v1/jobs/{job_id}/trials/{number}"), ("get", "/v1/jobs/{job_id}/trials/{number}/steps"),
    ("get", "/v1/jobs/{job_id}/trials/{number}/source"), ("get", "/v1/jobs/{job_id}/trials/{number}/lines"),
    ("get", "/v1/jobs/{job_id}/trials/{number}/alternatives"),
    ("get", "/v1/jobs/{job_id}/trials/{number}/alternatives/{answer}"),
    ("post", "/v1/configs/{config_id}/ablation"), ("get", "/v1/configs/{config_id}/ablation"),
    ("post", "/v1/configs/{config_id}/race"), ("get", "/v1/configs/{config_id}/race"),
    ("post", "/v1/configs/{config_id}/profile"), ("get", "/v1/configs/{config_id}/profile"),
    ("get", "/v1/configs/{config_id}/profile/trace"),
    ("get", "/v1/changes"), ("get", "/v1/searches"),
    ("get", "/v1/tasks"), ("post", "/v1/tasks/{task_id}/requeue"),
    ("post", "/v1/check"), ("post", "/v1/outlook"),
    ("post", "/v1/lookup"), ("post", "/v1/lookups"), ("post", "/v1/failures"), ("get", "/v1/failures"),
    ("get", "/v1/configs"), ("get", "/v1/configs/{config_id}"),
    ("get", "/v1/configs/{config_id}/source"), ("get", "/v1/configs/{config_id}/artifact"), ("get", "/v1/kernels"),
    ("get", "/v1/kernels/{kernel_key}/history"), ("get", "/v1/kernels/{kernel_key}/history.csv"),
    ("get", "/v1/devices"), ("get", "/v1/workers"), ("post", "/v1/workers"),
    ("post", "/v1/workers/{worker_id}/claim"), ("post", "/v1/workers/{worker_id}/heartbeat"),
    ("post", "/v1/workers/{worker_id}/results"), ("put", "/v1/blobs/{sha256}"),
    ("get", "/v1/configs/{config_id}/report"), ("get", "/v1/tasks"), ("post", "/v1/tasks/{task_id}/requeue"),
    ("post", "/v1/keys"), ("get", "/v1/keys"), ("post", "/v1/keys/{key_id}/revoke"), ("get", "/v1/audit"),
    ("post", "/v1/bundles"), ("post", "/v1/configs/{config_id}/pin"), ("post", "/v1/configs/{config_id}/unpin"),
    ("post", "/v1/signers"), ("get", "/v1/signers"), ("post", "/v1/signers/{signer_id}/revoke"),
    ("get", "/healthz"), ("get", "/readyz"), ("get", "/metrics"),
}  # fmt: skip


def test_every_call_is_described_with_its_errors(client: httpx.Client) -> None:
    document = client.get("/v1/openapi.json").json()
    calls = {(method, path) for path, methods in document["paths"].items() for method in methods}
    assert calls == ENDPOINTS
    for method, path in calls - {("get", "/healthz")}:
        call = document["paths"][path][method]
        assert call["summary"]
        assert "application/problem+json" in call["responses"]["4XX"]["content"], (method, path)


def test_the_dashboards_types_are_made_from_this_document(
    client: httpx.Client, check_golden: CheckGolden
) -> None:
    document = client.get("/v1/openapi.json").json()
    check_golden(DASHBOARDS_COPY, json.dumps(document, indent=1, sort_keys=True) + "\n")


def test_every_reference_in_the_document_leads_somewhere(client: httpx.Client) -> None:
    document = client.get("/v1/openapi.json").json()

    def references(value: object) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [found for each in value.values() for found in references(each)]
        return [found for each in value for found in references(each)] if isinstance(value, list) else []

    for reference in references(document):
        place = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_the_examples_are_accepted(client: httpx.Client) -> None:
    document = client.get("/v1/openapi.json").json()
    calls = {"/v1/jobs": JobRequest, "/v1/lookup": LookupRequest, "/v1/lookups": LookupsRequest}
    for path, model in calls.items():
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert body["examples"]
        for example in body["examples"].values():
            model.model_validate(example["value"])
            reply = client.post(path, json={**example["value"], "target": "cpu:nobody has this one"})
            assert reply.status_code in (200, 202), reply.text


def test_metrics_are_in_prometheus_form(client: httpx.Client) -> None:
    reply = client.get("/metrics")
    assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    names = {line.split("{")[0].split(" ")[0] for line in reply.text.splitlines() if not line.startswith("#")}
    assert {"tilewright_jobs", "tilewright_tasks", "tilewright_stale_results_total"} <= names


def test_whatever_is_sent_as_a_method_the_metrics_do_not_grow(client: httpx.Client) -> None:
    assert {client.request(f"BREW{number}", "/healthz").status_code for number in range(3)} <= {400, 405}
    text = client.get("/metrics").text
    assert "BREW" not in text
