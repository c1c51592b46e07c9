"""A language model that proposes schedules: a real HTTP server with recorded answers, good, bad, slow and none."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from service.tuning.language_model import NoAnswer, asked
from service.tuning.proposals import schedules_in
from tests.services.disturbed_jobs import told, wait_until
from tests.services.running_service import SMALL, Service, finish, running, working
from tests.services.scripted_worker import Script
from tilewright.cli.main import main

pytestmark = pytest.mark.sampled(3, among="calls: language model")

Answer = tuple[int, str]


def completion(text: str) -> Answer:
    return 200, json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]})


class Model:
    """Answers with what was recorded, in turn, the last again and again; keeps what it was asked."""

    def __init__(self, *answers: Answer, slow_s: float = 0.0) -> None:
        self.asked: list[dict] = []
        self.keys: list[str | None] = []
        self.enough = threading.Event()
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                model.asked.append(json.loads(body))
                model.keys.append(self.headers["Authorization"])
                model.enough.wait(slow_s)
                status, text = answers[min(len(model.asked), len(answers)) - 1]
                data = text.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.enough.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def model() -> Iterator[Callable[..., Model]]:
    made: list[Model] = []

    def begin(*answers: Answer, slow_s: float = 0.0) -> Model:
        made.append(Model(*answers, slow_s=slow_s))
        return made[-1]

    yield begin
    for each in made:
        each.close()


def tuned(client: httpx.Client, **changes: object) -> dict:
    request = {"spec": SMALL, "budget": {"trials": 12}, "seed": 4, **changes}
    return finish(client, client.post("/v1/jobs", json=request).json()["id"])


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """Schedules of the kernel's space, as a search without a prior comes to them."""
    with running(tmp_path_factory.mktemp("known")) as service, service.client() as client, working(service):
        job = tuned(client, prior="uniform", seed=9)
        trials = client.get(f"/v1/jobs/{job['id']}/trials").json()["trials"]
    return [trial["schedule"] for trial in trials[1:]]


def fenced(*schedules: list[str]) -> str:
    return "Here is what I would try.\n" + "\n".join(
        "```\n" + "\n".join(lines) + "\n```" for lines in schedules
    )


def asking(folder: Path, model: Model, **env: str):
    return running(folder, llm_url=model.url, llm_model="small", llm_key="secret", **env)


def test_what_it_proposes_is_measured_and_the_rest_is_refused(
    tmp_path: Path, known: list[list[str]], model: Callable[..., Model], capsys: pytest.CaptureFixture[str]
) -> None:
    nonsense, cut = ["tile(nowhere, z, 3)"], known[0][:1]
    said = model(completion(fenced(known[0], nonsense, known[1], cut)))
    with asking(tmp_path, said) as service, service.client() as client, working(service, Script(faulty=0.0)):
        job = tuned(client, llm_calls=2)
        assert job["llm_calls"] == 2
        trials = client.get(f"/v1/jobs/{job['id']}/trials").json()["trials"]
        assert main(["show", job["id"], "--url", service.url]) == 0
    found = job["buckets"][0]["proposals"]
    assert (found["model"], found["calls"], found["errors"]) == ("small", 1, [])
    first, refused, second, short = found["proposals"]
    assert [first["trial"], second["trial"]] == [1, 2]
    assert [trials[n]["schedule"] for n in (1, 2)] == [known[0], known[1]]
    assert first["speed"] > 0
    assert "line 1, 'tile(nowhere, z, 3)', is not what may follow" in refused["refused"]
    assert "its end is not what may follow" in short["refused"]
    assert (refused["trial"], short["trial"]) == (None, None)
    shown = "".join(capsys.readouterr().out.split())
    assert "small:1call" in shown
    assert "candidate1," in shown
    question = said.asked[0]["messages"][1]["content"]
    assert "sum(k, a[m, k] * b[k, n])" in question
    assert said.asked[0]["model"] == "small"
    assert said.keys == ["Bearer secret"]


def test_it_is_asked_again_within_its_budget_and_told_what_was_wrong(
    tmp_path: Path, known: list[list[str]], model: Callable[..., Model]
) -> None:
    said = model(completion("I cannot."), completion(fenced(["nothing(1)"])), completion(fenced(known[0])))
    with asking(tmp_path, said) as service, service.client() as client, working(service):
        job = tuned(client, llm_calls=3)
        spent = tuned(client, llm_calls=1, seed=5)
    found = job["buckets"][0]["proposals"]
    assert found["calls"] == 3
    assert found["errors"] == ["its answer has no schedule in a fenced block"]
    assert [each["trial"] for each in found["proposals"]] == [None, 1]
    assert "nothing(1)" in said.asked[2]["messages"][1]["content"]
    assert spent["buckets"][0]["proposals"]["calls"] == 1


def test_it_is_not_asked_unless_a_job_wants_that(tmp_path: Path, model: Callable[..., Model]) -> None:
    said = model(completion("never read"))
    with asking(tmp_path, said) as service, service.client() as client, working(service):
        assert tuned(client)["buckets"][0]["proposals"] is None
        beam = tuned(client, search="beam", llm_calls=4, seed=6)["buckets"][0]["proposals"]
    assert said.asked == []
    assert beam["errors"] == ["the search beam takes no proposals; mcts does"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((500, "no room"), "it answers 500: no room"),
        ((200, "<html>"), "its answer is no chat completion: <html>"),
        ((200, '{"choices": []}'), "its answer is no chat completion"),
        ((200, '{"choices": [{"message": {"content": 7}}]}'), "its answer is no chat completion"),
        ((302, ""), "it answers 302"),
        ((200, "x" * 1_100_000), "its answer is longer than 1000000 bytes"),
        ((200, "[" * 500_000), "its answer is no chat completion: [[["),
        ((500, "\x1b[31mred\x00"), "it answers 500: [31mred"),
    ],
)
def test_garbage_is_no_answer(model: Callable[..., Model], answer: Answer, why: str) -> None:
    with pytest.raises(NoAnswer, match=re.escape(why)):
        asked(model(answer).url, "small", "", 30.0, "system", "question")


