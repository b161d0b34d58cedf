"""lms.reports, lms.report, lms.gather_reports: all reports, the one to read first, or why there is
none; and those of all workers."""

from __future__ import annotations

import functools
import logging
import os
from pathlib import Path
from typing import Any

from lms import _native
from lms._base.failure import shielded
from lms._control import training as _training
from lms._reports.report import Report, from_native
from lms._reports.workers import WorkerReports, read_reports, write_reports
from lms._tf import variables as _variables
from lms._tf import why as _tf_why

_log = logging.getLogger("lms")


def reports() -> list[Report]:
    """The latest reports of the process, oldest first; the oldest are dropped in time."""
    return [
        from_native(raw, functools.partial(_variables.names_of, raw["function"]))
        for raw in _native.reports()
    ]


def report(function: Any = None) -> Report | None:
    """The report to read first; None where there is none, and the log says why, if that is known.

    function: a tf.function, or its name: the report on that one. None: on the training step.

    The latest about a training step that needed lms ("rewritten", "infeasible", "failed"); where
    none did, the one with the largest predicted peak. Validation and the like come after what
    trains. `reports()` has all of them. Raises TypeError where `function` is neither.
    """
    found = report_to_read(function)
    if found is None:
        _say_why_there_is_none()
    return found


def gather_reports(directory: str | os.PathLike[str]) -> WorkerReports:
    """The reports of all workers in one table: of those that have called this with the directory.

    This worker's report (`lms.report()`, one for each device of its step) is written into the
    directory, which all workers share, in place of what was there of this worker. Then what is
    there of all is read: call it on each worker after training, and look at the table of the last,
    or call it once more later. A process without a report only reads. The directory is made where
    it is missing; of an earlier cluster with more workers, files stay until you delete them.

    Raises OSError where the directory cannot be written or read, ValueError where a file of that
    name is no report.
    """
    place = Path(directory)
    write_reports(_reports_of_step(), place)
    return read_reports(place)


def _reports_of_step() -> list[Report]:
    """The report to read, and those of the other devices of the same step."""
    found = report_to_read()
    if found is None:
        return []
    latest = {item.device: item for item in reports() if item.function == found.function}
    return [latest[device] for device in sorted(latest)]


def report_to_read(function: Any = None) -> Report | None:
    """The same, and nothing is logged."""
    latest = reports()
    return _training.to_read(latest if function is None else _training.about(function, latest))


def _say_why_there_is_none() -> None:
    with shielded("empty report"):
        for reason in _tf_why.reasons():
            _log.warning("there is no report: %s", reason)
