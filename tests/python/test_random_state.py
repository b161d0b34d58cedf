"""Random operations with a seed keep in their kernels where they are: a plan for life."""

import itertools

import lms
import pytest
import tensorflow as tf
from helpers import reports_on, rows

_numbers = itertools.count()


def make_noisy_step(noise, hidden=0):
    """A training step over an open batch; `noise` is called with each layer, `hidden` x 128 KiB
    are taken by Python code in the middle of it, unseen."""
    rng = tf.random.Generator.from_seed(7)
    weights = [tf.Variable(rng.normal([64, 64]) / 8.0) for _ in range(6)]

    def allocate(seed):
        return tf.reduce_sum(tf.fill([hidden * 512, 64], seed))

    def step(x):
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = noise(tf.tanh(tf.matmul(y, weight)))
            loss = tf.reduce_mean(y * y)
            if hidden:
                seed = tf.stop_gradient(tf.reduce_sum(y))
                loss += 1e-9 * tf.py_function(allocate, [seed], tf.float32)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.1 * gradient)
        return loss

    step.__name__ = f"noisy_step_{next(_numbers)}_"
    return tf.function(step, input_signature=[tf.TensorSpec([None, 64])])


def dropout(y):
    return tf.nn.dropout(y, 0.3, seed=5)


@tf.function
def nested_dropout(y):
    return dropout(y)


def stateless_dropout(y):
    return tf.nn.experimental.stateless_dropout(y, 0.3, seed=[5, 1])


def losses(step, batches):
    return [step(rows(count)).numpy() for count in batches]


@pytest.mark.parametrize("noise", [dropout, nested_dropout])
def test_a_larger_batch_does_not_begin_the_sequence_anew(noise):
    batches = (256, 512, 512)
    expected = losses(make_noisy_step(noise), batches)
    step = make_noisy_step(noise)
    lms.enable("60%", feedback=False)
    with pytest.warns(UserWarning, match="stays as planned for the sizes of its first"):
        assert losses(step, batches) == expected
    (report,) = reports_on(step)
    assert report.status == "rewritten"
    assert report.sizes == ("x:0 = 256 (first call)",)


def test_without_such_state_a_larger_batch_is_planned_for():
    batches = (256, 512, 512)
    expected = losses(make_noisy_step(stateless_dropout), batches)
    step = make_noisy_step(stateless_dropout)
    lms.enable("60%", feedback=False)
    assert losses(step, batches) == expected
    assert len(reports_on(step)) == 2


def test_a_step_over_its_budget_does_not_begin_the_sequence_anew():
    batches = (512,) * 6
    expected = losses(make_noisy_step(dropout, hidden=8), batches)
    step = make_noisy_step(dropout, hidden=8)
    lms.enable("60%")
    assert losses(step, batches) == expected
    (report,) = reports_on(step)
    assert report.measured_peak_bytes > report.budget_bytes
    assert any("after 0 plans" in text for text in report.warnings)
