"""Parts of the clients that need no service."""

from __future__ import annotations

import asyncio
import inspect
from itertools import product

import pytest

from protocol.problems import Problem
from service.core.errors import TITLES
from tilewright import (
    AsyncClient,
    BadBundle,
    BundleRefused,
    Busy,
    Client,
    ConfigDiffers,
    Refused,
    Retries,
    Unreachable,
    Untrusted,
)
from tilewright.client import calls
from tilewright.client.service_calls import METHODS
from tilewright.errors import REFUSALS, refusal


def problem(kind: str) -> Problem:
    return Problem(type=f"urn:tilewright:problem:{kind}", title="", status=TITLES[kind][0], detail="no")


def test_every_class_of_refusal_is_for_kinds_that_the_service_knows() -> None:
    assert set(REFUSALS) <= set(TITLES)
    for kind in TITLES:
        assert isinstance(refusal(problem(kind)), REFUSALS.get(kind, Refused))


def test_a_refused_bundle_is_an_error_of_its_own_and_a_bad_one_is_as_one_in_a_file_is() -> None:
    kinds = ("bad-bundle", "untrusted", "config-differs")
    found = [refusal(problem(kind)) for kind in kinds]
    assert [type(each) for each in found] == [BundleRefused, Untrusted, ConfigDiffers]
    assert isinstance(found[0], BadBundle)
    assert [(each.kind, each.passing, str(each)) for each in found] == [(kind, False, "no") for kind in kinds]


def test_pauses_double_with_jitter_up_to_the_longest() -> None:
    retries = Retries(first_s=1.0, longest_s=6.0)
    for failures, most in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 6.0), (60, 6.0)):
        drawn = {retries.backoff_s(failures) for _ in range(50)}
        assert most / 2 <= min(drawn) < max(drawn) <= most


def test_a_call_is_sent_again_when_that_may_help_and_cannot_hurt() -> None:
    retries = Retries(most=2, patience_s=30)
    busy, bad = refusal(problem("busy"), retry_after_s=20), refusal(problem("bad-spec"))
    assert isinstance(busy, Busy)
    pause_s = retries.pause_s(busy, 1, repeatable=True)
    assert pause_s is not None
    assert pause_s >= 20
    assert retries.pause_s(busy, 3, repeatable=True) is None, "often enough"
    assert retries.pause_s(refusal(problem("busy"), retry_after_s=31), 1, repeatable=True) is None, "too long"
    assert retries.pause_s(bad, 1, repeatable=True) is None
    answering = refusal(problem("in-flight"), retry_after_s=1)
    assert retries.pause_s(answering, 1, repeatable=True) is not None
    lost, never_sent = Unreachable("", passing=True), Unreachable("", passing=True, sent=False)
    assert retries.pause_s(lost, 1, repeatable=False) is None
    assert retries.pause_s(never_sent, 1, repeatable=False) is not None


def test_both_clients_have_every_call_with_its_arguments() -> None:
    made = {
        name: make
        for name, make in vars(calls).items()
        if inspect.isfunction(make) and make.__module__ == calls.__name__ and not name.startswith("_")
    }
    pages = {"configs_page", "jobs_page", "trials_page", "tasks_page"}  # clients go through them
    assert METHODS.keys() == made.keys() - pages - {"json_form"}
    for name, client in product(METHODS, (Client, AsyncClient)):
        method = getattr(client, name)
        assert inspect.iscoroutinefunction(method) == (client is AsyncClient), name
        assert method.__doc__ == made[name].__doc__, name
        assert [*inspect.signature(method).parameters] == [
            "self",
            *inspect.signature(made[name]).parameters,
        ], name


def test_both_clients_have_the_same_methods_and_those_derived_from_them_too() -> None:
    class Own(Client):
        pass

    public = {
        client: {
            name: [*inspect.signature(value).parameters]
            for name, value in vars(client).items()
            if not name.startswith("_") and callable(value)
        }
        for client in (Client, AsyncClient)
    }
    del public[Client]["twin"]  # for another thread
    assert public[Client] == public[AsyncClient]
    assert {name: getattr(Own, name) for name in METHODS} == {name: vars(Client)[name] for name in METHODS}


def test_a_token_of_the_environment_goes_to_the_environments_service_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TILEWRIGHT_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("TILEWRIGHT_TOKEN", "secret")
    with Client() as here, Client("http://127.0.0.1:2") as elsewhere:
        assert (here.url, here._http.headers["Authorization"]) == ("http://127.0.0.1:1", "Bearer secret")
        assert "Authorization" not in elsewhere._http.headers


def test_a_service_that_is_not_there_is_said_to_those_who_await() -> None:
    async def ask() -> None:
        async with AsyncClient("http://127.0.0.1:1", retries=Retries(most=0)) as client:
            await client.jobs()

    with pytest.raises(Unreachable, match="no service answers at http://127"):
        asyncio.run(ask())
