"""One model in a process of its own: trained by stock TensorFlow, and by lms at each budget.

On the first GPU where there is one (gpu_child.py), else on the CPU.

One intra-op and one inter-op thread, so that stock repeats itself. The step is traced once; every
round trains STEPS steps from the same values of all variables and is compared bit by bit with
stock's round: each loss of each step, and all that variables hold afterwards (weights, optimizer
slots, moving averages, random states).

The options are the default ones, feedback included: a step that is measured over its budget is
planned again. Its second call is measured and the third confirms it, so a round of three steps
shows the plan; the next round, which is only run where feedback will plan again, shows what was
learnt from it (two such rounds at most, as feedback plans twice more at most).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import lms
import numpy as np
import tensorflow as tf
from lms._tf import context as _tf_context

from zoo import catalogue
from zoo.values import digest

STEPS = 3
BUDGETS = ("70%", "min")
MORE_ROUNDS = 2
FEEDBACK_TOLERANCE = 1.01  # what feedback lets pass
STOCK_AGAIN = 4  # rounds of stock, each optimised anew, where lms has other bits
MEASURED = ("status", "reason", "stage", "warnings", "budget_bytes", "resident_bytes")
MEASURED += ("peak_before_bytes", "peak_after_bytes", "min_budget_bytes", "nodes_before")
MEASURED += ("order_peaks", "predicted_time_overhead", "planner_seconds", "optimizer_seconds")


@dataclasses.dataclass(frozen=True)
class Round:
    """What STEPS steps computed, by name, and took: bytes above those in use before, seconds.

    Values are kept as digests: of large models there is no memory for several copies. in_use: the
    most bytes that were in use before a step. The first step leaves the graph's constants in
    memory, which are resident from then on: they count as in use before it, too.
    """

    values: dict[str, str]
    peaks: list[int]
    seconds: list[float]
    in_use: int = 0


class Subject:
    """A model of the zoo, traced, with the values that its variables had at first.

    untouched: they have them still, and the next round need not give them any.
    """

    def __init__(self, name: str) -> None:
        self.untouched = False
        lms.memory.reset_peak()
        began = time.perf_counter()
        self.case = catalogue.make(name)
        self.built_seconds = time.perf_counter() - began
        began = time.perf_counter()
        self.traced = self.case.step.get_concrete_function(*self.case.arguments)
        self.traced_seconds = time.perf_counter() - began
        self.built_peak = lms.memory.peak_bytes()  # of memory, until here
        self.variables = _named(self.traced)
        self.start = {name: _compact(v.numpy()) for name, v in self.variables.items()}

    def round(self) -> Round:
        for name, variable in () if self.untouched else self.variables.items():
            # An array's memory would become the variable's, and its first update allocate.
            variable.assign(tf.raw_ops.DeepCopy(x=self.start[name]))
        self.untouched = False
        result = Round({}, [], [])
        in_use = []
        for number in range(1, STEPS + 1):
            lms.memory.reset_peak()
            in_use.append(lms.memory.bytes_in_use())
            began = time.perf_counter()
            losses = self.case.step(*self.case.arguments)
            result.seconds.append(time.perf_counter() - began)
            result.peaks.append(lms.memory.peak_bytes())
            for place, loss in enumerate(tf.nest.flatten(losses)):
                result.values[f"loss {place} of step {number}"] = digest(loss.numpy())
            del losses
        for name, variable in self.variables.items():
            result.values[name] = digest(variable.numpy())
        before = [max(in_use[:2]), *in_use[1:]]
        peaks = [peak - bytes_ for peak, bytes_ in zip(result.peaks, before)]
        return dataclasses.replace(result, peaks=peaks, in_use=max(in_use))

    def stock_again(self) -> Round:
        """Optimised anew: nothing is left of the kernels that ran."""
        _tf_context.forget_optimized_functions()
        return self.round()


def _named(traced: Any) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for variable in traced.variables:
        name = str(getattr(variable, "path", variable.name))
        while name in named:
            name += "'"
        named[name] = variable
    return named


def differ(one: Round, other: Round) -> list[str]:
    """The names of what is not the same in both, to the bit."""
    assert one.values.keys() == other.values.keys()
    return [name for name in one.values if one.values[name] != other.values[name]]


def _compact(value: np.ndarray) -> np.ndarray:
    """A copy; of zeros, which optimizer slots begin with, a view of one."""
    return (
        np.array(value) if value.any() else np.broadcast_to(np.zeros((), value.dtype), value.shape)
    )


def measure(
    name: str,
    budgets: Sequence[str] = BUDGETS,
    subject: Subject | None = None,
    stock: Round | None = None,
) -> dict[str, Any]:
    """The row of one model. subject, stock: the model and stock's round, where they are there."""
    subject = subject or Subject(name)
    lms.clear_reports()
    stock = stock or subject.round()
    row: dict[str, Any] = {
        "model": name,
        "variables": len(subject.variables),
        "compared": len(stock.values),
        "variable_bytes": sum(value.nbytes for value in subject.start.values()),
        "unchanged": _unchanged(subject, stock),
        "stock_peaks": stock.peaks,
        "stock_seconds": stock.seconds,
        "stock_in_use": stock.in_use,
        "built_peak": subject.built_peak,
        "built_seconds": subject.built_seconds,
        "traced_seconds": subject.traced_seconds,
        "budgets": {},
    }
    for budget in budgets:
        row["budgets"][budget] = at(budget, subject, stock)
    return row


