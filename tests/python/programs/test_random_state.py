"""Random operations with a seed keep in their kernels where they are; a new plan goes on there."""

import itertools

import lms
import pytest
import tensorflow as tf
from helpers import reports_on, rows
from lms._tf import context as _tf_context

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
def test_a_larger_batch_goes_on_with_the_sequence(noise):
    batches = (256, 512, 512)
    expected = losses(make_noisy_step(noise), batches)
    step = make_noisy_step(noise)
    lms.enable("60%", replan=False)
    assert losses(step, batches) == expected
    first, second = reports_on(step)
    assert first.status == second.status == "rewritten"
    assert second.sizes == ("x:0 = 512 (a later call)",)


def test_without_such_state_a_larger_batch_is_planned_for():
    batches = (256, 512, 512)
    expected = losses(make_noisy_step(stateless_dropout), batches)
    step = make_noisy_step(stateless_dropout)
    lms.enable("60%", replan=False)
    assert losses(step, batches) == expected
    assert len(reports_on(step)) == 2


def shuffled(y):
    return y + 0.1 * tf.random.shuffle(tf.stop_gradient(y), seed=9)


def several(y):
    y = y + 0.01 * tf.random.normal(tf.shape(y), seed=2)
    return y * tf.random.truncated_normal(tf.shape(y), 1.0, 0.1, seed=4)


@pytest.mark.parametrize(
    "noise",
    [
        dropout,
        *(pytest.param(n, marks=pytest.mark.slow) for n in (nested_dropout, shuffled)),
        several,
    ],
)
def test_a_step_over_its_budget_is_planned_again_and_goes_on_with_the_sequence(noise):
    batches = (512,) * 8
    expected = losses(make_noisy_step(noise, hidden=8), batches)
    step = make_noisy_step(noise, hidden=8)
    lms.enable("75%")
    assert losses(step, batches) == expected
    first, *others = reports_on(step)
    assert first.measured_peak_bytes > first.budget_bytes
    assert "planned again" in others[0].reason
    assert others[-1].peak_after_bytes <= first.peak_after_bytes


def test_a_step_that_was_said_to_fit_goes_on_as_well():
    expected = losses(make_noisy_step(dropout, hidden=8), (512,) * 8)
    lms.enable("1GiB")
    step = make_noisy_step(dropout, hidden=8)
    step(rows(512))
    fits = lms.reports()[-1]
    lms.clear_reports()
    lms.enable(fits.peak_after_bytes + (128 << 10))
    step = make_noisy_step(dropout, hidden=8)
    assert losses(step, (512,) * 8) == expected
    first, *others = reports_on(step)
    assert first.status == "fits" and others[0].status == "rewritten"


def test_what_cannot_be_kept_stays_as_planned():
    """An operation in a function that is not inlined has a kernel that lms cannot hold on to."""

    @tf.function(experimental_attributes={"_noinline": True})
    def apart(y):
        return dropout(y)

    batches = (256, 512, 512)
    expected = losses(make_noisy_step(apart), batches)
    step = make_noisy_step(apart)
    lms.enable("60%", replan=False)
    with pytest.warns(UserWarning, match="stays as planned for the sizes of its first"):
        assert losses(step, batches) == expected


def test_off_and_on_again_is_the_same_sequence_as_without():
    """The kernels that are kept end with the functions that TensorFlow forgets."""
    lms.enable("60%")
    step = make_noisy_step(dropout)
    first = losses(step, (512, 512))
    _tf_context.forget_optimized_functions()
    other = make_noisy_step(dropout)
    assert losses(other, (512, 512)) == first
