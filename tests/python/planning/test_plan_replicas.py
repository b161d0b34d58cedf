"""lms.plan of what one of several devices runs, none of which is there."""

from __future__ import annotations

import importlib

import lms
import pytest
import tensorflow as tf
from helpers import make_step

LAYERS, WIDTH = 10, 256
GRADIENTS = LAYERS * WIDTH * WIDTH * 4


def dense(library: str):
    keras = importlib.import_module(library)

    def make():
        layers = [keras.layers.Dense(WIDTH, use_bias=False) for _ in range(LAYERS)]
        model = keras.Sequential([keras.Input((WIDTH,)), *layers])
        model.compile("sgd", "mse")
        return model

    return make


def activations(report) -> int:
    return report.peak_before_bytes - report.resident_bytes


# Keras 2 multiplies all gradients by the learning rate before it takes any of them off.
@pytest.mark.parametrize(("library", "times"), [("keras", 1), ("tf_keras", 2)])
def test_gradients_are_there_twice_where_they_are_added_up(library, times):
    pytest.importorskip(library)
    alone = lms.plan(dense(library), 8, memory_budget="1TiB")
    assert activations(alone) < 1.2 * times * GRADIENTS
    for workers, replicas in ((2, 1), (1, 2), (4, 8)):
        among = lms.plan(
            dense(library), 8, memory_budget="1TiB", workers=workers, replicas=replicas
        )
        assert 1.9 * GRADIENTS < activations(among) < (1.3 + times) * GRADIENTS
    packed = lms.plan(dense(library), 8, memory_budget="1TiB", workers=2, bytes_per_pack="256KiB")
    assert activations(packed) < 0.9 * activations(among)


def test_a_step_of_ones_own_that_asks_for_sums():
    weight = tf.Variable(tf.ones([WIDTH, WIDTH]))

    def made(reduce):
        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.matmul(x, weight)))
            slope = tape.gradient(loss, weight)
            if reduce:
                slope = tf.distribute.get_replica_context().all_reduce("MEAN", slope)
            weight.assign_sub(slope)

        return step

    x = tf.TensorSpec([8, WIDTH])
    alone, among = (lms.plan(made(True), x, memory_budget="1TiB", workers=n) for n in (1, 4))
    # What the three others send, while it is added up.
    held = 3 * WIDTH * WIDTH
    assert activations(among) - activations(alone) == pytest.approx(held, rel=0.05)
    with pytest.raises(ValueError, match="adds up nothing over 2 devices"):
        lms.plan(made(False), x, workers=2)


def test_rows_of_an_embedding_are_gathered():
    keras = importlib.import_module("keras")

    def make():
        model = keras.Sequential(
            [keras.Input((64,)), keras.layers.Embedding(50, 128), keras.layers.Dense(1)]
        )
        model.compile("adam", "mse")
        return model

    peaks = [activations(lms.plan(make, 32, memory_budget="1TiB", workers=n)) for n in (2, 8)]
    rows = 32 * 64 * 128 * 4
    assert peaks[1] - peaks[0] >= 6 * rows


def test_what_was_traced_before_is_refused_and_nothing_stays_changed():
    kept = tf.distribute.get_replica_context().all_reduce.__func__
    step, _ = make_step()
    with pytest.raises(ValueError, match="traced here for the first time"):
        lms.plan(step.get_concrete_function(), workers=2)
    assert tf.distribute.get_replica_context().all_reduce.__func__ is kept


@pytest.mark.parametrize("options", [{"workers": 0}, {"replicas": -1}, {"bytes_per_pack": "?"}])
def test_numbers_that_cannot_be(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        lms.plan(dense("keras"), 8, **options)
