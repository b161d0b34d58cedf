"""What a step does besides: prints, checks, summaries, Python, random numbers, variables."""

from __future__ import annotations

import lms
import numpy as np
import pytest
import tensorflow as tf
from forms import alone, compare, rewritten
from helpers import reports_on
from steps import BATCH, LAYERS, WIDTH, chain, descend, inputs, named, weights


def trained(act, layers=None):
    """A step on layers, with act(y, i) applied to each of their results."""
    layers = layers or weights()

    def step(x):
        with tf.GradientTape() as tape:
            y = x
            for i, layer in enumerate(layers):
                y = act(tf.tanh(tf.matmul(y, layer)), i)
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    return step


def test_prints_and_summaries_happen_once(capfd, tmp_path):
    writer = tf.summary.create_file_writer(str(tmp_path))

    def look(y, i):
        tf.print("layer", i, tf.reduce_sum(y) > -1e9)
        tf.summary.write(f"mean_{i}", tf.reduce_mean(y), step=0)
        return y

    train = trained(look)

    def step(x):
        with writer.as_default():
            return train(x)

    rewritten(step, inputs())
    writer.flush()
    # Two calls without lms and two with it.
    assert capfd.readouterr().err.count("layer 3 1") == 4
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert written.count(b"mean_3") == 4


def test_checks_of_activations_hold_them():
    """A check's branch, and one that hands its tensor on, keep what they check."""

    def checked(y, i):
        y = tf.debugging.check_numerics(y, "not finite")
        tf.debugging.assert_less_equal(tf.abs(y), 1.0)
        return y

    _, _, report = compare(trained(checked), inputs())
    assert report.status in ("fits", "rewritten"), str(report)  # at most in another order
    assert not [
        d
        for d in report.decisions
        if d["op_type"] in ("MatMul", "Tanh") and d["kind"] == "recompute"
    ]
    kept = {item["reason"] for item in report.kept}
    assert any("CheckNumerics" in reason or "control flow" in reason for reason in kept), kept


def test_checks_of_single_numbers():
    def checked(y, i):
        tf.debugging.assert_less(tf.reduce_max(y), 2.0)
        return y

    rewritten(trained(checked), inputs())


@pytest.mark.parametrize("wrap", ["py_function", "numpy_function"])
def test_python_that_looks_at_activations(wrap):
    """Called once for each layer and step, with the tensor of the step."""
    seen = []

    def look(y):
        seen.append(float(np.asarray(y)[0, 0]))
        return np.float32(0.5)

    call = getattr(tf, wrap)

    def act(y, i):
        # set_shape() would tell Python of the shape, but not the graph.
        return y + tf.reshape(call(look, [tf.stop_gradient(y)], tf.float32), [])

    rewritten(trained(act), inputs())
    assert len(seen) == 4 * LAYERS and seen[: 2 * LAYERS] == seen[2 * LAYERS :]


def test_python_in_the_forward_pass_has_unknown_sizes():
    """What it returns has no shape in the graph: the report says so."""
    step = trained(lambda y, i: tf.ensure_shape(tf.py_function(tf.sin, [y], tf.float32), y.shape))
    _, _, report = compare(step, inputs())
    assert report.status in ("rewritten", "fits")
    assert report.status == "fits" or not any("PyFunc" in d["op_type"] for d in report.decisions)


def drawn(kind):
    generator = tf.random.Generator.from_seed(5)
    shape = [BATCH, WIDTH]
    return {
        "normal": lambda y, i: y + tf.random.normal(shape, seed=i),
        "dropout": lambda y, i: tf.nn.dropout(y, 0.3, seed=i),
        "generator": lambda y, i: y * tf.cast(generator.uniform(shape) > 0.3, tf.float32),
        "stateless": lambda y, i: tf.nn.experimental.stateless_dropout(y, 0.3, seed=[1, i]),
        "shuffle": lambda y, i: tf.gather(y, tf.random.shuffle(tf.range(BATCH), seed=i)),
    }[kind]


@pytest.mark.parametrize("kind", ["normal", "dropout", "generator", "stateless", "shuffle"])
def test_random_numbers(kind):
    report = rewritten(trained(drawn(kind)), inputs())
    again = {d["op_type"] for d in report.decisions if d["kind"] == "recompute"}
    assert not again & {"RandomStandardNormal", "RandomUniform", "RandomShuffle"}


