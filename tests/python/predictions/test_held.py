"""What TensorFlow holds beside the tensors that a step's operations hand on, in real peaks."""

from __future__ import annotations

import gc

import lms
import pytest
import tensorflow as tf
from forked import run_forked

MIB, SMALL = 2**20, 2**16
LAYERS, WIDTH, BATCH = 6, 256, 4096  # activations of 4 MiB each


def stepped(act, budget, rounds=1):
    """Takes steps of dense layers, `act` between them, whose loss is a mean, so many in a loop at a
    time. The last one's bytes: in use before and at the peak, beside the report."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lms.memory.reset_peak()  # from here on all is counted
    # No arrays of NumPy's: where they happen to be aligned, TensorFlow allocates nothing for them.
    x = tf.random.stateless_normal([BATCH, WIDTH], [1, 2])
    seeds = [[number, 3] for number in range(LAYERS)]
    weights = [
        tf.Variable(tf.random.stateless_normal([WIDTH, WIDTH], seed) / 16.0) for seed in seeds
    ]

    def train(x):
        with tf.GradientTape() as tape:
            y = x
            for number, weight in enumerate(weights):
                y = act(tf.matmul(y, weight), number)
            loss = tf.reduce_mean(tf.square(y - 1.0))
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.05 * gradient)
        return loss

    @tf.function
    def step(x):
        if rounds == 1:
            return train(x)
        return tf.while_loop(lambda i, _: i < rounds, lambda i, _: (i + 1, train(x)), (0, 0.0))[1]

    lms.enable(budget)
    before = 0
    for _ in range(4):
        gc.collect()
        lms.memory.reset_peak()
        before = lms.memory.bytes_in_use()
        step(x)
    return before, lms.memory.peak_bytes(), lms.report()


def in_a_process(code):
    status, output = run_forked(f"import test_held as t; t.{code}")
    assert status == 0, output


def constants(budget, rounds=1):
    """The gradient of a mean is a constant as large as its terms: TensorFlow computes it once."""
    before, peak, report = stepped(lambda y, number: tf.nn.elu(y), budget, rounds)
    assert report.status == "rewritten", report.reason
    assert abs(report.resident_bytes - before) < SMALL, (report.resident_bytes, before)
    assert abs(report.measured_peak_bytes - peak) < SMALL, (report.measured_peak_bytes, peak)
    assert peak <= report.budget_bytes
    assert 0.98 <= report.peak_after_bytes / peak <= 1.02


@pytest.mark.parametrize("rounds", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_a_budget_holds_what_is_computed_once_from_constants(rounds):
    in_a_process(f"constants({24 * MIB}, {rounds})")


def tapes(budget):
    def act(y, number):
        y = tf.nn.elu(y)
        if number != 1:
            return y
        return tf.ensure_shape(tf.py_function(tf.nn.softplus, [y], tf.float32), y.shape)

    _, _, report = stepped(act, budget)
    assert report.status == "rewritten", report.reason
    assert report.measured_peak_bytes <= report.budget_bytes
    assert 0.97 <= report.peak_after_bytes / report.measured_peak_bytes <= 1.03


def test_python_holds_what_its_gradient_needs():
    in_a_process('tapes("60%")')


def planned_again(budget):
    """Rows that a mask chooses, more with each call: each plan has constants of its own."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lms.memory.reset_peak()
    x = tf.random.stateless_normal([BATCH, WIDTH], [1, 2])
    weights = [
        tf.Variable(tf.random.stateless_normal(shape, [3, 4]) / 16.0)
        for shape in ([WIDTH, 4 * WIDTH], [4 * WIDTH, WIDTH])
    ]

    @tf.function
    def step(x, least):
        with tf.GradientTape() as tape:
            chosen = x[:, 0] > least
            rows = tf.matmul(tf.boolean_mask(x, chosen), weights[0])
            rows = tf.matmul(tf.nn.elu(tf.nn.elu(rows)), weights[1])
            y = x + tf.tensor_scatter_nd_add(tf.zeros_like(x), tf.where(chosen), rows)
            loss = tf.reduce_mean(tf.square(y - 1.0))
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.05 * tf.convert_to_tensor(gradient))
        return loss

    lms.enable(budget)
    for least in (9.0, 1.0, 0.5, 0.0, -0.5, -0.5):
        least = tf.constant(least)
        step(x, least)  # a larger one than all before: the next call is planned for it
        for _ in range(2):
            gc.collect()
            lms.memory.reset_peak()
            before = lms.memory.bytes_in_use()
            step(x, least)
    report = lms.report()
    assert len(lms.reports()) >= 4
    assert abs(report.resident_bytes - before) < SMALL, (report.resident_bytes, before)
    assert lms.memory.peak_bytes() <= report.budget_bytes, (report, lms.memory.peak_bytes())
    assert any("plans that this function had before" in text for text in report.warnings)
    held = {layer.layer: layer.before_bytes for layer in report.by_layer()}
    assert held["(inputs)"] < 2 * x.shape[0] * x.shape[1] * 4, held
    assert held["(constants)"] >= len(lms.reports()) * 2 * x.shape[0] * x.shape[1] * 4, held


def test_constants_of_plans_before_count():
    in_a_process('planned_again("70%")')
