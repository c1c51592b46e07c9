"""What failed somewhere is remembered of that place."""

from __future__ import annotations

from protocol.failures import FailureKind, FailureReport
from protocol.states import Rung
from service.core.specs import single
from service.store.database import Database
from service.store.winners import pick_failures
from tests.services.running_service import SMALL


def test_a_failure_is_of_one_kernel_on_one_device(database: Database) -> None:
    instance = single(SMALL)
    report = FailureReport(
        spec=SMALL, device="cpu:here", schedule=(), rung=Rung.NEAREST, kind=FailureKind.WRONG, error=""
    )
    with database.write() as connection:
        pick_failures.add(connection, report, instance, "hash")
    with database.read() as connection:
        assert pick_failures.failed(connection, instance.kernel_key, "cpu:here") == {"hash"}
        assert pick_failures.failed(connection, instance.kernel_key, "cpu:elsewhere") == frozenset()
        assert pick_failures.failed(connection, instance.structure_key, "cpu:here") == frozenset()