def test_moving_averages_and_values_before_and_after():
    layers = weights()
    averages, count = [tf.Variable(layer) for layer in layers], tf.Variable(0.0)

    def step(x):
        before = [tf.reduce_sum(layer) for layer in layers]
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(chain(x, layers) ** 2)
        descend(tape, loss, layers)
        count.assign_add(1.0)
        decay = tf.minimum(0.99, (1 + count) / (10 + count))
        for average, layer in zip(averages, layers):
            average.assign(decay * average + (1 - decay) * layer)
        after = [tf.reduce_sum(layer) for layer in layers]
        return loss, before, after, tf.reduce_mean(chain(x, averages))

    rewritten(step, inputs())


def test_weights_that_change_between_the_layers():
    layers = weights()

    def decay(y, i):
        layers[i].assign(layers[i] * 0.9)
        return y

    rewritten(trained(decay, layers), inputs())


def test_control_dependencies_on_assignments():
    gain = tf.Variable(1.0)

    def act(y, i):
        with tf.control_dependencies([gain.assign(gain * 1.5)]):
            y = tf.tanh(y * gain.read_value())
        with tf.control_dependencies([y]):
            gain.assign_sub(0.25)
        return y

    rewritten(trained(act), inputs())


def test_tables_and_strings():
    table, layers = weights(1, [100, WIDTH])[0], weights()
    words = tf.constant([f"W{i % 60}" for i in range(BATCH)])
    keys = tf.constant([f"w{i}" for i in range(50)])
    known = tf.lookup.KeyValueTensorInitializer(keys, tf.range(50))
    lookup = tf.lookup.StaticHashTable(known, 99)

    def step(words):
        with tf.GradientTape() as tape:
            ids = tf.ensure_shape(lookup.lookup(tf.strings.lower(words)), [BATCH])
            hashed = tf.strings.to_hash_bucket_fast(words, 100)
            y = tf.gather(table, ids) + tf.gather(table, hashed)
            loss = tf.reduce_mean(chain(y, layers) ** 2)
        descend(tape, loss, layers)
        return loss, tf.strings.join([words[:2], tf.as_string(ids[:2])])

    rewritten(step, words)


def test_a_queue_in_the_step_is_left_alone():
    layers, queue = weights(), tf.queue.FIFOQueue(4, [tf.float32], shapes=[[]])
    train = trained(lambda y, i: y, layers)

    def step(x):
        queue.enqueue(train(x))
        return queue.dequeue()

    alone(step, inputs(), status="skipped", reason="QueueEnqueue.*may wait for another op")


def test_a_collective_in_the_step_is_left_alone():
    layers = weights()

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(chain(x, layers) ** 2)
        for i, (layer, slope) in enumerate(zip(layers, tape.gradient(loss, layers))):
            keys = {"group_size": 1, "group_key": 7, "instance_key": 70 + i}
            how = {"merge_op": "Add", "final_op": "Id", "subdiv_offsets": [0]}
            layer.assign_sub(0.1 * tf.raw_ops.CollectiveReduce(input=slope, **keys, **how))
        return loss

    alone(step, inputs(), status="skipped", reason="CollectiveReduce.*may wait for another op")


def test_functions_of_a_dataset_are_not_rewritten():
    """Only the step is: nothing of map, filter and interleave."""
    layers, x = weights(), inputs()

    def make():
        data = tf.data.Dataset.range(4).map(lambda i: chain(x, layers) + tf.cast(i, tf.float32))
        data = data.filter(lambda x: tf.reduce_sum(tf.sin(x)) < 1e9)
        return data.interleave(lambda x: tf.data.Dataset.from_tensors(tf.tanh(x)), cycle_length=2)

    stock = [batch.numpy() for batch in make()]
    lms.enable("min")
    function = named(trained(lambda y, i: y, layers))
    for one, other in zip(stock, make()):
        np.testing.assert_array_equal(one, other.numpy())
    function(x)
    done = [report for report in lms.reports() if report.status == "rewritten"]
    assert done == reports_on(function)[-1:]
