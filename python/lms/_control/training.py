"""Which of several reports is the one on the training step.

What trains goes before validation: under a share ("60%") that may be all that its own budget is too
small for.
"""

from __future__ import annotations

import re
from typing import Any

from lms._reports.report import Report

_trained: dict[int, bool] = {}  # by the report's number: reading details takes its time
_MOST_KNOWN = 4096


def to_read(reports: list[Report]) -> Report | None:
    """The report to read first; None where there is none.

    The latest about a function that trains and needed lms ("rewritten", "infeasible", "failed");
    where none did, the one with the largest predicted peak. Functions that do not train count
    where no function is known to train.
    """
    known = _known(reports)
    trained = [report for report in reports if known.get(report.function)]
    return _of_need(trained) or _of_need(that_may_train(reports)) or _of_need(reports)


def about(function: Any, reports: list[Report]) -> list[Report]:
    """The reports about a tf.function, or about functions of that name.

    Raises TypeError where it is neither.
    """
    name = function if isinstance(function, str) else getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise TypeError(f"expected a function or its name, not {type(function).__name__}")
    named = re.compile(rf"(__inference_)?{re.escape(name)}(_\d+)?")
    return [report for report in reports if named.fullmatch(report.function)]


def that_may_train(reports: list[Report]) -> list[Report]:
    """Those whose functions are not known to do without a backward pass."""
    known = _known(reports)
    return [report for report in reports if known.get(report.function, True)]


def _known(reports: list[Report]) -> dict[str, bool]:
    """Whether functions train, where a report tells."""
    known = {}
    for report in reports:
        trains = _trains(report)
        if trains is not None:
            known[report.function] = trains
    return known


def _trains(report: Report) -> bool | None:
    """Whether there is a backward pass in it; None where it has no details, or no longer."""
    if report.sequence not in _trained and report.details is not None:
        if len(_trained) >= _MOST_KNOWN:
            _trained.clear()
        backward = report.details["phases"].index("backward")
        _trained[report.sequence] = backward in report.details["before"]["phase"]
    return _trained.get(report.sequence)


def _of_need(reports: list[Report]) -> Report | None:
    needed = [item for item in reports if item.status in ("rewritten", "infeasible", "failed")]
    if needed:
        return needed[-1]
    return max(
        reports, key=lambda item: (item.status == "fits", item.peak_before_bytes), default=None
    )
