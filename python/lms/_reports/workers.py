"""The reports of several workers, side by side in one table, and their files in one directory."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lms._base.format import format_bytes
from lms._base.tables import Tables

if TYPE_CHECKING:
    from lms._reports.report import Report

_TASK = re.compile(r"/job:([^/]+)/replica:\d+/task:(\d+)")
_PREFIX = "lms-"


def worker_of(device: str) -> str:
    """Which task of a cluster a device is of, "worker 1"; "" where it is of no cluster."""
    task = _TASK.match(device)
    return "" if task is None or task[1] == "localhost" else f"{task[1]} {task[2]}"


def _short(device: str) -> str:
    """ "GPU:0" of "/job:worker/replica:0/task:1/device:GPU:0"."""
    return device.rpartition("/device:")[2]


def _place(report: Report) -> tuple[str, int, str]:
    """Where the report is of, in an order for people: worker 2 comes before worker 10."""
    job, _, number = report.worker.rpartition(" ")
    return job, int(number or 0), report.device


@dataclasses.dataclass(frozen=True)
class WorkerReports(Tables):
    """The reports of all workers that have written theirs (lms.gather_reports).

    reports: one for each device of each worker, in the order of the workers; `Report.worker` is
      whose it is.
    """

    reports: tuple[Report, ...]

    def _tables(self) -> list[Any]:
        from rich import box, table

        title = "reports of all workers: predicted peaks, stock and with lms"
        result = table.Table(title=title, box=box.SIMPLE)
        for name in ("worker", "device", "status", "budget"):
            result.add_column(name, no_wrap=True)
        for name in ("stock", "with lms", "measured", "time"):
            result.add_column(name, justify="right", no_wrap=True)
        for report in self.reports:
            budget = format_bytes(report.budget_bytes)
            asked = report.budget.partition(" (")[0]  # "auto (the GPU's memory limit)"
            peaks = (report.peak_before_bytes, report.peak_after_bytes, report.measured_peak_bytes)
            result.add_row(
                report.worker or "-",
                _short(report.device),
                report.status,
                budget if asked == budget else f"{asked}, {budget}",
                *(format_bytes(peak) if peak else "" for peak in peaks),
                f"{report.predicted_time_overhead:+.1%}",
            )
        return [result]


def write_reports(reports: Sequence[Report], directory: Path) -> None:
    """Writes each report into a file of its worker and device. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    for report in reports:
        place = " ".join(part for part in (report.worker or "alone", _short(report.device)) if part)
        name = _PREFIX + re.sub(r"\W+", "-", place)
        # Who reads meanwhile finds the old file or the new one.
        unfinished = directory / f"{name}.{os.getpid()}"
        report.to_json(unfinished)
        unfinished.replace(directory / f"{name}.json")


def read_reports(directory: Path) -> WorkerReports:
    """What workers have written there. Raises OSError, ValueError where a file is no report."""
    from lms._reports.report import load_report

    found = [load_report(path) for path in directory.glob(f"{_PREFIX}*.json")]
    return WorkerReports(tuple(sorted(found, key=_place)))
