"""Functions of tf.data run as they are while lms is on: none is rewritten, and data is the same."""

import keras
import lms
import numpy as np
import pytest
import tensorflow as tf
from helpers import make_step
from steps import chain

SIDE, ROWS = 128, 512
layers = [np.eye(64, dtype=np.float32) * 0.5] * 6


def heavy(i):
    """A map function with activations of 128 KiB each, enough for a budget to bite."""
    x = tf.random.stateless_normal([ROWS, 64], [i, i])
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(chain(x, layers) ** 2)
    return tape.gradient(loss, x), loss


def pipeline(name):
    numbers = tf.data.Dataset.range(6)
    if name == "map":
        return numbers.map(heavy)
    if name == "parallel":
        return numbers.map(heavy, num_parallel_calls=2, deterministic=True).prefetch(2)
    if name == "interleave":
        return numbers.interleave(lambda i: tf.data.Dataset.from_tensors(heavy(i)), cycle_length=2)
    if name == "filter":
        return numbers.filter(lambda i: heavy(i)[1] > 0).map(heavy).batch(2)
    if name == "scan":
        return numbers.scan(tf.constant(0.0), lambda s, i: (s + heavy(i)[1], s)).shuffle(4, seed=3)
    augment = keras.Sequential([keras.layers.RandomFlip(seed=3), keras.layers.Rescaling(0.5)])
    images = tf.data.Dataset.from_tensors(tf.ones([8, SIDE, SIDE, 3])).repeat(3)
    return images.map(lambda x: augment(x, training=False)).cache()


@pytest.mark.parametrize("name", ["map", "parallel", "interleave", "filter", "scan", "layers"])
def test_pipelines_are_left_alone(name):
    stock = [tf.nest.map_structure(np.array, element) for element in pipeline(name)]
    lms.enable("min")
    before = len(lms.reports())
    ours = [tf.nest.map_structure(np.array, element) for element in pipeline(name)]
    tf.nest.map_structure(np.testing.assert_array_equal, stock, ours)
    assert len(stock) == len(ours) > 2
    seen = lms.reports()[before:]
    assert not [str(r) for r in seen if r.status in ("rewritten", "failed")]


def test_a_step_beside_its_pipeline_is_still_rewritten():
    """The dataset is iterated within the step's loop, and outside."""
    function, _ = make_step()
    lms.enable("60%")
    for element in pipeline("parallel"):
        function()
        assert np.isfinite(element[1].numpy())
    statuses = [r.status for r in lms.reports() if "train_step" in r.function]
    assert statuses == ["rewritten"]
    others = {r.status for r in lms.reports() if "train_step" not in r.function}
    assert "rewritten" not in others and "failed" not in others
