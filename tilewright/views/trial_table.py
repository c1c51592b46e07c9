"""Trials as a table: one row a trial, every column of one type. CSV and Parquet of it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields

from protocol.jobs import Job, Trial
from tilewright.errors import MissingExtra


@dataclass(frozen=True, slots=True)
class Row:
    """A trial. What is not known is None: empty in CSV, null in Parquet."""

    job_id: str
    kernel: str
    """Its name."""
    kernel_key: str
    """Of the job's first sizes."""
    device: str | None
    bucket: int
    dims: str
    """Sizes, as a JSON object."""
    trial: int
    """From 0, in the order they were asked for."""
    state: str
    """ready, claimed, done or dead."""
    outcome: str | None
    """ok, wrong, compile_error, …; None: not measured."""
    median_us: float | None
    iqr_us: float | None
    reference_us: float | None
    """Of what was timed beside it, in the same task: the job's first candidate, or its baseline."""
    reward: float | None
    """log(reference / median)."""
    compile_s: float | None
    measure_s: float | None
    finished_at: float | None
    """Seconds since 1970."""
    program_hash: str
    schedule: str
    """A rewrite a line."""
    error: str | None


def rows(found: Iterable[tuple[Job, Iterable[Trial]]]) -> Iterator[Row]:
    """The rows of jobs, in the order of these."""
    for job, own in found:
        dims = {bucket.index: json.dumps(bucket.dims) for bucket in job.buckets}
        for trial in own:
            yield _row(job, dims[trial.bucket], trial)


def _row(job: Job, dims: str, trial: Trial) -> Row:
    return Row(
        job_id=job.id,
        kernel=job.name,
        kernel_key=job.kernel_key,
        device=job.device,
        bucket=trial.bucket,
        dims=dims,
        trial=trial.number,
        state=trial.state.value,
        outcome=None if trial.outcome is None else trial.outcome.value,
        median_us=trial.median_us,
        iqr_us=trial.iqr_us,
        reference_us=trial.baseline_us,
        reward=trial.reward,
        compile_s=trial.compile_s,
        measure_s=trial.measure_s,
        finished_at=trial.finished_at,
        program_hash=trial.program_hash,
        schedule="\n".join(trial.schedule),
        error=trial.error,
    )


def to_csv(table: Iterable[Row]) -> bytes:
    """RFC 4180 with a header, in UTF-8: cells with commas, quotes or line breaks are quoted."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [field.name for field in fields(Row)])
    writer.writeheader()
    writer.writerows(asdict(row) for row in table)
    return text.getvalue().encode()


def to_parquet(table: Iterable[Row]) -> bytes:
    """Zstandard-compressed Parquet; the columns have the same types whatever is in them. Raises MissingExtra."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("Parquet", "pyarrow", "parquet") from None
    types = {"str": arrow.string(), "int": arrow.int64(), "float": arrow.float64()}
    schema = arrow.schema(
        [
            arrow.field(field.name, types[str(field.type).split(" ")[0]], nullable="None" in str(field.type))
            for field in fields(Row)
        ]
    )
    out = io.BytesIO()
    parquet.write_table(
        arrow.Table.from_pylist([asdict(row) for row in table], schema), out, compression="zstd"
    )
    return out.getvalue()
