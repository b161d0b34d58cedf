"""Slices of whole rows: nothing is copied, and all is held as long as one is read."""

from __future__ import annotations

import lms
import pytest
import tensorflow as tf
from forms import rewritten
from helpers import measured_peak, reports_on, rows, train_chain
from steps import BATCH, TILE, WIDTH, descend, inputs, named, weights

PARTS = 3


def by_split(stack):
    return [tf.squeeze(part, 0) for part in tf.split(stack, PARTS, 0)]


def by_sizes(stack):
    return [tf.squeeze(part, 0) for part in tf.split(stack, [1] * PARTS, 0)]


def by_sizes_of_numbers(stack):
    """As gradients are cut up that were packed for a reduction."""
    parts = tf.split(tf.reshape(stack, [-1]), [BATCH * WIDTH] * PARTS)
    return [tf.reshape(part, [BATCH, WIDTH]) for part in parts]


def by_slice(stack):
    parts = [tf.slice(stack, [i, 0, 0], [1, BATCH, WIDTH]) for i in range(PARTS)]
    return [tf.squeeze(part, 0) for part in parts]


KINDS = {
    "Unpack": tf.unstack,
    "Split": by_split,
    "SplitV": by_sizes,
    "SplitV of numbers": by_sizes_of_numbers,
    "Slice": by_slice,
    "StridedSlice": lambda stack: [stack[i] for i in range(PARTS)],
}


def attention_like(parts_of, count=3):
    """Each layer stacks three products and mixes them, as attention does its queries and keys."""
    layers = weights(count, (WIDTH, PARTS * WIDTH))

    def step(x):
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                stack = tf.reshape(tf.matmul(y, layer), [BATCH, PARTS, WIDTH])
                query, key, value = parts_of(tf.transpose(stack, [1, 0, 2]))
                y = tf.tanh(query * tf.sigmoid(key)) + value
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    return step


@pytest.mark.parametrize("kind", KINDS)
def test_all_of_a_stack_is_counted_as_long_as_a_part_is_read(kind):
    step = named(attention_like(KINDS[kind]))
    x = inputs()
    with lms.enabled("1TiB"):
        step(x)
        taken = measured_peak(step, x)
    report = reports_on(step)[-1]
    assert report.status == "fits"
    assert report.peak_before_bytes - report.resident_bytes == pytest.approx(taken, rel=0.02)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", ["60%", "min"])
def test_stacks_are_recomputed_whole(kind, budget):
    rewritten(attention_like(KINDS[kind]), inputs(), budget=budget)


def test_parts_of_a_batch_take_nothing():
    layers = weights(2)

    @tf.function
    def step_in_quarters(x):
        return sum(train_chain(layers, part) for part in tf.split(x, 4))

    x = rows(4 * BATCH)
    with lms.enabled("1TiB"):
        step_in_quarters(x)
        taken = measured_peak(step_in_quarters, x)
    report = reports_on(step_in_quarters)[-1]
    assert report.peak_before_bytes - report.resident_bytes == pytest.approx(taken, rel=0.02)
    assert taken < 8 * TILE
