"""Hints on regions of a program: functions, loops, branches, gradients of one's own."""

from __future__ import annotations

import lms
import pytest
import tensorflow as tf
from hint_steps import AMPLE, recomputed, verified
from lms._tf import hints as _tf_hints
from steps import TILE, descend, inputs, named, weights


def tf_context():
    from tensorflow.python.eager import context

    return context.context()


# ---- Regions ----


def test_a_region_is_recomputed_but_for_its_results():
    layers, x = weights(9), inputs()

    def step():
        with tf.GradientTape() as tape:
            y = x
            for i in range(3):
                with lms.recompute():
                    for layer in layers[3 * i : 3 * i + 3]:
                        y = tf.tanh(tf.matmul(y, layer))
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    report = verified(step)
    again = set(recomputed(report))
    # The results are Tanh_2, _5 and _8; the last region's are read again at once.
    assert {"Tanh", "Tanh_1", "Tanh_3", "Tanh_4"} <= again
    assert not {"Tanh_2", "Tanh_5"} & again
    assert report.peak_after_bytes <= report.peak_before_bytes - 3 * TILE
    (hint,) = report.hints  # one line of the program
    assert hint["tensors"] >= 4
    assert "recompute test_hints_regions.py:" in report.table()


def test_the_innermost_region_counts():
    run_layers, x = weights(6), inputs()

    def step():
        with tf.GradientTape() as tape:
            y = x
            with lms.recompute():
                for i, layer in enumerate(run_layers):
                    if i == 2:
                        with lms.keep():
                            y = tf.tanh(tf.matmul(y, layer))
                    else:
                        y = tf.tanh(tf.matmul(y, layer))
            y = tf.sin(y)
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, run_layers)
        return loss

    report = verified(step)
    again = set(recomputed(report))
    assert {"Tanh_1", "Tanh_3"} <= again and "Tanh_2" not in again
    assert sorted(hint["kind"] for hint in report.hints) == ["keep", "recompute"]


def test_a_region_as_a_decorator_and_the_tape_within():
    layers, x = weights(4), inputs()

    @lms.recompute()
    def step():
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                y = tf.tanh(tf.matmul(y, layer))
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    function = named(lambda: step())
    graph = function.get_concrete_function().graph
    marked = [op.name for op in graph.get_operations() if "_lms_hint" in op.node_def.attr]
    assert "Tanh" in marked
    assert not [name for name in marked if "gradient_tape" in name]
    assert set(recomputed(verified(function))) >= {"Tanh", "Tanh_1"}


def test_types_of_operations_are_kept_in_a_region():
    layers, x = weights(5), inputs()

    def step():
        with tf.GradientTape() as tape:
            y = x
            with lms.recompute(keep_ops=["MatMul"]):
                for layer in layers:
                    y = tf.exp(tf.sin(tf.matmul(y, layer)))
            loss = tf.reduce_mean(y * tf.cos(y))
        descend(tape, loss, layers)
        return loss

    report = verified(step)
    assert recomputed(report)
    assert not [name for name in recomputed(report) if "MatMul" in name]
    assert {hint["kind"] for hint in report.hints} == {"keep", "recompute"}
    with pytest.raises(TypeError, match="types of operations"):
        lms.recompute(keep_ops=[3])
    with pytest.raises(TypeError, match="not with tensors"):
        lms.recompute(x, keep_ops=["MatMul"])


def test_fused_operations_keep_their_hints():
    """Conv2D, BiasAdd and Relu become one node that has no attribute of theirs."""
    random = tf.random.Generator.from_seed(1)
    filters = [tf.Variable(random.normal([3, 3, 8, 8]) / 9) for _ in range(3)]
    biases = [tf.Variable(tf.zeros([8]) + 0.1) for _ in filters]
    images = tf.random.Generator.from_seed(5).normal([4, 24, 24, 8])

    def step():
        with tf.GradientTape() as tape:
            y = images
            for i, (kernel, bias) in enumerate(zip(filters, biases)):
                y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(y, kernel, 1, "SAME"), bias))
                y = lms.recompute(y) if i < 2 else y
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, [*filters, *biases])
        return loss

    report = verified(step)
    assert recomputed(report) == ["Relu", "Relu_1"]
    types = {d["op_type"] for d in report.decisions if d["kind"] == "recompute"}
    assert types == {"_FusedConv2D"}


