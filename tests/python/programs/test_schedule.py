"""Another order as a means of its own: lower measured peaks, nothing computed twice, equal bits."""

from __future__ import annotations

import lms
import pytest
import tensorflow as tf
from helpers import lms_nodes
from steps import named

BRANCHES, BATCH, WIDTH, WIDE = 8, 256, 32, 2048
TENSOR = BATCH * WIDE * 4  # bytes: 2 MiB


def make_branches():
    """A step that needs wide tensors one after the other, and could make all of them at once."""
    rng = tf.random.Generator.from_seed(7)
    x = rng.normal([BATCH, WIDTH])
    wide = [tf.Variable(rng.normal([WIDTH, WIDE]) / WIDTH**0.5) for _ in range(BRANCHES)]
    top = tf.Variable(rng.normal([1]))

    def step():
        state = tf.reduce_mean(x, axis=1, keepdims=True)
        for weight in wide:
            state = tf.reduce_mean(tf.tanh(tf.matmul(x, weight) + state), axis=1, keepdims=True)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((state * top) ** 2)
        top.assign_sub(1e-6 * tape.gradient(loss, top))
        return loss

    return named(step)


def measured_peak(step, steps: int = 5) -> tuple[int, int]:
    """The lowest and the highest of a few steps, above what was there before."""
    step()
    peaks = []
    for _ in range(steps):
        lms.memory.reset_peak()
        resident = lms.memory.bytes_in_use()
        step()
        peaks.append(lms.memory.peak_bytes() - resident)
    return min(peaks), max(peaks)


def test_an_order_alone_lowers_the_measured_peak():
    lms.memory.reset_peak()
    step = make_branches()
    stock, _ = measured_peak(step)
    with lms.enabled("min", recompute=False):
        _, ordered = measured_peak(step)
        report = lms.report()
        assert lms_nodes(step) == []  # nothing is computed again
    assert report.status == "rewritten", report.reason
    assert report.predicted_time_overhead == 0
    assert {decision["kind"] for decision in report.decisions} == {"order"}
    assert "order" in report.reason and "order" in str(report)
    # One wide tensor at a time.
    assert ordered < 1.5 * TENSOR
    assert ordered < stock / 2  # which takes more at once, as many as threads and luck have it
    assert abs(ordered - (report.peak_after_bytes - report.resident_bytes)) < 0.1 * ordered


def test_an_order_changes_no_bit():
    step = make_branches()
    result = lms.verify(step, memory_budget="min", recompute=False)
    assert result.ok and result.repeatable, str(result)
    assert result.report is not None and result.report.status == "rewritten"


@pytest.mark.parametrize("budget", ["30%", "75%"])
def test_a_budget_that_an_order_meets_costs_no_recomputation(budget):
    lms.enable(budget)
    step = make_branches()
    step()
    report = lms.report()
    assert report.status == "rewritten", report.reason
    assert {decision["kind"] for decision in report.decisions} == {"order"}
    assert report.peak_after_bytes <= report.budget_bytes


def test_without_order_and_recomputation_nothing_is_done():
    lms.enable("50%", recompute=False, reorder=False)
    step = make_branches()
    step()
    assert lms.report().status == "infeasible"
    assert lms.report().min_budget_bytes == lms.report().peak_before_bytes


def test_an_infeasible_budget_names_what_order_can_do():
    lms.enable("2%", recompute=False)
    make_branches()()
    report = lms.report()
    assert report.status == "infeasible"
    least = report.min_budget_bytes
    assert least < report.peak_before_bytes
    with lms.enabled(least, recompute=False):
        make_branches()()
        assert lms.report().status == "rewritten", lms.report().reason
