"""Loops of which only the run decides how often they go round: recorded by the step, known to the
plan of the next one."""

from __future__ import annotations

import itertools

import keras
import lms
import numpy as np
import pytest
import tensorflow as tf
from helpers import measured_peak, reports_on
from steps import descend, weights
from test_loop_segments import ROWS, WIDTH, cell, small, start

_numbers = itertools.count()
ARGUMENTS = [tf.TensorSpec([ROWS, WIDTH]), tf.TensorSpec([], tf.int32)]


def up_to(layers):
    def forward(y, end):
        _, y = tf.while_loop(lambda i, _: i < end, lambda i, y: (i + 1, cell(y, layers)), (0, y))
        return y

    return forward


def until(layers):
    """Until a sum of its own is as large as the argument: no counter of the program's."""

    def forward(y, end):
        def body(total, y):
            return total + 2.0, cell(y, layers)

        most = 2.0 * tf.cast(end, tf.float32)
        _, y = tf.while_loop(lambda total, _: total < most, body, (0.0, y))
        return y

    return forward


def in_a_loop_of_training(layers):
    """The gradient's loop is in another loop's body."""
    inner = up_to(layers)

    def forward(y, end):
        for _ in tf.range(3):
            y = inner(y, end)
        return y

    return forward


def counted_by_a_row(layers):
    """The program's counter has a dimension, and the body joins it with another number."""
    rows = tf.random.Generator.from_seed(9).normal([128, WIDTH])

    def forward(y, end):
        def body(i, y):
            row = tf.slice(rows, tf.concat([i, [0]], 0), [1, WIDTH])
            return tf.add(i, 1), cell(y * row, layers)

        return tf.while_loop(lambda i, _: i[0] < end, body, (tf.constant([0]), y))[1]

    return forward


def over_rows(layers):
    """map_fn: each iteration makes its own, and the loop has no state but its counters."""

    def forward(y, end):
        many = tf.tile(y[None], [end, 1, 1]) * tf.range(1, end + 1, dtype=tf.float32)[:, None, None]
        return tf.map_fn(lambda rows: cell(rows / 8.0, layers), many)

    return forward


def training(layers, forward):
    def step(y, end):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(forward(y, end) ** 2)
        descend(tape, loss, layers)
        return loss

    step.__name__ = f"open_loop_{next(_numbers)}_"
    return tf.function(step, input_signature=ARGUMENTS)


def train(way, ends):
    layers = small()
    step = training(layers, way(layers))
    losses = [step(start(), end).numpy().tobytes() for end in ends]
    return step, [*losses, *(layer.numpy().tobytes() for layer in layers)]


@pytest.mark.parametrize("way", [up_to, until])
def test_the_second_call_is_planned_for_what_the_first_has_shown(way):
    ends = [48, 48, 20, 48, 0, 1, 48]
    stock, expected = train(way, ends)
    taken = measured_peak(stock, start(), 48)
    lms.enable("40%")
    step, got = train(way, ends)
    assert got == expected
    first, second = reports_on(step)
    assert "; the step records how often they go round" in first.warnings[0]
    assert not second.warnings
    assert any("= 48 iterations (earlier steps)" in line for line in second.sizes)
    assert second.status == "rewritten"
    assert "of a loop's body" in second.reason
    ours = measured_peak(step, start(), 48)
    assert ours <= second.budget_bytes - second.resident_bytes
    assert ours < 0.5 * taken


def test_more_iterations_than_planned_for_have_the_right_bits_and_a_plan_of_their_own():
    """Segments of some iterations each are made for 16, and run 100 times."""
    ends = [16, 16, 100, 100, 3]
    _, expected = train(up_to, ends)
    lms.enable("min")
    step, got = train(up_to, ends)
    assert got == expected
    assert any("= 100 iterations (earlier steps)" in line for line in reports_on(step)[-1].sizes)
    assert len(reports_on(step)) == 3


@pytest.mark.parametrize("way", [counted_by_a_row, over_rows])
def test_counters_of_all_kinds(way):
    ends = [30, 30, 50, 5]
    _, expected = train(way, ends)
    lms.enable("min")
    step, got = train(way, ends)
    assert got == expected
    assert [report.status for report in reports_on(step)] == ["rewritten"] * 3
    assert not any("given up" in warning for each in reports_on(step) for warning in each.warnings)


def test_a_loop_in_a_loop():
    ends = [20, 20, 30, 30]
    _, expected = train(in_a_loop_of_training, ends)
    lms.enable("min")
    step, got = train(in_a_loop_of_training, ends)
    assert got == expected
    assert len(reports_on(step)) == 3


def test_a_loop_whose_lists_are_small_is_not_planned_for_again():
    """A trace of single numbers beside activations of some MB."""
    layers = weights(3, shape=(256, 256))

    def step(y, end):
        with tf.GradientTape() as tape:
            trace = tf.TensorArray(tf.float32, 0, dynamic_size=True)
            _, trace = tf.while_loop(
                lambda i, _: i < end, lambda i, t: (i + 1, t.write(i, 0.1)), (0, trace)
            )
            loss = tf.reduce_mean(cell(y, layers) ** 2) + tf.reduce_sum(trace.stack())
        descend(tape, loss, layers)
        return loss

    step.__name__ = f"open_loop_{next(_numbers)}_"
    lms.enable("60%")
    step = tf.function(
        step, input_signature=[tf.TensorSpec([4096, 256]), tf.TensorSpec([], tf.int32)]
    )
    y = tf.random.Generator.from_seed(8).normal([4096, 256])
    for end in (10, 10, 20, 30):
        step(y, end)
    assert len(reports_on(step)) == 1


def test_a_recurrent_layer_over_as_many_steps_as_the_longest_row_has():
    """tf.keras' own loop goes on to the end; one of the program's stops there."""
    keras.utils.set_random_seed(5)
    layer = keras.layers.GRUCell(64)
    layer.build((ROWS, 32))
    x = tf.constant(np.random.RandomState(3).randn(ROWS, 200, 32).astype("float32"))

    def make():
        def step(x, lengths):
            longest = tf.reduce_max(lengths)
            with tf.GradientTape() as tape:

                def body(i, state):
                    new, _ = layer(tf.gather(x, i, axis=1), state)
                    return i + 1, tf.where((i < lengths)[:, None], new, state)

                first = tf.zeros([ROWS, 64])
                _, state = tf.while_loop(lambda i, _: i < longest, body, (0, first))
                loss = tf.reduce_mean(state**2)
            return loss, *tape.gradient(loss, layer.trainable_variables)

        step.__name__ = f"open_loop_{next(_numbers)}_"
        return tf.function(step)

    def run(step):
        lengths = [
            tf.constant(np.random.RandomState(s).randint(1, 120, ROWS).astype("int32"))
            for s in range(4)
        ]
        return [value.numpy().tobytes() for each in lengths for value in step(x, each)]

    expected = run(make())
    lms.enable("40%")
    step = make()
    assert run(step) == expected
    assert reports_on(step)[-1].status == "rewritten"