def _unchanged(subject: Subject, stock: Round) -> int:
    """Variables that three steps left as they were: too many would make a comparison empty."""
    return sum(digest(value) == stock.values[name] for name, value in subject.start.items())


def at(budget: str, subject: Subject, stock: Round, again: int = STOCK_AGAIN) -> dict[str, Any]:
    """What the row says of a budget. stock: what stock's steps computed; again: how often they are
    repeated where lms computed something else.
    """
    lms.clear_reports()
    rounds: list[dict[str, Any]] = []
    differences: list[str] = []
    with lms.enabled(memory_budget=budget):
        for _ in range(1 + MORE_ROUNDS):
            # Random operations with a seed start from it again in kernels that are new.
            _tf_context.forget_optimized_functions()
            ours = subject.round()
            report = _report_on(subject.traced)
            wrong = differ(stock, ours)
            differences += [name for name in wrong if name not in differences]
            rounds.append(_round_row(report, ours, wrong))
            if report is None or not _planned_again(report, ours):
                break
    row: dict[str, Any] = {
        "rounds": rounds,
        "differ": differences[:20],
        "differing": len(differences),
    }
    if differences:
        repeated = [subject.stock_again() for _ in range(again)]
        unstable = {name for other in repeated for name in differ(stock, other)}
        row["stock_differs_in"] = len(unstable)
        # What lms computed otherwise although stock never did.
        row["differing_alone"] = len(set(differences) - unstable)
    return row


def _planned_again(report: lms.Report, ours: Round) -> bool:
    """Whether feedback has the next call plan anew. It judges no "min"."""
    allowed = report.budget_bytes - report.resident_bytes
    judged = report.status in ("rewritten", "fits") and report.budget != "min"
    return judged and min(ours.peaks[1:]) > FEEDBACK_TOLERANCE * allowed


def _round_row(report: lms.Report | None, ours: Round, wrong: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"peaks": ours.peaks, "seconds": ours.seconds, "differing": len(wrong)}
    if tf.config.list_physical_devices("GPU"):
        row["judged"] = max(ours.peaks)  # what is free lies elsewhere in each step
    if report is None:
        return {**row, "status": "unseen", "reason": "lms was not asked about the step"}
    row.update((field, getattr(report, field)) for field in MEASURED)
    kinds = [decision["kind"] for decision in report.decisions]
    row["decisions"] = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    return row


def _report_on(traced: Any) -> lms.Report | None:
    """The latest one about the step, on the device that is measured."""
    name = traced.name if isinstance(traced.name, str) else traced.name.decode()
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    own = [report for report in lms.reports() if report.function == name]
    own = [report for report in own if kind in report.device] or own
    return own[-1] if own else None
