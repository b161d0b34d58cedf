"""Lists that loops go through, and gradients of what they make: rows of a tensor, in its memory."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf
from forms import compare
from steps import descend, weights

ROWS, WIDTH, STEPS = 16, 64, 48
SHARED = "are the rows of what they are made of"


def sequences() -> tf.Tensor:
    return tf.random.Generator.from_seed(8).normal([ROWS, STEPS, WIDTH])


def trained(variables, forward):
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(forward(x) ** 2)
        descend(tape, loss, variables)
        return loss

    return step


def layers_of(*layers):
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((STEPS, WIDTH), batch_size=ROWS), *layers])
    return model.trainable_variables, lambda x: model(x, training=True)


def least(variables, forward):
    """The report of a step of that at "min": its bits are stock's, its peak what it says."""
    stock, ours, report = compare(trained(variables, forward), sequences())
    assert ours.peak < stock.peak, (stock.peak, ours.peak)
    promised = report.peak_after_bytes - report.resident_bytes
    assert ours.peak <= 1.05 * promised, (ours.peak, promised)
    return report


def test_layers_in_both_directions():
    lstm = keras.layers.LSTM(WIDTH, return_sequences=True)
    report = least(*layers_of(keras.layers.Bidirectional(lstm), keras.layers.GRU(WIDTH)))
    assert SHARED in report.reason, str(report)


def test_backwards():
    between = keras.layers.Dense(WIDTH)
    layer = keras.layers.SimpleRNN(WIDTH, go_backwards=True, return_sequences=True)
    report = least(*layers_of(between, layer))
    assert SHARED in report.reason, str(report)


def test_a_scan_over_what_was_computed():
    (layer,) = layers = weights(1, shape=(WIDTH, WIDTH))

    def forward(x):
        rows = tf.transpose(tf.tanh(tf.matmul(x, layer)), [1, 0, 2])
        return tf.scan(lambda y, row: tf.tanh(tf.matmul(y, layer) + row), rows, rows[0])

    report = least(layers, forward)
    assert SHARED in report.reason, str(report)


def test_elements_that_a_loop_puts_in_the_place_of_others():
    (layer,) = layers = weights(1, shape=(WIDTH, WIDTH))

    def forward(x):
        rows = tf.TensorArray(tf.float32, STEPS, clear_after_read=False)
        rows = rows.unstack(tf.transpose(tf.tanh(x), [1, 0, 2]))
        for i in tf.range(STEPS - 1):
            rows = rows.write(i + 1, tf.tanh(tf.matmul(rows.read(i), layer) + rows.read(i + 1)))
        return rows.stack()

    least(layers, forward)


@pytest.mark.parametrize("width", [60, 1])
def test_rows_of_other_sizes_are_copied(width):
    layer = tf.Variable(tf.random.Generator.from_seed(3).normal([WIDTH, width]) / 8)

    def forward(x):
        rows = tf.transpose(tf.tanh(tf.matmul(x[:1], layer)), [1, 0, 2])
        return tf.scan(lambda y, row: tf.tanh(y + row), rows, rows[0])

    _, _, report = compare(trained([layer], forward), sequences())
    assert SHARED not in report.reason, str(report)
