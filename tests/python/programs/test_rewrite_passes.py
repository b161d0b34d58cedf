"""A rewrite among the other passes: it survives them, happens once, and really lowers the peak."""

import re

import lms
import numpy as np
import pytest
import tensorflow as tf
from helpers import lms_nodes, optimized_nodes, optimized_ops, reports_on
from steps import BATCH, LAYERS, TILE, WIDTH, chain, check, descend, inputs, named, weights

# ---- Other passes ----


@pytest.mark.parametrize("iterations", ["ONE", "TWO"])
def test_the_copies_survive_every_pass_and_are_made_once(iterations):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        y = v1.get_variable("y", [BATCH, WIDTH], use_resource=True, trainable=False)
        variables = [
            v1.get_variable(f"w{i}", [WIDTH, WIDTH], use_resource=True) for i in range(LAYERS)
        ]
        loss = tf.reduce_mean(chain(y, variables) ** 2)
        update = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = v1.global_variables_initializer()
    config = v1.ConfigProto()
    rewriter = config.graph_options.rewrite_options
    rewriter.meta_optimizer_iterations = getattr(rewriter, iterations)
    config = lms.configure(config, memory_budget="min") or config
    options, metadata = v1.RunOptions(output_partition_graphs=True), v1.RunMetadata()
    with v1.Session(graph=graph, config=config) as session:
        session.run(init)
        lms.clear_reports()
        session.run([loss, update], options=options, run_metadata=metadata)
    (report,) = lms.reports()
    assert report.status == "rewritten", report.reason
    ran = [node.name for part in metadata.partition_graphs for node in part.node]
    # (What is made of constants alone, TensorFlow folds into a constant before it runs the graph.)
    copied = [
        d["op"]
        for d in report.decisions
        if d["kind"] == "recompute" and d["op_type"] in ("MatMul", "Tanh")
    ]
    assert copied
    # Each copy and each original is there when the graph runs, once.
    for name in set(copied):
        assert ran.count(name) == 1
        copy = re.compile(rf"lms/recompute/\d+/{re.escape(name)}")
        assert sum(copy.fullmatch(other) is not None for other in ran) == copied.count(name)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_element_wise_ops_that_follow_each_other_run_as_one(dtype):
    """As a batch norm of Keras 3 is: a factor and an offset for each channel."""
    layers = [tf.Variable(tf.cast(layer, dtype)) for layer in weights()]
    x = tf.cast(inputs(), dtype)
    scales = [tf.Variable(tf.linspace(tf.cast(0.5, dtype), 2.0, WIDTH)) for _ in layers]

    def step():
        with tf.GradientTape() as tape:
            y = x
            for layer, scale in zip(layers, scales):
                y = tf.nn.relu(tf.matmul(y, layer) * scale + (0.1 - scale))
            loss = tf.reduce_mean(y**2)
        descend(tape, loss, [*layers, *scales])
        return loss

    check(step)
    function = named(step)
    with lms.enabled("min"):
        fused = [name for name, op in optimized_ops(function) if op == "LmsElementwise"]
    copies = [name for name in fused if name.startswith("lms/")]
    own = [name for name in fused if name.startswith("add")]
    assert len(copies) >= LAYERS // 2 and len(own) >= LAYERS // 2
    assert all(re.match(r"lms/recompute/\d+/add", name) for name in copies)


def test_a_function_is_rewritten_once_however_often_it_is_optimised():
    layers, x = weights(), inputs()

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(chain(x, layers) ** 2)
        descend(tape, loss, layers)
        return loss

    function = named(step)
    lms.enable("min")
    first = lms_nodes(function)
    assert first and lms_nodes(function) == first
    assert not [name for name in first if name.count("lms/") > 1]
    originals = optimized_nodes(function)
    assert len(originals) == len(set(originals))


def test_a_model_called_lms_is_rewritten_like_any_other():
    layers, x = weights(), inputs()

    def step():
        with tf.GradientTape() as tape:
            with tf.name_scope("lms"):
                y = chain(x, layers)
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    check(step)


def test_maps_of_a_data_set_compute_what_they_did():
    data = tf.data.Dataset.range(3).map(
        lambda i: chain(tf.random.stateless_normal([BATCH, WIDTH], [i, i]), weights_constant)
    )
    stock = [each.numpy() for each in data]
    lms.enable("min")
    for one, other in zip(stock, data):
        np.testing.assert_array_equal(one, other.numpy())


weights_constant = [np.eye(WIDTH, dtype=np.float32)] * 3


# ---- What Grappler's own recomputation does not achieve ----


def test_the_measured_peak_of_a_relu_chain_goes_down():
    """MatMul+Relu layers of 2 MiB each: Grappler's own pass leaves this peak where it is."""
    layers, count = weights(16), 16
    x = tf.random.Generator.from_seed(8).normal([16 * BATCH, WIDTH])

    def step():
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                y = tf.nn.relu(tf.matmul(y, layer))
            loss = tf.reduce_mean(y * y)
        return loss, tape.gradient(loss, layers)

    def peak(function):
        function()
        base = lms.memory.bytes_in_use()
        lms.memory.reset_peak()
        results = tf.nest.map_structure(lambda t: t.numpy(), function())
        return lms.memory.peak_bytes() - base, results

    lms.memory.reset_peak()
    stock_peak, stock = peak(named(step))
    lms.enable("50%")
    function = named(step)
    our_peak, ours = peak(function)
    assert reports_on(function)[-1].status == "rewritten"
    assert stock_peak > count * 16 * TILE  # all activations at once
    assert our_peak < 0.55 * stock_peak
    tf.nest.map_structure(np.testing.assert_array_equal, stock, ours)
