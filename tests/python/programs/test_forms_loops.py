"""Loops: training inside of them, gradients through them."""

from __future__ import annotations

import pytest
import tensorflow as tf
from forms import alone, compare, rewritten
from loop_steps import gradients, train
from steps import BATCH, WIDTH, chain, descend, inputs, weights


def batches(count: int = 4) -> tf.Tensor:
    return tf.random.Generator.from_seed(8).normal([count, BATCH, WIDTH])


def mean_square(y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(y * y)


def dense(y: tf.Tensor, layer: tf.Variable) -> tf.Tensor:
    return tf.tanh(tf.matmul(y, layer))


# ---- Training inside ----


@pytest.mark.parametrize(("parallel", "most"), [(1, None), (10, None), (10, 3)])
def test_accumulating_in_loop_variables(parallel, most):
    layers = weights()

    def step(x):
        def body(i, total, *sums):
            loss, slopes = gradients(layers, x[i])
            return (i + 1, total + loss, *[a + b for a, b in zip(sums, slopes)])

        start = (0, 0.0, *[tf.zeros_like(layer) for layer in layers])
        _, total, *sums = tf.while_loop(
            lambda i, *_: i < 4, body, start, parallel_iterations=parallel, maximum_iterations=most
        )
        for layer, slope in zip(layers, sums):
            layer.assign_sub(0.1 * slope)
        return total

    assert "in the body of the loop" in rewritten(step, batches()).reason


@pytest.mark.parametrize("trips", [0, 3])
def test_a_number_of_trips_that_the_run_decides(trips):
    layers = weights()

    def step(x, trips):
        total = 0.0
        for i in tf.range(trips):
            total += train(layers, x[i])
        return total

    stock, ours, report = compare(step, batches(), tf.constant(trips))
    assert report.status == "rewritten" and "in the body of the loop" in report.reason
    assert ours.peak < stock.peak or trips == 0


def test_leaving_a_loop_early_and_passing_over_an_iteration():
    layers = weights()

    def step(x, limit):
        total, i = 0.0, tf.constant(0)
        while i < 4:
            i += 1
            if i == 2:
                continue
            total += train(layers, x[i - 1])
            if total > limit:
                break
        return total, i

    report = rewritten(step, batches(), tf.constant(0.3))
    assert "in the body of the loop" in report.reason


def test_returning_out_of_a_loop():
    layers = weights()

    def step(x, limit):
        total = 0.0
        for i in tf.range(4):
            loss = train(layers, x[i])
            total += loss
            if total > limit:
                break
        if total > limit:
            return total
        return -total

    rewritten(step, batches(), tf.constant(0.3))


def test_a_loop_over_an_iterator():
    """The iterator of the dataset is made in the step, so that each call sees all of it."""
    layers = weights()
    data = tf.data.Dataset.from_tensor_slices(batches())

    def step():
        total = 0.0
        for x in iter(data):
            total += train(layers, x)
        return total

    assert "in the body of the loop" in rewritten(step).reason


def test_a_loop_over_a_dataset_is_left_alone_and_named():
    layers = weights()
    data = tf.data.Dataset.from_tensor_slices(batches())

    def step():
        total = 0.0
        for x in data:
            total += train(layers, x)
        return total

    said = r"runs apart from the step .*ReduceDataset: loop over iter\(dataset\)"
    alone(step, status="skipped", reason=said)


def test_map_fn_that_trains():
    layers = weights()
    rewritten(lambda x: tf.map_fn(lambda b: train(layers, b), x), batches())


# ---- Gradients through loops ----


def test_a_gradient_through_a_loop_between_layers():
    """Copies for the layers before it wait for the backward loop's end, and it leaves nothing
    behind: with neither, this step took 2.94 MiB where 2.07 were promised."""
    layers = weights()

    def step(x):
        with tf.GradientTape() as tape:
            y = chain(x, layers * 2)
            _, y = tf.while_loop(
                lambda i, _: i < 4,
                lambda i, y: (i + 1, dense(y, layers[0])),
                (0, y),
                maximum_iterations=10,
            )
            loss = mean_square(chain(y, layers * 2))
        descend(tape, loss, layers)
        return loss

    rewritten(step, inputs())


def test_iterations_that_run_side_by_side_are_within_no_budget():
    """The backward passes of a jacobian without pfor overlap: 1.68 MiB, predicted at 0.82 for one
    at a time. That fitted 1 MiB once."""
    layers = weights(3)

    def step(x):
        with tf.GradientTape(persistent=True) as tape:
            y = tf.reduce_mean(chain(x, layers), 0)[:8]
        return tape.jacobian(y, layers, experimental_use_pfor=False)

    stock, ours, report = compare(step, inputs(), budget=1_400_000)
    assert report.status == "rewritten", str(report)
    assert "iterations of loops wait for the end of the one before" in report.reason
    assert "held by 0" not in report.reason
    assert ours.peak < stock.peak


@pytest.mark.parametrize("kind", ["while_loop", "map_fn", "scan", "foldl", "rnn"])
def test_gradients_through_loops(kind):
    """Loops that hold their activations in lists: the gradient computes some of them again."""
    layers, x = weights(2), tf.random.Generator.from_seed(8).normal([6, 256, WIDTH])

    def cell(state, value):
        return tf.tanh(tf.matmul(state, layers[0]) + tf.matmul(value, layers[1]))

    def forward(x):
        if kind == "map_fn":
            return tf.map_fn(lambda a: chain(a, layers), x)
        if kind == "scan":
            return tf.scan(cell, x, tf.zeros([256, WIDTH]))
        if kind == "foldl":
            return tf.foldl(lambda total, a: total + mean_square(chain(a, layers)), x, 0.0)
        if kind == "while_loop":
            body = lambda i, y: (i + 1, chain(y, layers))  # noqa: E731
            return tf.while_loop(lambda i, _: i < 4, body, (0, x[0]), maximum_iterations=4)[1]
        state, states = tf.zeros([256, WIDTH]), tf.TensorArray(tf.float32, 6)
        for i in tf.range(6):
            state = cell(state, x[i])
            states = states.write(i, state)
        return states.stack()

    def step(x):
        with tf.GradientTape() as tape:
            loss = mean_square(forward(x))
        descend(tape, loss, layers)
        return loss

    stock, ours, report = compare(step, x)
    # The state of a scan is all that its gradient reads, and nothing makes that again.
    if kind == "scan":
        assert report.status in ("rewritten", "fits"), str(report)
    else:
        assert "computed again in its gradient, " in report.reason, str(report)
        assert [d for d in report.decisions if "while/body" in d["op"] and d["kind"] == "recompute"]
        assert ours.peak < 0.8 * stock.peak, (stock.peak, ours.peak)
    promised = max(report.peak_after_bytes, report.peak_before_bytes) - report.resident_bytes
    assert ours.peak <= 1.05 * promised, (stock.peak, ours.peak, promised)
