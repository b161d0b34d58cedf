"""Branches: training inside of them, gradients through them."""

from __future__ import annotations

import lms
import pytest
import tensorflow as tf
from forms import SLACK, compare, rewritten
from loop_steps import train
from steps import BATCH, WIDTH, chain, descend, inputs, weights


def batches(count: int = 4) -> tf.Tensor:
    return tf.random.Generator.from_seed(8).normal([count, BATCH, WIDTH])


def mean_square(y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(y * y)


@pytest.mark.parametrize("taken", [True, False])
def test_training_on_both_sides_of_a_branch(taken):
    """Both are planned. Stock's peak is the same in both."""
    layers = weights()

    def step(x, flag):
        short = lambda: train(layers[:3], x)  # noqa: E731
        return tf.cond(flag, lambda: train(layers * 2, x), short)

    stock, ours, report = compare(step, inputs(), tf.constant(taken))
    assert report.status == "rewritten" and "branch" in report.reason
    assert ours.peak < stock.peak or not taken


@pytest.mark.parametrize("index", [0, 1, 7])
def test_training_in_a_switch_case(index):
    """All cases train the same variables. The model has the tensors of each beside the others', so
    there may be nothing to gain; what is promised is kept."""
    layers = weights()

    def step(x, index):
        cases = [lambda: train(layers, x), lambda: train(layers * 2, x), lambda: 0.0]
        return tf.switch_case(index, cases, default=lambda: train(layers[:2], x))

    stock, ours, report = compare(step, inputs(), tf.constant(index))
    assert report.status in ("fits", "rewritten")
    promised = min(report.peak_before_bytes, report.peak_after_bytes) - report.resident_bytes
    assert ours.peak <= 1.05 * promised + SLACK, (stock.peak, ours.peak, promised)


def test_training_in_a_case():
    """Branches in branches: a copy that nothing in its branch timed made this step "failed"."""
    layers = weights()

    def step(x, k):
        cases = [(k < 0.0, lambda: train(layers, x)), (k < 1.0, lambda: train(layers * 2, x))]
        return tf.case(cases, default=lambda: 0.0)

    assert "branch" in rewritten(step, inputs(), tf.constant(0.5)).reason


def test_a_gradient_through_a_branch_is_predicted():
    """What a branch hands to its gradient travels in Optionals, which once counted nothing."""
    layers = weights()

    def step(x, flag):
        with tf.GradientTape() as tape:
            y = tf.cond(flag, lambda: chain(x, layers), lambda: tf.sin(x))
            loss = mean_square(y)
        descend(tape, loss, layers)
        return loss

    stock, _, report = compare(step, inputs(), tf.constant(True))
    predicted = report.peak_before_bytes - report.resident_bytes
    assert stock.peak <= 1.05 * predicted
    assert report.status == "fits" and "no plan lowers the predicted peak" in report.reason


def test_a_branch_in_a_loop():
    layers = weights()

    def step(x):
        total = 0.0
        for i in tf.range(4):
            if i % 2 == 0:
                total += train(layers, x[i])
            else:
                total -= 1.0
        return total

    rewritten(step, batches())
    assert "failed" not in {report.status for report in lms.reports()}
