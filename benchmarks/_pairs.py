"""Steps of stock and of lms in turn, each pair from the same weights: peaks, time and bits at once.

One thread of each kind, where bits are compared: stock itself is only then equal to itself. A pair
counts as equal where the loss and all variables after the step are the same bits; the next pair
begins from stock's. Others may take their turns too: a step for each, over the same variables.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import lms
import tensorflow as tf
from _measure import Step, largest_report, measured, one_thread_of_each_kind, ratios
from _models import FunctionTrainer, Problem
from _picks import pick_budget

Steps = dict[str, list[dict[str, Any]]]  # by way
CLOSE_ENOUGH = 0.03  # below the share aimed at, relative


@dataclasses.dataclass(frozen=True)
class Way:
    step: Callable[[], Any]  # returns the loss
    variables: Callable[[], Sequence[Any]]  # which it changes, in one order for all ways


class Paired:
    def __init__(self, problem: Callable[[], Problem], one_thread: bool = True) -> None:
        """one_thread: of each kind; else as many as TensorFlow takes by itself."""
        if one_thread:
            one_thread_of_each_kind()
        lms.memory.reset_peak()  # what is allocated from here on is counted
        self.trainer = FunctionTrainer(problem(), {})
        variables = self.trainer.problem.variables
        self.ways = {
            "stock": Way(functools.partial(self.trainer.step, False), variables),
            "lms": Way(functools.partial(self.trainer.step, True), variables),
        }
        self.ways["stock"].step()  # traces, and fills the allocator's pool
        self.state = self.trainer.weights()
        self.stock_peak = self.step("stock")[0].peak

    def lms_peak(self) -> int:
        """Of the first step under the trainer's options, planning included."""
        return self.step("lms")[0].peak

    def picked(
        self, share: float, picks: int, closeness: float = CLOSE_ENOUGH, **options: Any
    ) -> dict[str, Any]:
        """Sets the budget that lms measures just under `share` (percent of stock's peak) with."""
        tried = pick_budget(
            self.trainer, self.stock_peak, share, picks, self.lms_peak, closeness, **options
        )
        return next(attempt for attempt in tried if attempt["picked"])

    def budget(self, text: str) -> None:
        self.trainer.options = {"memory_budget": text, "safety_margin": 0.0}
        lms.clear_reports()
        self.lms_peak()

    def turns(self, rounds: int) -> dict[str, Any]:
        """Steps of stock and of lms in turn, as figures."""
        steps, unequal = self.in_turn(rounds, ("lms",))
        bits = {"pairs_with_other_bits": unequal["lms"], "variables": len(self.state)}
        return {**figures(steps), **bits}

    def in_turn(self, rounds: int, ways: Sequence[str]) -> tuple[Steps, dict[str, int]]:
        """A step of stock and one of each of `ways` a round; and how many had other bits."""
        steps: Steps = {way: [] for way in ("stock", *ways)}
        unequal = dict.fromkeys(ways, 0)
        for _ in range(rounds):
            stock, after = self.step("stock")
            steps["stock"].append(dataclasses.asdict(stock))
            for way in ways:
                other, other_after = self.step(way)
                steps[way].append(dataclasses.asdict(other))
                unequal[way] += stock.loss != other.loss or differ(after, other_after) > 0
            self.state = after
        return steps, unequal

    def step(self, way: str) -> tuple[Step, list[Any]]:
        """From the weights that the pairs are at; with the weights after it."""
        variables = self.ways[way].variables()
        for variable, value in zip(variables, self.state):
            # An array's memory would be the variable's, shared, and the update would copy it.
            variable.assign(tf.raw_ops.DeepCopy(x=value))
        step = measured(self.ways[way].step)
        return step, [variable.numpy() for variable in variables]


def differ(one: Sequence[Any], other: Sequence[Any]) -> int:
    return sum(a.tobytes() != b.tobytes() for a, b in zip(one, other))


def figures(steps: Steps, way: str = "lms") -> dict[str, Any]:
    """What pairs say together: the highest peaks, the median of the ratios and its range."""
    stock, ours = steps["stock"], steps[way]
    peaks = [max(step["peak"] for step in taken) for taken in (stock, ours)]
    cpu = ratios({"stock": stock, "lms": ours}, "cpu")
    return {
        "stock_peak": peaks[0],
        f"{way}_peak": peaks[1],
        "cut": 1 - peaks[1] / peaks[0],
        "stock_cpu_s": statistics.median(step["cpu"] for step in stock),
        f"{way}_cpu_s": statistics.median(step["cpu"] for step in ours),
        "added": statistics.median(cpu) - 1,
        "added_least": min(cpu) - 1,
        "added_most": max(cpu) - 1,
        "pairs": len(cpu),
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