# ---- Functions in functions, loops and branches ----


def test_hints_in_functions_that_are_called():
    layers, x = weights(6), inputs()

    @tf.function
    def block(y, layer):
        return lms.recompute(tf.tanh(tf.matmul(y, layer)))

    def step():
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                y = block(y, layer)
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    report = verified(step)
    assert report.status == "rewritten"
    assert len(recomputed(report)) >= 4


def trained_once(layers, x):
    with tf.GradientTape() as tape:
        y = x
        for layer in layers:
            y = lms.recompute(tf.tanh(tf.matmul(y, layer)))
        loss = tf.reduce_mean(y * y)
    descend(tape, loss, layers)
    return loss


def test_hints_in_a_training_loop():
    layers, x = weights(6), inputs()

    def step():
        loss = tf.constant(0.0)
        for _ in tf.range(3):
            loss = trained_once(layers, x)
        return loss

    report = verified(step)
    assert report.status == "rewritten", report.reason
    assert len(recomputed(report)) >= 4


def test_hints_in_a_branch():
    layers, x = weights(6), inputs()

    def step(flag):
        loss = tf.constant(0.0)
        if flag > 0:
            loss = trained_once(layers, x)
        return loss

    function = named(step)
    result = lms.verify(function, tf.constant(1.0), memory_budget=AMPLE)
    assert result.ok and result.repeatable, str(result)
    assert result.report.status == "rewritten", result.report.reason
    assert len(recomputed(result.report)) >= 4


def test_custom_gradients_and_gradients_are_not_marked():
    @tf.custom_gradient
    def double(a):
        return 2.0 * a, lambda upstream: tf.sin(upstream) * 2.0

    @tf.function
    def function(a):
        with tf.GradientTape() as tape:
            tape.watch(a)
            with lms.recompute():
                b = double(tf.exp(a))
            c = tf.reduce_sum(b * b)
        return tape.gradient(c, a)

    graph = function.get_concrete_function(tf.ones([3])).graph
    marked = {op.type for op in graph.get_operations() if "_lms_hint" in op.node_def.attr}
    assert "Exp" in marked and "Sin" not in marked


def test_gradients_of_a_graph_are_not_the_regions():
    @tf.function
    def function(a):
        with lms.recompute():
            b = tf.reduce_sum(tf.exp(tf.sin(a)))
            return tf.gradients(b, a)[0]

    graph = function.get_concrete_function(tf.ones([3])).graph
    marked = {op.type for op in graph.get_operations() if "_lms_hint" in op.node_def.attr}
    assert "Exp" in marked and "Cos" not in marked


def test_a_region_of_which_nothing_can_be_recomputed_changes_nothing():
    (layer,), x = weights(1), inputs()

    def step():
        with tf.GradientTape() as tape:
            tape.watch(x)
            made = [tf.sin(x), tf.cos(x)]
            with lms.recompute():
                for _ in range(30):  # AddN may add into a term that nobody else holds
                    made.append(tf.tanh(tf.add_n(made[-20:]) * 0.05))
            loss = tf.reduce_mean(tf.matmul(made[-1], layer))
        return tape.gradient(loss, x)

    report = verified(step)
    assert report.status == "fits", report.reason
    (hint,) = report.hints
    assert hint["tensors"] == 0 and hint["not_followed"] > 0
    assert any("none of its" in warning for warning in report.warnings), report.warnings


def test_functions_that_call_twice_are_read_once(monkeypatch):
    def leaf(a):
        return lms.keep(tf.tanh(a))

    called = tf.function(leaf)
    for _ in range(10):
        called = tf.function(lambda a, inner=called: inner(a) + inner(a * 2.0))
    plain = tf.function(tf.sin)
    for _ in range(10):
        plain = tf.function(lambda a, inner=plain: inner(a) + inner(a * 2.0))
    function = tf.function(lambda a: called(a) + plain(a))
    read = []

    class Context:
        has_function = tf_context().has_function

        @staticmethod
        def get_function_def(name):
            read.append(name)
            return tf_context().get_function_def(name)

    name = function.get_concrete_function(tf.ones([3])).name
    lines = _tf_hints.hints_text(Context, name).splitlines()
    assert len(lines) == 1024 and all(line.startswith("node\t") for line in lines)
    assert len(read) == len(set(read)) == 23
