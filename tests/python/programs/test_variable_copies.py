"""Variables that are copied when they are changed: by whom, and when."""

import lms
import pytest
import tensorflow as tf
from helpers import measured_peak, reports_on, rows, train_chain
from lms import _native

WIDTH = 512


def predicted(step, *args):
    """Activations, by a report whose plan changes nothing; and what the second step takes."""
    with lms.enabled("1TiB"):
        step(*args)
        taken = measured_peak(step, *args)
    report = reports_on(step)[-1]
    assert report.status == "fits"
    return report.peak_before_bytes - report.resident_bytes, taken


def test_a_dense_update_beside_sparse_ones():
    slots = tf.Variable(tf.zeros([4096, 64]))

    @tf.function
    def sparse_step(where, what):
        slots.assign_sub(slots * 0.5)
        slots.scatter_add(tf.IndexedSlices(what, where))
        return tf.reduce_sum(what)

    found, taken = predicted(sparse_step, tf.range(64), tf.ones([64, 64]))
    assert found == pytest.approx(taken, rel=0.02)
    assert found >= 2 * 4096 * 64 * 4  # the product, and the copy


@pytest.mark.parametrize(
    "gather", [tf.gather, lambda table, where: tf.gather_nd(table, where[:, None])]
)
def test_reads_of_what_is_gathered_from(gather):
    table = tf.Variable(tf.eye(WIDTH))

    @tf.function
    def tied_step(where):
        found = gather(table, where)
        decayed = 0.9 * table
        return tf.reduce_sum(tf.tanh(tf.matmul(found, table, transpose_b=True))), decayed

    found, taken = predicted(tied_step, tf.range(64))
    assert found == pytest.approx(taken, rel=0.02)
    assert found >= 2 * WIDTH * WIDTH * 4  # what is decayed, and a copy for the product


@pytest.mark.parametrize("rounds", [1, 3])
def test_an_update_in_a_loop_while_the_weight_is_held(rounds):
    weights = [tf.Variable(tf.eye(WIDTH)) for _ in range(4)]

    @tf.function
    def decaying_step(x):
        total = tf.constant(0.0)
        for _ in tf.range(rounds):
            for weight in weights:
                weight.assign_sub(0.01 * weight)
            total += train_chain(weights, x)
        return total

    found, taken = predicted(decaying_step, rows(64, WIDTH))
    assert 0.95 * taken < found < 1.25 * taken


def test_who_holds_memory_at_the_peak():
    @tf.function
    def small_step(x):
        return tf.reduce_sum(tf.tanh(tf.matmul(x, x, name="product")), name="total")

    x = rows(512, 512)
    small_step(x)
    assert _native.begin_holder_scope()
    small_step(x)
    held = _native.end_holder_scope()
    assert held[0][0] == 512 * 512 * 4 and "product" in held[0][1]
    assert _native.end_peak_scope() == 0  # it is closed
