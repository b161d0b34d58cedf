"""One model measured: a row for stock TensorFlow and one for each budget. Runs in a child process.

Feedback is off: the predictions themselves are judged, not what is learnt from their errors.

Activation peaks and budgets here are without what is resident, in bytes. With several inter-op
threads the order of execution, and so the peak, differs from step to step: all peaks are kept,
and the highest is what a prediction is held against.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from typing import Any

import lms
import tensorflow as tf
from _measure import largest_report, measured_in_turn, ratios
from _models import FitTrainer, FunctionTrainer, KerasTrainer

from accuracy import zoo

REPEATS = 4  # of each op, when they are timed
HUGE = "1000GiB"  # a budget that every step fits


def rows_of(
    name: str,
    budgets: list[str],
    rounds: int,
    options: dict[str, Any],
    calibrate: bool,
    by_fit: bool = False,
) -> list[dict[str, Any]]:
    """The rows of one model; `options` are added to lms.enabled()'s. by_fit: with FitTrainer."""
    lms.memory.reset_peak()
    if name in zoo.WITHOUT_REMAPPING:
        tf.config.optimizer.set_experimental_options({"remapping": False})
    problem = zoo.problem(name)
    trainer: KerasTrainer = FitTrainer(problem, {}) if by_fit else FunctionTrainer(problem, {})
    trainer.step(False)
    if calibrate and isinstance(trainer, FunctionTrainer):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "measured.profile")
            try:
                lms.calibrate(trainer.train, *trainer.data, repeats=REPEATS, path=path)
                return _rows(name, budgets, rounds, trainer, {**options, "profile": path})
            except RuntimeError as error:  # parts compiled by XLA
                print(f"  not calibrated: {error}", flush=True)
    return _rows(name, budgets, rounds, trainer, {**options, "profile": "none"})


def _rows(
    name: str, budgets: list[str], rounds: int, trainer: KerasTrainer, options: dict[str, Any]
) -> list[dict[str, Any]]:
    rows = []
    for budget in ["stock", *budgets]:
        trainer.options = {"memory_budget": HUGE if budget == "stock" else budget}
        trainer.options.update(replan=False, **options)
        lms.clear_reports()
        trainer.step(True)
        rows.append(_row(name, budget, trainer, rounds, largest_report()))
    return rows


def _row(
    name: str, budget: str, trainer: KerasTrainer, rounds: int, report: lms.Report
) -> dict[str, Any]:
    for with_lms in (False, True):
        trainer.step(with_lms)
    steps = measured_in_turn(trainer, rounds)
    peaks = [step["peak"] for step in steps["lms"]]
    predicted = report.peak_after_bytes - report.resident_bytes
    row: dict[str, Any] = {
        "model": name,
        "budget": budget,
        "status": report.status,
        "reason": report.reason,
        "warnings": list(report.warnings),
        "nodes": report.nodes_before,
        "planner_seconds": report.planner_seconds,
        "budget_bytes": report.budget_bytes - report.resident_bytes,
        "predicted_bytes": predicted,
        "measured_bytes": peaks,
        "accuracy": predicted / max(peaks),
        "predicted_step_seconds": report.step_time_us / 1e6,
        "stock_seconds": [step["wall"] for step in steps["stock"]],
        "predicted_added": report.predicted_time_overhead,
        "profiled_share": report.profiled_share,
    }
    for field in ("wall", "cpu"):
        row[f"measured_added_{field}"] = statistics.median(ratios(steps, field)) - 1
    return row
