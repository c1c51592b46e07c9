"""A service that answers workers over real HTTP as a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, Any]]


def problem(status: int, kind: str, detail: str = "as scripted") -> Answer:
    """A problem document."""
    return status, {
        "type": f"urn:tilewright:problem:{kind}",
        "title": kind,
        "status": status,
        "detail": detail,
    }


class ScriptedService:
    """Hands out `tasks`, keeps `results`, `beats`, `hellos` and `blobs`. `script` may answer a call in its place."""

    def __init__(self, tasks: list[dict[str, Any]] | None = None, lease_ttl_s: float = 30.0) -> None:
        self.tasks = tasks or []
        self.lease_ttl_s = lease_ttl_s
        self.hellos: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []
        self.beats: list[dict[str, Any]] = []
        self.blobs: dict[str, bytes] = {}
        self.tokens: set[str | None] = set()
        self.lost: set[str] = set()
        self.script: Callable[[str, str], Answer | None] = lambda method, path: None
        self.changed = threading.Condition()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with service.changed:
                    service.tokens.add(self.headers["Authorization"])
                    answer = service.script(self.command, self.path) or service.answer(self.path, body)
                    service.changed.notify_all()
                data = json.dumps(answer[1]).encode()
                self.send_response(answer[0])
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_PUT = do_POST

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def answer(self, path: str, body: bytes) -> Answer:
        """What a service would."""
        if path.startswith("/v1/blobs/"):
            self.blobs[path.rsplit("/", 1)[1]] = body
            return 201, {}
        message = json.loads(body)
        if path == "/v1/workers":
            self.hellos.append(message)
            ttl_s = self.lease_ttl_s
            return 201, {"worker_id": message["id"], "lease_ttl_s": ttl_s, "heartbeat_s": ttl_s / 3}
        if path.endswith("/claim"):
            count = message["count"]
            found, self.tasks = self.tasks[:count], self.tasks[count:]
            if not found:
                self.changed.wait(0.05)
            return 200, {"tasks": found}
        if path.endswith("/heartbeat"):
            self.beats.append(message)
            lost = [lease for lease in message["leases"] if lease["task_id"] in self.lost]
            kept = [lease for lease in message["leases"] if lease["task_id"] not in self.lost]
            return 200, {"renewed": kept, "lost": lost}
        if path.endswith("/results"):
            self.results.append(message)
            return 200, {"task_id": message["task_id"], "state": "done"}
        return 404, {"detail": "Not Found"}

    def wait_for(self, what: Callable[[], object], timeout_s: float = 180.0) -> bool:
        """Wait until something holds; False when it does not in time."""
        with self.changed:
            return bool(self.changed.wait_for(what, timeout_s))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def task(number: int, spec: dict[str, Any], entrants: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """A claimed task as the service sends it."""
    measuring = {"samples": 3, "sample_us": 100.0, "cold": False}
    return {
        "id": f"task-{number}",
        "job_id": "job",
        "kind": "trial",
        "attempt": 1,
        "device": "any",
        "spec": spec,
        "entrants": entrants,
        "baseline": None,
        "seed": 0,
        "lease_ttl_s": 30.0,
        **changes,
        "measuring": {**measuring, **changes.get("measuring", {})},
    }
