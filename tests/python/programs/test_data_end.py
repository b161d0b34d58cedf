"""Steps that fail as their data have come to an end: what stock has done by then, lms has done."""

import itertools

import keras
import lms
import numpy as np
import pytest
import tensorflow as tf
from forked import run_forked
from helpers import reports_on

tf_keras = pytest.importorskip("tf_keras")

WIDTH, BATCH, BATCHES = 128, 256, 4
_numbers = itertools.count()


def batches():
    random = np.random.default_rng(5)
    for _ in range(BATCHES):
        x = random.normal(size=(BATCH, WIDTH)).astype("float32")
        yield x, x[:, ::-1].copy()


def dataset(length):
    spec = tf.TensorSpec([BATCH, WIDTH], tf.float32)
    data = tf.data.Dataset.from_generator(batches, output_signature=(spec, spec))
    return data.apply(tf.data.experimental.assert_cardinality(BATCHES)) if length else data


def trained(kind, length):
    """The weights after two epochs, with weight decay."""
    kind.utils.set_random_seed(4)
    model = kind.Sequential([kind.Input((WIDTH,))])
    for _ in range(6):
        model.add(kind.layers.Dense(WIDTH, "tanh"))
    model.compile(kind.optimizers.AdamW(1e-3, weight_decay=0.1), "mse", jit_compile=False)
    model.fit(dataset(length), epochs=2, verbose=0)
    return [weight.tobytes() for weight in model.get_weights()]


def fits(name):
    """In a process with one thread of each kind."""
    kind = {"keras": keras, "tf_keras": tf_keras}[name]
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for length in (True, False):
        expected = trained(kind, length)
        for budget in ("60%", "min"):
            lms.clear_reports()
            with lms.enabled(budget):
                assert trained(kind, length) == expected, (length, budget)
            statuses = {report.status for report in lms.reports()}
            # Where the length is known the decay may wait, and a lower peak is found.
            assert "failed" not in statuses
            assert not length or "rewritten" in statuses, lms.reports()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["keras", "tf_keras"])
def test_weights_have_decayed_as_often_as_in_stock_tensorflow(kind):
    status, output = run_forked(f"import test_data_end as t; t.fits({kind!r})")
    assert status == 0, output


def test_a_loop_of_ones_own_that_runs_into_the_end():
    """An update that needs no data comes before the end is found, whatever the order."""

    def make():
        weights = [tf.Variable(tf.eye(WIDTH)) for _ in range(6)]
        steps = tf.Variable(0)

        def step(iterator):
            for weight in weights:
                weight.assign_sub(0.1 * weight)
            steps.assign_add(1)
            x, y = next(iterator)
            with tf.GradientTape() as tape:
                for weight in weights:
                    x = tf.tanh(tf.matmul(x, weight))
                loss = tf.reduce_mean((x - y) ** 2)
            for weight, gradient in zip(weights, tape.gradient(loss, weights)):
                weight.assign_sub(0.1 * gradient)
            return loss

        step.__name__ = f"ending_step_{next(_numbers)}_"
        return tf.function(step), [*weights, steps]

    def run(step, variables):
        iterator = iter(dataset(length=True))
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                step(iterator)
        return [variable.numpy().tobytes() for variable in variables]

    expected = run(*make())
    lms.enable("min")
    step, variables = make()
    assert run(step, variables) == expected
    assert reports_on(step)[-1].status in ("rewritten", "fits")
