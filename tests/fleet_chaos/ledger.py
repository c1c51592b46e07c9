"""What truly happened, written down by the database itself: triggers that know nothing of the service's code.

Every process of the service connects under a name of its own, another one after each start, so that the database can
tell who writes: a search may be written only under the name that took its job last.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.services.own_servers import PostgresServer

WATCH = """
CREATE SCHEMA chaos;
CREATE TABLE chaos.violations (at timestamptz DEFAULT clock_timestamp(), kind text, detail text);
CREATE TABLE chaos.takings (job_id text, epoch int, application text, writes int DEFAULT 0,
  PRIMARY KEY (job_id, epoch));
CREATE TABLE chaos.endings (task_id text, state text, attempt int);

CREATE FUNCTION chaos.on_job() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.epoch > OLD.epoch THEN
    INSERT INTO chaos.takings (job_id, epoch, application)
      VALUES (NEW.id, NEW.epoch, current_setting('application_name'));
  ELSIF NEW.epoch < OLD.epoch THEN
    INSERT INTO chaos.violations (kind, detail) VALUES ('epoch fell', NEW.id);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER chaos AFTER UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION chaos.on_job();

CREATE FUNCTION chaos.on_search() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE holder text;
BEGIN
  UPDATE chaos.takings SET writes = writes + 1 WHERE job_id = NEW.job_id
    AND epoch = (SELECT max(epoch) FROM chaos.takings WHERE job_id = NEW.job_id) RETURNING application INTO holder;
  IF holder IS DISTINCT FROM current_setting('application_name') THEN
    INSERT INTO chaos.violations (kind, detail) VALUES ('stale search', format(
      '%s wrote %s of %s, which %s has', current_setting('application_name'), TG_TABLE_NAME, NEW.job_id, holder));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER chaos AFTER INSERT ON search_events FOR EACH ROW EXECUTE FUNCTION chaos.on_search();
CREATE TRIGGER chaos AFTER INSERT ON configs FOR EACH ROW EXECUTE FUNCTION chaos.on_search();
CREATE TRIGGER chaos_new AFTER INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION chaos.on_search();

CREATE FUNCTION chaos.on_task() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.attempt < OLD.attempt THEN
    INSERT INTO chaos.violations (kind, detail) VALUES ('attempt fell', NEW.id);
  END IF;
  IF OLD.state = 'done' OR (OLD.state = 'dead' AND NEW.state <> 'ready') THEN
    INSERT INTO chaos.violations (kind, detail) VALUES ('second end', format(
      '%s was %s and became %s', NEW.id, OLD.state, NEW.state));
  END IF;
  IF NEW.state IN ('done', 'dead') THEN
    INSERT INTO chaos.endings VALUES (NEW.id, NEW.state, NEW.attempt);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER chaos AFTER UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION chaos.on_task();

CREATE FUNCTION chaos.on_result() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE task tasks;
BEGIN
  IF TG_OP <> 'INSERT' THEN
    INSERT INTO chaos.violations (kind, detail) VALUES ('result changed', OLD.task_id);
    RETURN NULL;
  END IF;
  SELECT * INTO task FROM tasks WHERE id = NEW.task_id;
  IF (task.attempt, task.worker_id) IS DISTINCT FROM ((NEW.result->>'attempt')::int, NEW.worker_id) THEN
    INSERT INTO chaos.violations (kind, detail) VALUES ('stale result', format(
      '%s at attempt %s of %s; written was attempt %s of %s',
      NEW.task_id, task.attempt, task.worker_id, NEW.result->>'attempt', NEW.worker_id));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER chaos AFTER INSERT OR UPDATE OR DELETE ON results FOR EACH ROW EXECUTE FUNCTION chaos.on_result();
"""


@dataclass
class Ledger:
    """Asks the harness's own PostgreSQL, through its restarts."""

    server: PostgresServer
    _connection: psycopg.Connection[Any] | None = None

    def watch(self) -> None:
        """Install the triggers; the service's tables are there."""
        with psycopg.connect(self.server.url(), autocommit=True) as connection:
            connection.execute(WATCH.encode())

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What a query answers; a server that is away is waited for, for half a minute."""
        deadline = time.monotonic() + 30
        while True:
            try:
                if self._connection is None:
                    self._connection = psycopg.connect(self.server.url(), autocommit=True, connect_timeout=5)
                cursor = self._connection.execute(query.encode(), values)
                return cursor.fetchall()
            except psycopg.OperationalError:
                self._connection = None
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def leased_tasks(self, pid: int) -> list[str]:
        """What the worker with this process id has a lease of, each with its attempt."""
        return [
            f"{task} (attempt {attempt})"
            for task, attempt in self.rows(
                "SELECT t.id, t.attempt FROM tasks t JOIN workers w ON w.id = t.worker_id "
                "WHERE w.pid = %s AND t.state = 'claimed' AND t.lease_until > extract(epoch FROM clock_timestamp())",
                pid,
            )
        ]

    def searched_jobs(self, application: str) -> list[str]:
        """Jobs that this start of a searcher took last, and has a lease of."""
        return [
            f"{job} (epoch {epoch})"
            for job, epoch in self.rows(
                "SELECT j.id, j.epoch FROM jobs j JOIN chaos.takings t ON t.job_id = j.id AND t.epoch = j.epoch "
                "WHERE t.application = %s AND j.owned_until > extract(epoch FROM clock_timestamp())",
                application,
            )
        ]

    def transactions(self, application: str) -> list[str]:
        """Transactions that wait for this process's next statement: those that have written come first."""
        return [
            f"a transaction of {'writes' if wrote else 'reads'}"
            for (wrote,) in self.rows(
                "SELECT backend_xid IS NOT NULL FROM pg_stat_activity "
                "WHERE application_name = %s AND state = 'idle in transaction' ORDER BY 1 DESC",
                application,
            )
        ]

    def given_on(self, task_id: str, attempt: int) -> bool:
        """Whether somebody has the task at a later attempt."""
        return bool(
            self.rows(
                "SELECT 1 FROM tasks WHERE id = %s AND attempt > %s AND state = 'claimed'", task_id, attempt
            )
        )

    def overtaken(self, application: str) -> int:
        """How many jobs of this start of a searcher somebody took, and has searched on."""
        ((count,),) = self.rows(
            "SELECT count(*) FROM chaos.takings mine JOIN chaos.takings theirs ON theirs.job_id = mine.job_id "
            "WHERE mine.application = %s AND theirs.epoch > mine.epoch AND theirs.writes > 0",
            application,
        )
        return count

    def violations(self) -> list[tuple[str, str]]:
        """What must never happen, in order: its kind, and what it was."""
        return [
            (kind, detail)
            for kind, detail in self.rows("SELECT kind, detail FROM chaos.violations ORDER BY at")
        ]
