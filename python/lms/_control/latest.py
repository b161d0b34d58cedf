"""lms.reports and lms.report: all reports, and the one to read first, or why there is none."""

from __future__ import annotations

import functools
import logging

from lms import _native
from lms._base.failure import shielded
from lms._reports.report import Report, from_native
from lms._tf import variables as _variables
from lms._tf import why as _tf_why

_log = logging.getLogger("lms")


def reports() -> list[Report]:
    """The latest reports of the process, oldest first; the oldest are dropped in time."""
    return [
        from_native(raw, functools.partial(_variables.names_of, raw["function"]))
        for raw in _native.reports()
    ]


def report() -> Report | None:
    """The report to read first; None where there is none, and the log says why, if that is known.

    The latest about a function that needed lms ("rewritten", "infeasible", "failed"); where
    none did, the one about the function with the largest predicted peak, which is the training
    step in most programs. `reports()` has all of them.
    """
    found = report_to_read()
    if found is None:
        _say_why_there_is_none()
    return found


def report_to_read() -> Report | None:
    """The same, and nothing is logged."""
    latest = reports()
    needed = [item for item in latest if item.status in ("rewritten", "infeasible", "failed")]
    if needed:
        return needed[-1]
    return max(
        latest, key=lambda item: (item.status == "fits", item.peak_before_bytes), default=None
    )


def _say_why_there_is_none() -> None:
    with shielded("empty report"):
        for reason in _tf_why.reasons():
            _log.warning("there is no report: %s", reason)
