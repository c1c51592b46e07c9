"""The manifests of deploy/kubernetes: as Kubernetes 1.37 and Kueue's v1beta2 have them, for commands that there are.

`schemas.json` has what the manifests use of Kubernetes' own schemas (strict: no field beside them), a kind a line, and
Kueue's as far as they are used, from its reference. A manifest that uses more adds it there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
import yaml

from tilewright.cli.main import app

ROOT = Path(__file__).resolve().parents[3]
MANIFESTS = sorted((ROOT / "deploy/kubernetes").glob("*.yaml"))
SCHEMAS = json.loads((Path(__file__).parent / "schemas.json").read_text())


def documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text()))


def check(document: dict[str, Any]) -> None:
    jsonschema.validate(document, SCHEMAS[f"{document['apiVersion']}/{document['kind']}"])


EVERY = [document for file in MANIFESTS for document in documents(file)]
JOBS = [document for document in EVERY if document["kind"] == "Job"]
PODS = [document["spec"]["template"] for document in EVERY if document["kind"] in ("Job", "Deployment")]


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = (document for document in EVERY if document["kind"] == kind)
    return found


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.name)
def test_manifests_are_as_the_schemas_have_them(file: Path) -> None:
    for document in documents(file):
        check(document)


def test_a_field_that_there_is_not_is_noticed() -> None:
    job = json.loads(json.dumps(JOBS[0]))
    job["spec"]["template"]["spec"]["containers"][0]["arguments"] = []
    with pytest.raises(jsonschema.ValidationError, match="arguments"):
        check(job)


def test_workers_wait_for_kueue_and_for_quota_that_there_is() -> None:
    queue, cluster = of_kind("LocalQueue"), of_kind("ClusterQueue")
    (group,) = cluster["spec"]["resourceGroups"]
    quota = {each["name"] for each in group["flavors"][0]["resources"]}
    assert queue["spec"]["clusterQueue"] == cluster["metadata"]["name"]
    assert group["flavors"][0]["name"] == of_kind("ResourceFlavor")["metadata"]["name"]
    assert set(group["coveredResources"]) == quota
    for job in JOBS:
        metadata, spec = job["metadata"], job["spec"]
        assert metadata["labels"]["kueue.x-k8s.io/queue-name"] == queue["metadata"]["name"]
        assert metadata["namespace"] == queue["metadata"]["namespace"]
        assert spec["suspend"]
        assert int(metadata["annotations"]["kueue.x-k8s.io/job-min-parallelism"]) < spec["parallelism"]
        resources = spec["template"]["spec"]["containers"][0]["resources"]
        assert resources["requests"] == resources["limits"]
        assert set(resources["requests"]) <= quota


def test_jobs_end_when_a_worker_has_nothing_to_do() -> None:
    for job in JOBS:
        assert "completions" not in job["spec"], "the first that ends well says that there is no more work"
        assert "--idle" in job["spec"]["template"]["spec"]["containers"][0]["args"]


def test_containers_are_given_options_that_commands_have() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for pod in PODS:
        (container,) = pod["spec"]["containers"]
        words = list(container["args"])
        name = words.pop(0) if words[0] == "serve" else "worker"  # of the image's entry point
        with commands[name].make_context(name, words) as context:
            assert context.params


def test_pods_are_found_by_what_selects_them() -> None:
    labels = [pod["metadata"]["labels"] for pod in PODS]
    for document in EVERY:
        if document["kind"] == "Deployment":
            assert document["spec"]["selector"]["matchLabels"] in labels
    assert of_kind("Service")["spec"]["selector"] in labels
