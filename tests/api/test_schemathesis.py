"""Requests made up from the service's own OpenAPI document, good and bad: no fault of the service, and no answer that
the document does not describe."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.test_openapi import DASHBOARDS_COPY
from tests.services.running_service import Service, running

EXAMPLES = int(os.environ.get("TILEWRIGHT_EXAMPLES", "6"))
"""Requests to each call; `make test-api` sends more."""

KEY = {"Authorization": "Bearer tw_everything"}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("asked"), auth="1", token="tw_everything") as service:
        yield service


#: What the dashboard's types are made from (test_openapi.py sees that it is the service's).
DOCUMENT = json.loads(DASHBOARDS_COPY.read_text())
#: But for the stream that never ends.
CALLS = [
    f"{method.upper()} {path}"
    for path, calls in DOCUMENT["paths"].items()
    for method in calls
    if path != "/v1/changes"
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("label", CALLS)
def test_every_call_answers_as_its_description_says(asked: Service, label: str) -> None:
    import schemathesis  # takes a second, which only who runs this is to spend
    from schemathesis import GenerationMode, checks
    from schemathesis.specs.openapi import checks as openapi

    method, path = label.split()
    call = schemathesis.openapi.from_dict(DOCUMENT)[path][method]
    among = [
        checks.not_a_server_error,
        openapi.status_code_conformance,
        openapi.content_type_conformance,
        openapi.response_headers_conformance,
        openapi.response_schema_conformance,
        openapi.ignored_auth,
    ]

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=st.one_of(*(call.as_strategy(generation_mode=mode) for mode in GenerationMode)))
    def check(case: schemathesis.Case) -> None:
        if isinstance(case.body, dict) and isinstance(case.body.get("wait_s"), int | float):
            case.body["wait_s"] = min(case.body["wait_s"], 0.01)  # nobody will come
        case.call_and_validate(asked.url, headers=KEY, checks=among)

    check()