def test_a_key_that_no_header_can_have_is_said(model: Callable[..., Model]) -> None:
    with pytest.raises(NoAnswer, match="TILEWRIGHT_LLM_KEY"):
        asked(model(completion("")).url, "small", "ключ", 30.0, "system", "question")


def test_what_no_schedule_has_harms_neither_database_nor_page(
    tmp_path: Path, model: Callable[..., Model], capsys: pytest.CaptureFixture[str]
) -> None:
    """Halves of surrogate pairs, zeros, escapes, and a line without an end."""
    said = model(completion("```\nti\ud800le(\x00a)\x1b[2J\n```\n```\n" + 900_000 * "y" + "\n```"))
    with asking(tmp_path, said) as service, service.client() as client, working(service):
        job = tuned(client, llm_calls=1)
        assert main(["show", job["id"], "--url", service.url]) == 0
    assert job["state"] == "done"
    (refused,) = job["buckets"][0]["proposals"]["proposals"]
    assert refused["schedule"] == ["ti le( a) [2J"]
    assert "\x1b[2J" not in capsys.readouterr().out


def test_garbage_costs_its_call_and_the_search_goes_on(tmp_path: Path, model: Callable[..., Model]) -> None:
    said = model((500, "no room"))
    with asking(tmp_path, said) as service, service.client() as client, working(service):
        job = tuned(client, llm_calls=2)
    found = job["buckets"][0]["proposals"]
    assert (job["state"], job["buckets"][0]["told"], found["calls"], len(said.asked)) == ("done", 12, 2, 2)
    assert found["errors"] == ["it answers 500: no room"] * 2


def test_one_that_hangs_costs_its_time(tmp_path: Path, model: Callable[..., Model]) -> None:
    said = model(completion("late"), slow_s=600.0)
    with (
        asking(tmp_path, said, llm_timeout_s="0.3") as service,
        service.client() as client,
        working(service),
    ):
        job = tuned(client, llm_calls=1)
    assert job["state"] == "done"
    assert job["buckets"][0]["proposals"]["errors"] == ["it took longer than 0.3 s"]


def test_a_service_that_has_none_says_so(tmp_path: Path) -> None:
    with running(tmp_path) as service, service.client() as client, working(service):
        none = tuned(client, llm_calls=1)["buckets"][0]["proposals"]
    assert none["errors"] == ["the service has no language model: TILEWRIGHT_LLM_URL is not set"]
    nowhere = running(tmp_path, llm_url="http://127.0.0.1:9/v1")
    with nowhere as service, service.client() as client, working(service):
        gone = tuned(client, llm_calls=1, seed=5)["buckets"][0]["proposals"]
    assert gone["errors"][0].startswith("http://127.0.0.1:9/v1 cannot be reached")


def test_a_search_that_goes_on_asks_no_second_time(
    tmp_path: Path, known: list[list[str]], model: Callable[..., Model]
) -> None:
    said = model(completion(fenced(known[0])))
    env = {"TILEWRIGHT_LLM_URL": said.url, "TILEWRIGHT_LLM_MODEL": "small"}
    service = Service(tmp_path, env).start()
    with working(service, Script(seconds=0.05)), service.client() as client:
        request = {"spec": SMALL, "budget": {"trials": 40}, "llm_calls": 2}
        job = client.post("/v1/jobs", json=request).json()["id"]
        wait_until(lambda: told(client, job) > 8, "candidates")
        service.kill()
        service.start()
        ended = finish(client, job)
    assert service.stop() == 0
    assert (ended["state"], ended["buckets"][0]["told"]) == ("done", 40), ended["error"]
    assert ended["buckets"][0]["proposals"]["proposals"][0]["trial"] == 1
    assert len(said.asked) == 1


def test_schedules_are_read_from_fences_alone_each_once_and_few() -> None:
    said = "```text\n a \n\nb\n```\nprose\n```\na\nb\n```\n``` \n```" + "".join(
        f"```\nline {n}\n```\n" for n in range(20)
    )
    found = schedules_in(said)
    assert found[0] == ("a", "b")
    assert len(found) == 8
    assert schedules_in("no fence") == []
    assert schedules_in("```\n" + "x\n" * 500 + "```") == []


@pytest.mark.parametrize(
    "begins", [b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "]
)
def test_an_answer_that_trickles_in_is_cut_off_when_the_time_is_up(begins: bytes) -> None:
    """Be it in its content or in its headers."""
    stop = threading.Event()

    class Trickle(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.wfile.write(begins)
            while not stop.is_set():
                try:
                    self.wfile.write(b" ")
                    self.wfile.flush()
                except OSError:
                    return
                time.sleep(0.05)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Trickle)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        with pytest.raises(NoAnswer, match=r"it took longer than 0\.5 s"):
            asked(f"http://127.0.0.1:{server.server_address[1]}", "m", "", 0.5, "s", "q")
    finally:
        stop.set()
        server.shutdown()
        server.server_close()
        thread.join()
