"""Steps of stock and of lms in turn, each pair from the same weights: peaks, time and bits at once.

One thread of each kind, as stock itself is only then equal to itself. A pair counts as equal where
the loss and all variables after the step are the same bits; the next pair begins from them.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import lms
import tensorflow as tf
from _measure import Step, largest_report, measured, one_thread_of_each_kind, ratios
from _models import FunctionTrainer, Problem
from _picks import pick_budget

CLOSE_ENOUGH = 0.03  # below the share aimed at, relative


class Paired:
    def __init__(self, problem: Callable[[], Problem]) -> None:
        one_thread_of_each_kind()
        lms.memory.reset_peak()  # what is allocated from here on is counted
        self.trainer = FunctionTrainer(problem(), {})
        self.trainer.step(False)  # traces, and fills the allocator's pool
        self.state = self.trainer.weights()
        self.first = self._step(False)[0]
        self.stock_peak = self.first.peak

    def lms_peak(self) -> int:
        """Of the first step under the trainer's options, planning included."""
        return self._step(True)[0].peak

    def picked(self, share: float, picks: int, **options: Any) -> dict[str, Any]:
        """Sets the budget that lms measures just under `share` (percent of stock's peak) with."""
        tried = pick_budget(
            self.trainer, self.stock_peak, share, picks, self.lms_peak, CLOSE_ENOUGH, **options
        )
        return next(attempt for attempt in tried if attempt["picked"])

    def budget(self, text: str) -> None:
        self.trainer.options = {"memory_budget": text, "safety_margin": 0.0}
        lms.clear_reports()
        self.lms_peak()

    def turns(self, rounds: int) -> dict[str, Any]:
        """Steps in turn, as figures."""
        steps: dict[str, list[dict[str, Any]]] = {"stock": [], "lms": []}
        unequal = 0
        for _ in range(rounds):
            stock, after = self._step(False)
            ours, ours_after = self._step(True)
            steps["stock"].append(dataclasses.asdict(stock))
            steps["lms"].append(dataclasses.asdict(ours))
            unequal += stock.loss != ours.loss or differ(after, ours_after) > 0
            self.state = after
        return figures(steps, unequal, len(self.state))

    def _step(self, with_lms: bool) -> tuple[Step, list[Any]]:
        self._set_weights()
        step = measured(lambda: self.trainer.step(with_lms))
        return step, self.trainer.weights()

    def _set_weights(self) -> None:
        # An array's memory would be the variable's, shared, and the step's update would copy it.
        for variable, value in zip(self.trainer.problem.variables(), self.state):
            variable.assign(tf.raw_ops.DeepCopy(x=value))


def differ(one: Sequence[Any], other: Sequence[Any]) -> int:
    return sum(a.tobytes() != b.tobytes() for a, b in zip(one, other))


def figures(steps: dict[str, list[dict[str, Any]]], unequal: int, weights: int) -> dict[str, Any]:
    """What pairs say together: the highest peaks, the median of the ratios and its range."""
    peaks = {way: max(step["peak"] for step in taken) for way, taken in steps.items()}
    cpu = ratios(steps, "cpu")
    return {
        "stock_peak": peaks["stock"],
        "lms_peak": peaks["lms"],
        "cut": 1 - peaks["lms"] / peaks["stock"],
        "stock_cpu_s": statistics.median(step["cpu"] for step in steps["stock"]),
        "lms_cpu_s": statistics.median(step["cpu"] for step in steps["lms"]),
        "added": statistics.median(cpu) - 1,
        "added_least": min(cpu) - 1,
        "added_most": max(cpu) - 1,
        "pairs": len(cpu),
        "pairs_with_other_bits": unequal,
        "variables": weights,
    }


def report_figures(text: str = "") -> dict[str, Any]:
    """Of a report as JSON, the last one by default: what was planned, and how long that took."""
    report = json.loads(text or largest_report().to_json())
    resident = report["resident_bytes"]
    before = report["peak_before_bytes"] - resident
    return {
        "status": report["status"],
        "reason": report["reason"],
        "predicted_cut": 1 - (report["peak_after_bytes"] - resident) / before,
        "predicted_added": report["predicted_time_overhead"],
        "bound_added": report["time_overhead_bound"],
        "nodes": report["nodes_before"],
        "planning_s": report["optimizer_seconds"],
    }
