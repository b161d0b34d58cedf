"""Long loops: their gradients compute what lists would hold again, some iterations at a time."""

from __future__ import annotations

import re

import pytest
import tensorflow as tf
from forms import compare
from steps import descend, weights

ROWS, WIDTH, STEPS = 16, 64, 64


def start() -> tf.Tensor:
    return tf.random.Generator.from_seed(8).normal([ROWS, WIDTH])


def cell(y, layers):
    for layer in layers:
        y = tf.tanh(tf.matmul(y, layer))
    return y


def small(count: int = 3) -> list[tf.Variable]:
    return weights(count, shape=(WIDTH, WIDTH))


def by_segments(step, *args, most: float = 0.4):
    """A peak of at most that share of stock's, and no more than the report says; the same bits."""
    stock, ours, report = compare(step, *args)
    said = r"computed again in (its|their) gradients?, [\d,]+ iterations? at a time"
    assert re.search(said, report.reason), str(report)
    assert ours.peak <= most * stock.peak, (stock.peak, ours.peak)
    promised = report.peak_after_bytes - report.resident_bytes
    assert ours.peak <= 1.05 * promised, (ours.peak, promised)
    return report


def training(layers, forward):
    def step(*args):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(forward(*args) ** 2)
        descend(tape, loss, layers)
        return loss

    return step


def test_a_loop_of_many_iterations():
    layers = small()

    def forward(y):
        return tf.while_loop(lambda i, _: i < STEPS, lambda i, y: (i + 1, cell(y, layers)), (0, y))[
            1
        ]

    report = by_segments(training(layers, forward), start())
    assert any(decision["kind"] == "recompute" for decision in report.decisions)
    assert not report.warnings


def test_a_body_that_reads_the_number_of_its_iteration():
    layers = small()

    def forward(y, values):
        def body(i, y):
            return i + 1, cell(y + values[i] * tf.cast(i + 1, tf.float32), layers)

        return tf.while_loop(lambda i, _: i < STEPS, body, (0, y))[1]

    values = tf.random.Generator.from_seed(9).normal([STEPS, WIDTH])
    by_segments(training(layers, forward), start(), values)


def test_states_of_several_kinds():
    """A place that jumps about, a float64, and what is handed through as it is."""
    layers = small()

    def forward(y, values):
        def body(i, place, total, y, scale):
            y = cell(y * scale + values[place], layers)
            total = total + tf.cast(tf.reduce_mean(y), tf.float64)
            return i + 1, (place * 5 + 3) % 7, total, y, scale

        first = (0, 0, tf.zeros([], tf.float64), y, tf.constant(0.9))
        _, _, total, y, _ = tf.while_loop(lambda i, *_: i < STEPS, body, first)
        return y + tf.cast(total, tf.float32)

    values = tf.random.Generator.from_seed(9).normal([7, WIDTH])
    by_segments(training(layers, forward), start(), values)


@pytest.mark.parametrize("trips", [0, 1, 17, 50])
def test_a_loop_that_ends_before_its_bound(trips):
    layers = small()

    def forward(y, n):
        return tf.while_loop(
            lambda i, _: i < n,
            lambda i, y: (i + 1, cell(y, layers)),
            (0, y),
            maximum_iterations=STEPS,
        )[1]

    _, _, report = compare(training(layers, forward), start(), tf.constant(trips))
    assert "iterations at a time" in report.reason, str(report)


@pytest.mark.parametrize("kind", ["stateless", "masks", "seeded"])
def test_random_numbers_in_the_body(kind):
    layers = small()

    def forward(y, masks):
        def body(i, y):
            if kind == "stateless":
                y = y * tf.random.stateless_uniform([ROWS, WIDTH], [i, 7])
            elif kind == "seeded":
                y = y * tf.random.uniform([ROWS, WIDTH], seed=5)
            else:
                y = y * masks[i % 3]
            return i + 1, cell(y, layers)

        return tf.while_loop(lambda i, _: i < STEPS, body, (0, y), parallel_iterations=1)[1]

    masks = tf.random.Generator.from_seed(9).normal([3, ROWS, WIDTH])
    step = training(layers, forward)
    if kind == "seeded":
        compare(step, start(), masks)
    else:
        by_segments(step, start(), masks)


def test_in_a_loop_that_trains():
    layers = small()

    def step(y):
        total = 0.0
        for _ in tf.range(3):
            with tf.GradientTape() as tape:
                last = tf.while_loop(
                    lambda i, _: i < STEPS, lambda i, y: (i + 1, cell(y, layers)), (0, y)
                )[1]
                loss = tf.reduce_mean(last**2)
            descend(tape, loss, layers)
            total += loss
        return total

    by_segments(step, start())


@pytest.mark.parametrize("taken", [True, False])
def test_in_a_branch(taken):
    layers = small()

    def forward(y, condition):
        def long():
            return tf.while_loop(
                lambda i, _: i < STEPS, lambda i, y: (i + 1, cell(y, layers)), (0, y)
            )[1]

        return tf.cond(condition, long, lambda: cell(y, layers))

    compare(training(layers, forward), start(), tf.constant(taken))


def test_two_gradients_of_one_loop():
    layers = small()

    def step(y):
        with tf.GradientTape(persistent=True) as tape:
            last = tf.while_loop(
                lambda i, _: i < STEPS, lambda i, y: (i + 1, cell(y, layers)), (0, y)
            )[1]
            losses = [tf.reduce_mean(last**2), tf.reduce_mean(tf.abs(last))]
        for loss in losses:
            for layer, slope in zip(layers, tape.gradient(loss, layers)):
                layer.assign_sub(0.1 * slope)
        return losses

    compare(step, start())


def test_a_loop_in_the_body():
    layers = small()

    def forward(y):
        def body(i, y):
            inner = tf.while_loop(
                lambda j, _: j < 4, lambda j, y: (j + 1, cell(y, layers[:1])), (0, y)
            )[1]
            return i + 1, cell(inner, layers[1:])

        return tf.while_loop(lambda i, _: i < 16, body, (0, y))[1]

    compare(training(layers, forward), start())


def test_a_gradient_of_a_gradient():
    layers = small(2)

    def step(y):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                last = tf.while_loop(
                    lambda i, _: i < 12, lambda i, y: (i + 1, cell(y, layers)), (0, y)
                )[1]
                loss = tf.reduce_mean(last**2)
            slopes = inner.gradient(loss, layers)
            total = loss + tf.add_n([tf.reduce_sum(slope**2) for slope in slopes])
        for layer, slope in zip(layers, outer.gradient(total, layers)):
            layer.assign_sub(0.1 * slope)
        return total

    compare(step, start())


def test_a_loop_without_a_state():
    """map_fn over a known number of rows: what each iteration makes is computed again from them."""
    layers = small()
    rows = tf.random.Generator.from_seed(8).normal([STEPS, ROWS, WIDTH])

    def forward(rows):
        return tf.map_fn(lambda each: cell(each, layers), rows)

    _, _, report = compare(training(layers, forward), rows)
    assert "tensors of a loop's body are computed again" in report.reason
    assert not any("given up" in warning for warning in report.warnings)
