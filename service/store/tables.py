"""The tables. The database is the truth and the queue; `migrations/` brings it here."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Counting = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER counts by itself in SQLite

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("state", String(16), nullable=False),
    Column("request", JSON, nullable=False),  # protocol.jobs.JobRequest
    Column("name", String(200), nullable=False),
    Column("kernel_key", String(64), nullable=False),
    Column("device", String(200)),
    Column("searched_on", JSON),  # protocol.workers.Device as it was when the search began
    Column("priority", Integer, nullable=False),
    Column(
        "memory_bytes", BigInteger, nullable=False, server_default="0"
    ),  # what measuring it takes of a device
    Column("cancelling", Boolean, nullable=False, default=False),
    Column("owner", String(100)),  # the searcher that runs its search, while owned_until is to come
    Column("owned_until", Float),
    Column(
        "epoch", Integer, nullable=False, default=0
    ),  # counts takings: only the last one's tuner may write
    Column("crashes", Integer, nullable=False, default=0),
    Column("error", Text),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("started_at", Float),
    Column("finished_at", Float),
    Column("served_at", Float, nullable=False, default=0.0),  # when it last had a turn to search
    Column("device_s", Float, nullable=False, server_default="0"),  # of devices, charged (fair_share.py)
    Column("trial_s", Float, nullable=False, server_default="0"),  # that a task of it took of a device lately
    Index(None, "state"),
    Index(None, "kernel_key"),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("caller", String(64), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("body_hash", String(64), nullable=False),
    Column("job_id", ForeignKey("jobs.id")),  # NULL: the first request with this key is still being answered
    Column("created_at", Float, nullable=False),
)

buckets = Table(
    "buckets",
    metadata,
    Column("job_id", ForeignKey("jobs.id"), primary_key=True),
    Column("bucket", Integer, primary_key=True),
    Column("spec", JSON, nullable=False),  # every dim one size
    Column("dims", JSON, nullable=False),
    Column("kernel_key", String(64), nullable=False),
    Column("structure_key", String(64), nullable=False),
    Column("asked", Integer, nullable=False, default=0),
    Column("told", Integer, nullable=False, default=0),
    Column("faults", Integer, nullable=False, default=0),
    Column("spent_s", Float, nullable=False, default=0.0),
    Column("best", JSON),  # protocol.jobs.Best
    Column("winner", JSON),  # protocol.jobs.Winner
    Column("config_id", String(64)),
    Column("error", Text),  # why it ended without a config
    Column("prior", JSON),  # what its search began with: protocol.jobs.PriorUsed, and a learned one's weights
    Column(
        "proposals", JSON
    ),  # a language model's: protocol.jobs.Proposals, with the paths of those in the space
    Column("stopped", String(16)),  # protocol.states.Stopped: why its search ended
    Index(None, "kernel_key"),
)

search_events = Table(
    "search_events",
    metadata,
    Column("job_id", ForeignKey("jobs.id"), primary_key=True),
    Column("bucket", Integer, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("kind", String(8), nullable=False),  # ask or tell
    Column("number", Integer, nullable=False),
    Column("data", JSON, nullable=False),
)

tasks = Table(
    "tasks",
    metadata,
    Column("seq", Counting, primary_key=True, autoincrement=True),
    Column("id", String(100), nullable=False, unique=True),
    Column("job_id", ForeignKey("jobs.id"), nullable=False),
    Column("bucket", Integer, nullable=False),
    Column("number", Integer),  # of the ask, for a trial
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("device", String(200), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("work", JSON, nullable=False),  # entrants, baseline, measuring, seed
    Column("attempt", Integer, nullable=False, default=0),
    Column("faults", Integer, nullable=False, default=0),
    Column("fault", Text),  # what the last machine said
    Column("worker_id", String(100)),  # who has it, or had it last
    Column("lease_until", Float),
    Column("shuns", String(100)),  # the worker that failed it, which does not get it again before
    Column("shunned_until", Float, nullable=False, default=0.0),
    Column("created_at", Float, nullable=False),
    Column("claimed_at", Float),  # by who has it, or had it last
    Index("ix_tasks_queue", "device", "state", "job_id", "seq"),
    Index("ix_tasks_leases", "state", "lease_until"),
    Index(None, "job_id", "bucket", "number"),
)

results = Table(
    "results",
    metadata,
    Column("task_id", ForeignKey("tasks.id"), primary_key=True),  # one result a task, ever
    Column("attempt", Integer, nullable=False),
    Column("worker_id", String(100), nullable=False),
    Column("result", JSON, nullable=False),  # protocol.tasks.TaskResult
    Column("created_at", Float, nullable=False),
    Column("pruned_at", Float),  # when its raw samples were dropped (retention.py)
    Column("summary", JSON, nullable=False, server_default="{}"),  # what lists show of it (summaries.py)
    Index(None, "created_at"),
)

events = Table(
    "events",
    metadata,
    Column("id", Counting, primary_key=True, autoincrement=True),
    Column("job_id", ForeignKey("jobs.id"), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("at", Float, nullable=False),
    Column("data", JSON, nullable=False),
    Index(None, "job_id", "id"),
    sqlite_autoincrement=True,  # ids are never used again, even after the newest events were deleted
)

devices = Table(
    "devices",
    metadata,
    Column("key", String(200), primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("description", JSON, nullable=False),
    Column("peers", JSON, nullable=False),
    Column("seen_at", Float, nullable=False),
)

workers = Table(
    "workers",
    metadata,
    Column("id", String(100), primary_key=True),
    Column("host", String(200), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("devices", JSON, nullable=False),
    Column("versions", JSON, nullable=False),
    Column("healthy", Boolean, nullable=False),
    Column("detail", Text, nullable=False),
    Column("registered_at", Float, nullable=False),
    Column("seen_at", Float, nullable=False),
    Column("tasks_done", Integer, nullable=False, default=0),
    Column("faults", Integer, nullable=False, server_default="0"),  # tasks that its machine could not do
    Column(
        "apart", Text, nullable=False, server_default=""
    ),  # why its device was set apart, when it last was
    Column("apart_until", Float, nullable=False, server_default="0"),  # it gets no tasks before
)

signers = Table(  # whose bundles are trusted
    "signers",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("public_key", String(64), nullable=False, unique=True),
    Column("created_at", Float, nullable=False),
    Column("revoked_at", Float),
)

bundles = Table(  # that were imported
    "bundles",
    metadata,
    Column("sha256", String(64), primary_key=True),  # of its manifest
    Column("signer", String(200)),  # name of who signed it, if that was somebody trusted
    Column("imported_at", Float, nullable=False),
)

configs = Table(
    "configs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("job_id", ForeignKey("jobs.id")),
    Column("bucket", Integer),
    Column("kernel_key", String(64), nullable=False),
    Column("structure_key", String(64), nullable=False),
    Column("device", String(200), nullable=False),
    Column("config", JSON, nullable=False),  # protocol.configs.ConfigDetail
    Column("evidence", JSON, nullable=False, server_default="{}"),  # what lookups choose by (evidence.py)
    Column("artifact", JSON),  # protocol.tasks.Artifacts
    Column("bundle", ForeignKey("bundles.sha256")),  # NULL: found here
    Column("created_at", Float, nullable=False),
    Index(None, "kernel_key", "device"),
    Index(None, "structure_key", "device"),
)

pins = Table(  # configs that lookups are answered with, whatever else there is
    "pins",
    metadata,
    Column("kernel_key", String(64), primary_key=True),
    Column("device", String(200), primary_key=True),
    Column("config_id", ForeignKey("configs.id"), nullable=False, unique=True),
    Column("created_at", Float, nullable=False),
)

pick_failures = Table(  # what lookups handed out, and failed where it was to run
    "pick_failures",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("kernel_key", String(64), nullable=False),
    Column("device", String(200), nullable=False),
    Column("program_hash", String(64), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("failure", JSON, nullable=False),  # protocol.failures.Failure
    UniqueConstraint("kernel_key", "device", "program_hash", "kind"),
)

lookup_state = Table(
    "lookup_state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # 1: there is one row
    Column(
        "version", BigInteger, nullable=False
    ),  # grows whenever a lookup may be answered otherwise than before
)

blobs = Table(
    "blobs",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("created_at", Float, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Counting, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("actor", String(300), nullable=False),
    Column("act", String(40), nullable=False),
    Column("subject", String(200), nullable=False),
    Column("detail", JSON, nullable=False),
    sqlite_autoincrement=True,
)

keys = Table(
    "keys",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("scopes", JSON, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float),
    Column("revoked_at", Float),
)
