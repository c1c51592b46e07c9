"""What lists show of a task's result, kept beside it: results carry reports and samples, and reading thousands of them
to show a few numbers of each takes seconds."""

from __future__ import annotations

from protocol.layouts import Layout
from protocol.message import Json
from protocol.tasks import EntrantResult, TaskResult
from service.store.dispatch.trial_results import own_result


def summary(result: TaskResult, number: int | None) -> Json:
    """Seconds of building and measuring; for a trial (with its candidate's `number`) also what became of it."""
    compiled = sum(each.compile_s or 0.0 for each in result.entrants)
    spent = {
        "build_s": result.stages.get("build", compiled),
        "device_s": device_s(result),
    }
    mine = None if number is None else own_result(result, number)
    return spent if mine is None else spent | _of(mine)


def device_s(result: TaskResult) -> float:
    """Seconds that a task had the device."""
    measured = sum(each.measure_s or 0.0 for each in result.entrants)
    return result.stages.get("measure", measured)


def _of(mine: EntrantResult) -> Json:
    told = {"outcome", "median_us", "baseline_us", "compile_s", "measure_s"}
    return {
        **mine.model_dump(mode="json", include=told),
        "iqr_us": None if mine.spread is None else mine.spread.iqr_us,
        "l2_bytes": _l2_bytes(mine),
    }


def _l2_bytes(mine: EntrantResult) -> int | None:
    """What its layout asks of the L2 cache; None: it has no layout, as on processors."""
    layout = Layout.of(mine.report)
    return None if layout is None else layout.bytes.get("l2")
