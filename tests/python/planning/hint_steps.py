"""Steps for the tests of hints, and what is asked of a report on one."""

from __future__ import annotations

from collections.abc import Callable

import lms
import tensorflow as tf
from steps import descend, inputs, named, weights

AMPLE = 1 << 30  # a budget that any of these steps fits


def blocks(count: int = 6) -> Callable:
    """A layer of a chain; `hint` sees each activation and its number."""
    layers, x = weights(count), inputs()

    def run(hint: Callable = lambda i, y: y):
        with tf.GradientTape() as tape:
            y = x
            for i, layer in enumerate(layers):
                y = hint(i, tf.tanh(tf.matmul(y, layer)))
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    return run


def verified(step: Callable, memory_budget: object = AMPLE, **options: object) -> lms.Report:
    """The report of a step, which computes the same with lms."""
    function = step if hasattr(step, "python_function") else named(step)
    result = lms.verify(function, memory_budget=memory_budget, **options)
    assert result.ok and result.repeatable, str(result)
    assert result.report is not None
    return result.report


def recomputed(report: lms.Report) -> list[str]:
    return [d["op"] for d in report.decisions if d["kind"] == "recompute"]


def peak_of(step: Callable, memory_budget: object) -> int:
    """The allocator's peak of a second call, over what was in use before."""
    function = named(step)
    if memory_budget is not None:
        lms.enable(memory_budget, replan=False)
    function()
    before = lms.memory.bytes_in_use()
    lms.memory.reset_peak()
    function()
    peak = lms.memory.peak_bytes() - before
    if memory_budget is not None:
        lms.disable()
    return peak
