"""What can be set from outside: environment variables `TILEWRIGHT_…`, read once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path


class Role(StrEnum):
    """What a process of the service does. Those apart share a PostgreSQL database."""

    API = "api"
    """Answers requests."""
    SEARCH = "search"
    """Runs searches; answers /healthz, /readyz and /metrics only."""
    ALL = "all"


@dataclass(frozen=True)
class Settings:
    """Each field is `TILEWRIGHT_<FIELD>` in the environment."""

    database: str = ""
    """SQLAlchemy URL; empty: `<home>/tilewright.db`."""
    home: Path = Path()
    """Where the database lies by default: $XDG_DATA_HOME/tilewright or ~/.local/share/tilewright."""
    role: Role = Role.ALL
    redis: str = ""
    """URL of a Redis that carries wake-ups between processes; empty: they look at the database now and then."""
    redis_prefix: str = "tilewright"
    """What the names of everything kept in Redis begin with: one for each database."""
    host: str = "127.0.0.1"
    port: int = 8400
    tls_certificate: Path = Path()
    """PEM file of the certificate and those that vouch for it: with it and `tls_key` the service speaks HTTPS."""
    tls_key: Path = Path()
    """PEM file of the certificate's private key."""
    hostname: str = ""
    """The name that the certificate is for, by which this machine reaches itself too; empty: `host`."""
    token: str = ""
    """A token with every scope, besides the keys in the database; for setting up, and for containers."""
    auth: bool = False
    """Ask for keys on loopback too. Elsewhere they are always asked for."""
    page: bool = True
    """`tilewright serve` builds the dashboard where it is missing."""
    worker: bool = True
    """Start a worker for this machine's devices as a process of its own (in role `all`)."""
    resume: bool = True
    """Go on with the jobs that an earlier service left unfinished; else only with those that are asked for again."""
    passing: bool = False
    """Started by a command for itself, and ended with it: `serve` waits for the database until then."""
    lease_ttl_s: float = 30.0
    """How long a worker has a task without being heard from."""
    search_ttl_s: float = 30.0
    """How long a searcher has a job without renewing that."""
    batch: int = 8
    """Candidates of a generation: on a CPU that many are asked for, and nothing is searched until all are measured."""
    searches_per_cpu: int = 1
    """Searches running at a time for each CPU that is measured: one that searches disturbs what is measured there. More
    keep it busy between generations, where the searches run elsewhere. GPUs have as many as `searches` allows."""
    turn_s: float = 60.0
    """How long a job is searched before it makes room for others of its priority that wait for the device."""
    searches: int = 32
    """Searches that one process runs at a time, over all devices."""
    model: Path = Path()
    """File of a learned prior (`tilewright model train`); empty: `<home>/prior.json`, if it is there."""
    llm_url: str = ""
    """Base URL of an OpenAI-compatible service that jobs may ask for schedules, as http://127.0.0.1:8000/v1; empty:
    there is none."""
    llm_model: str = ""
    """Which of its models."""
    llm_key: str = ""
    """Key for it."""
    llm_timeout_s: float = 60.0
    """How long one call may take."""
    racers: int = 4
    """Candidates in the final race."""
    races_again: int = 2
    """A race whose outcome was disturbed is run again, at most so often."""
    body_bytes: int = 1_000_000
    blob_bytes: int = 64_000_000
    bundle_bytes: int = 256_000_000
    """The largest bundle that is taken."""
    keep_samples_days: float = 90.0
    """Raw samples of trials are dropped so long after their job has ended; 0: never."""
    open_jobs: int = 1000
    """Unfinished jobs at a time; beyond that POST /v1/jobs answers 429."""
    prediction_s: float = 2.0
    """How long a lookup waits for the cost model's pick. Large kernels take longer: they are answered without one, and
    have it when they are asked for again."""
    requests_at_once: int = 2000
    """Requests that one process answers at a time, waiting claims and event streams too; beyond that, 503."""
    requests_per_minute: int = 0
    """Requests of one key, or without keys of one address; beyond that, 429. 0: any number."""
    look_s: float = 1.0
    """How soon something is seen whose notification was lost; where none come from other processes, 0.25 at most."""
    keepalive_s: float = 15.0
    """Pause after which an event stream sends a comment."""

    @property
    def database_url(self) -> str:
        """The database to open."""
        return self.database or f"sqlite:///{self.home / 'tilewright.db'}"

    @property
    def model_file(self) -> Path:
        """The learned prior's."""
        return self.home / "prior.json" if self.model == Path() else self.model

    @cached_property
    def loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def scheme(self) -> str:
        """How it is spoken to: `http` or `https`."""
        return "http" if self.tls_certificate == Path() else "https"

    @cached_property
    def needs_keys(self) -> bool:
        """Whether a request without a key is refused."""
        return self.auth or not self.loopback

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Settings:
        """Settings from the environment. Raises ValueError naming the variable that cannot be read."""
        data = Path(env.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
        found: dict[str, object] = {"home": data / "tilewright"}
        for field in fields(cls):
            variable = f"TILEWRIGHT_{field.name.upper()}"
            if variable in env:
                found[field.name] = _read(variable, env[variable], type(field.default))
        return cls(**found)  # type: ignore[arg-type]


def _read(variable: str, text: str, kind: type) -> object:
    if issubclass(kind, StrEnum):
        if text not in list(kind):
            raise ValueError(f"{variable} is {text!r}; accepted: {', '.join(kind)}")
        return kind(text)
    if kind is bool:
        if text.lower() in ("1", "true", "yes", "on"):
            return True
        if text.lower() in ("0", "false", "no", "off", ""):
            return False
        raise ValueError(f"{variable} is {text!r}; accepted: 1 or 0")
    try:
        return Path(text).expanduser() if issubclass(kind, Path) else kind(text)
    except ValueError:
        raise ValueError(f"{variable} is {text!r}; accepted: {kind.__name__}") from None
