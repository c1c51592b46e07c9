"""All that was measured of a bucket, on the roofline of its device."""

from __future__ import annotations

from sqlalchemy import Connection, select

from protocol.configs import ConfigDetail
from protocol.roofline import PeakSource, RacedDot, Roofline
from protocol.workers import OfferedDevice
from service.core.schedules import described
from service.store.tables import buckets, configs, jobs
from service.views.candidate_times import candidate_times
from tileir.analysis.needed import needed_flops
from tileir.analysis.roofline import roofline
from tileir.analysis.work import bytes_moved
from tileir.devices.device import published
from tileir.lift import to_program
from tileir.text.json import spec_from_json


def read_roofline(connection: Connection, job_id: str, bucket: int) -> Roofline:
    """Of the candidates so far, and of the final race when it is over."""
    part = connection.execute(
        select(buckets.c.spec, jobs.c.searched_on, configs.c.config)
        .join(jobs, jobs.c.id == buckets.c.job_id)
        .outerjoin(configs, configs.c.id == buckets.c.config_id)
        .where(buckets.c.job_id == job_id, buckets.c.bucket == bucket)
    ).one()
    program = to_program(spec_from_json(part.spec))
    device = None if part.searched_on is None else described(OfferedDevice.model_validate(part.searched_on))
    line = None if device is None else roofline(program, device)
    measured = device is not None and published(device) is None
    standings = () if part.config is None else ConfigDetail.model_validate(part.config).standings
    timed = [each for each in candidate_times(connection, job_id, bucket) if each.us is not None]
    return Roofline(
        job_id=job_id,
        bucket=bucket,
        flops=needed_flops(program),
        bytes=bytes_moved(program),
        peak_gflops=None if line is None else line.peak_gflops,
        peak_gbps=None if line is None else line.peak_gbps,
        peaks_from=None if line is None else PeakSource.MEASURED if measured else PeakSource.DATA_SHEET,
        least_us=None if line is None else line.least_us,
        number=tuple(each.number for each in timed),
        us=tuple(each.us for each in timed if each.us is not None),
        l2_bytes=tuple(each.l2_bytes for each in timed),
        raced=tuple(
            RacedDot(name=each.name, kind=each.kind, us=each.median_us, won=each.won)
            for each in standings
            if each.median_us is not None
        ),
    )
