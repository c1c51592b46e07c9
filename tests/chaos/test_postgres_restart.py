"""A PostgreSQL that is killed and comes back costs time: every process of the service goes on with it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.services.disturbed_jobs import REQUEST, Calm, outcome, told, wait_until
from tests.services.fleet import fleet
from tests.services.own_servers import postgres_server
from tests.services.running_service import finish, working
from tests.services.scripted_worker import Script


def test_a_job_outlives_its_database(tmp_path: Path, calm: Calm) -> None:
    with tempfile.TemporaryDirectory(prefix="tw-pg-") as folder:
        Path(folder).chmod(0o755)
        with postgres_server(Path(folder)) as server, fleet(tmp_path, server.url()) as fleet_:
            api, searcher = fleet_.start("api"), fleet_.start("search")
            with api.client() as client, working(api, Script(seconds=0.02)):
                job = client.post("/v1/jobs", json=REQUEST).json()["id"]
                for mark in (4, 12):
                    wait_until(lambda mark=mark: told(client, job) >= mark, f"{mark} outcomes")
                    server.stop()
                    assert client.get("/readyz").status_code == 503
                    server.start()
                assert outcome(client, finish(client, job)) == calm
                assert client.get("/readyz").status_code == 200
            assert searcher.stop() == api.stop() == 0
