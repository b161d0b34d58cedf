"""One program in a process of its own: run by stock TensorFlow, and under lms at each budget.

One intra-op and one inter-op thread. For each budget the program is run from its beginning, as a
new process would: model, data and functions are made anew, with the same seeds, or with the
weights of the first time. All losses and all variables at the end are compared with stock's, bit
by bit. Stock runs several times, as other instances of the same functions: where values differ, it
is compared with itself; and its peak is the highest of theirs.

What is predicted is that of the function with the highest peak, by the last plan that was made for
it; what is measured is the rise of the allocator's bytes over each step of the program. Judged are
the steps after that plan in which no other was made: a function's first call allocates what it
keeps, and TensorFlow's passes allocate, too.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from typing import Any

import lms
import tensorflow as tf

from zoo.others import catalogue
from zoo.others.training import Watch
from zoo.values import Values, digest

IN_BYTES = "75% in bytes"
BUDGETS = ("60%", "min", IN_BYTES)
SHARE = 0.75  # of the activations, of the budget in bytes
LIMIT = 1.02  # of a budget that is said to be kept
INSTANCES = 4  # of stock's program: which of two ops runs first differs from one to the next
FIELDS = ("status", "reason", "stage", "warnings", "budget_bytes", "resident_bytes")
FIELDS += ("peak_before_bytes", "peak_after_bytes", "min_budget_bytes", "nodes_before")
FIELDS += (
    "order_peaks",
    "measured_peak_bytes",
    "optimizer_seconds",
    "predicted_time_overhead",
    "sizes",
)


@dataclasses.dataclass(frozen=True)
class Run:
    """One training: what it computed, by name, and took."""

    values: Values
    peaks: list[int]
    seconds: list[float]
    reports: list[int]


class Program:
    def __init__(self, name: str) -> None:
        self.name = name
        self.start: list[Any] = []  # of the variables, the first time
        self.built_seconds = 0.0
        self.variables = 0
        self.variable_bytes = 0

    def run(self) -> Run:
        tf.keras.backend.clear_session()
        gc.collect()
        began = time.perf_counter()
        training = catalogue.make(self.name)
        self._same_start(training.variables())
        self.built_seconds = self.built_seconds or time.perf_counter() - began
        watch = Watch()
        training.run(watch)
        values = dict(watch.values)
        variables = training.variables()
        self.variables = len(variables)
        held = [variable.numpy() for variable in variables]
        self.variable_bytes = sum(getattr(value, "nbytes", 0) for value in held)
        values.update((f"variable {i}", digest(value)) for i, value in enumerate(held))
        return Run(values, watch.peaks, watch.seconds, watch.reports)

    def _same_start(self, variables: list[Any]) -> None:
        if not self.start:
            self.start = [variable.numpy() for variable in variables]
        for variable, value in zip(variables, self.start):
            if digest(variable.numpy()) != digest(value):
                # An array's memory would become the variable's, and its first update allocate.
                variable.assign(tf.raw_ops.DeepCopy(x=value))


def differ(one: Values, other: Values) -> list[str]:
    """The names of what is not the same in both, to the bit."""
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def measure(name: str) -> dict[str, Any]:
    """The row of one program."""
    lms.memory.reset_peak()  # bytes are counted from here on
    program = Program(name)
    lms.clear_reports()
    stock = program.run()
    again = [program.run() for _ in range(INSTANCES - 1)]
    row: dict[str, Any] = {
        "model": name,
        "variables": program.variables,
        "compared": len(stock.values),
        "variable_bytes": program.variable_bytes,
        "stock_peaks": stock.peaks,
        "instance_peaks": [max(run.peaks[1:] or run.peaks) for run in (stock, *again)],
        "stock_seconds": stock.seconds,
        "built_seconds": program.built_seconds,
        "budgets": {},
    }
    for budget in BUDGETS:
        asked: Any = row["bytes"] if budget == IN_BYTES else budget
        if asked is None:
            continue
        at = _at(asked, program, stock, again)
        row["budgets"][budget] = at
        if budget == BUDGETS[0]:
            row.update(_prediction(at.pop("last_report")))
        at.pop("last_report", None)
    return row


def _at(budget: Any, program: Program, stock: Run, again: list[Run]) -> dict[str, Any]:
    lms.clear_reports()
    with lms.enabled(memory_budget=budget):
        ours = program.run()
    reports = lms.reports()
    differences = differ(stock.values, ours.values)
    row: dict[str, Any] = {
        "limit": LIMIT,
        "rounds": [_part(reports, ours, differences)],
        "differ": differences[:20],
        "differing": len(differences),
        "last_report": largest(reports),
    }
    if differences:
        unstable = {name for other in again for name in differ(stock.values, other.values)}
        row["stock_differs_in"] = len(unstable)
        row["differing_alone"] = len(set(differences) - unstable)
    return row


def _activations(report: lms.Report) -> int:
    return report.peak_before_bytes - report.resident_bytes


def largest(reports: tuple[lms.Report, ...]) -> lms.Report | None:
    """The last report on the function that takes most."""
    highest = max(reports, key=_activations, default=None)
    own = [report for report in reports if highest and report.function == highest.function]
    return own[-1] if own else None


def _judged(ours: Run, reports: tuple[lms.Report, ...], last: lms.Report | None) -> int:
    """The highest peak of the steps after the report `last` in which no plan was made."""
    place = next((i for i, report in enumerate(reports) if report is last), -1)
    quiet = [
        peak
        for peak, before, after in zip(ours.peaks, [0, *ours.reports], ours.reports)
        if before == after > place
    ]
    return max(quiet or ours.peaks[-1:])


def _part(reports: tuple[lms.Report, ...], ours: Run, wrong: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"peaks": ours.peaks, "seconds": ours.seconds, "differing": len(wrong)}
    report = largest(reports)
    row["judged"] = _judged(ours, reports, report)
    if report is None:
        return {**row, "status": "unseen", "reason": "lms was asked about no step", "warnings": []}
    row.update((field, getattr(report, field)) for field in FIELDS)
    row["plans"] = sum(other.function == report.function for other in reports)
    row["functions"] = len({other.function for other in reports})
    failed = [other for other in reports if other.status == "failed"]
    if failed:
        row.update(status="failed", reason=failed[-1].reason)
    kinds = [decision["kind"] for decision in report.decisions]
    row["decisions"] = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    return row


def _prediction(report: lms.Report | None) -> dict[str, Any]:
    """Of the step as stock runs it, and the budget in bytes that comes from it."""
    if report is None or report.peak_before_bytes == 0:
        return {"predicted_stock": 0, "bytes": None, "at_peak": []}
    activations = _activations(report)
    return {
        "predicted_stock": activations,
        "predicted_resident": report.resident_bytes,
        "stock_orders": [peak - report.resident_bytes for peak in report.order_peaks["before"]],
        "stock_warnings": list(report.warnings),
        "bytes": report.resident_bytes + int(SHARE * activations),
        "at_peak": _at_peak(report),
    }


def _at_peak(report: lms.Report, most: int = 12) -> list[dict[str, Any]]:
    """The first tensors that are predicted to be there at the peak of the stock step."""
    return held_at_peak(report, "before")[:most]


def held_at_peak(report: lms.Report, plan: str) -> list[dict[str, Any]]:
    """What is predicted to be held at the peak "before" or "after" the plan, but for variables."""
    details = report.details
    if details is None:
        return []
    strings, buffers = details["strings"], details["buffers"]
    found = []
    for i, size in enumerate(buffers["bytes"]):
        held = any(a <= details[f"peak_{plan}"] <= b for a, b in buffers[plan][i] or ())
        if held and details["fates"][buffers["fate"][i]] != "resident":
            name, kind = strings[buffers["name"][i]], strings[buffers["type"][i]]
            found.append({"name": name, "type": kind, "bytes": size})
    return found
