"""Forms of programs: what lms does with each, the same values, and no more bytes than it says."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import Any

import lms
import numpy as np
import tensorflow as tf
from lms._tf import context as _tf_context
from steps import named

# What a plan may be wrong by: tensors too small for it, and the workspace of kernels.
SLACK = 64 << 10


@dataclasses.dataclass(frozen=True)
class Run:
    """All that some calls returned or left in variables, and the peak of the later ones (bytes)."""

    values: list[np.ndarray]
    peak: int


def _flat(value: Any) -> list[np.ndarray]:
    parts = tf.nest.flatten(value, expand_composites=True)
    return [np.array(part.numpy() if hasattr(part, "numpy") else part) for part in parts]


def run(function: Callable, args: Iterable, variables: list, calls: int = 2) -> Run:
    """Calls the function anew, as often as said. Random ops with a seed begin with it again."""
    start = [variable.numpy() for variable in variables]
    _tf_context.forget_optimized_functions()
    values, peaks = [], []
    try:
        for _ in range(calls):
            before = lms.memory.bytes_in_use()
            lms.memory.reset_peak()
            result = function(*args)
            peaks.append(lms.memory.peak_bytes() - before)
            values += _flat(result)
            del result
        values += [np.array(variable.numpy()) for variable in variables]
    finally:
        for variable, value in zip(variables, start):
            variable.assign(value)
        _tf_context.forget_optimized_functions()
    return Run(values, max(peaks[1:]))


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    """Bit for bit."""
    return len(a) == len(b) and all(
        x.dtype == y.dtype
        and x.shape == y.shape
        and (np.array_equal(x, y) if x.dtype == object else x.tobytes() == y.tobytes())
        for x, y in zip(a, b)
    )


def compare(step: Callable, *args: Any, budget: str = "min", **options: Any) -> tuple:
    """Two calls without and with lms, which come to the same. The runs, and the step's report."""
    function = step if hasattr(step, "python_function") else named(step)
    traced = function.get_concrete_function(*args)
    variables = list({id(v): v for v in traced.variables if v.dtype != tf.resource}.values())
    stock = run(function, args, variables)
    lms.clear_reports()
    with lms.enabled(budget, **options):
        ours = run(function, args, variables)
    if not same(stock.values, ours.values):
        again = run(function, args, variables)
        assert same(stock.values, again.values), "stock TensorFlow does not repeat itself"
        raise AssertionError("other values than stock TensorFlow's")
    name = function.python_function.__name__
    own = [report for report in lms.reports() if name in report.function]
    return stock, ours, own[-1] if own else None


def rewritten(step: Callable, *args: Any, budget: str = "min", **options: Any) -> lms.Report:
    """Rewritten: the same values, a lower peak, and no more than the report says."""
    stock, ours, report = compare(step, *args, budget=budget, **options)
    assert report is not None and report.status == "rewritten", report and str(report)
    assert report.peak_after_bytes < report.peak_before_bytes
    # Stock draws the order in which it runs: one of them may take no more than the plan.
    lowest = min(report.order_peaks.get("before") or [report.peak_before_bytes])
    assert ours.peak < stock.peak or lowest <= report.peak_after_bytes, (stock.peak, ours.peak)
    promised = report.peak_after_bytes - report.resident_bytes
    assert ours.peak <= 1.05 * promised + SLACK, (stock.peak, ours.peak, promised)
    return report


def alone(step: Callable, *args: Any, status: str, reason: str, **options: Any) -> lms.Report:
    """Left alone, with this status and a reason that matches."""
    _, _, report = compare(step, *args, **options)
    assert report is not None
    assert report.status == status and re.search(reason, report.reason), str(report)
    assert report.nodes_before == report.nodes_after and not report.decisions
    return report
