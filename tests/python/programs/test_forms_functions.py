"""Functions of all sorts: nested, with attributes, with gradients of their own, in two halves."""

from __future__ import annotations

import collections

import lms
import numpy as np
import pytest
import tensorflow as tf
from forms import alone, compare, rewritten
from helpers import reports_on
from steps import chain, descend, inputs, named, weights


def mean_square(y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(y * y)


def make_train(layers):
    def train(x):
        with tf.GradientTape() as tape:
            loss = mean_square(chain(x, layers))
        descend(tape, loss, layers)
        return loss

    return train


def test_loss_gradients_and_update_in_functions_of_their_own():
    layers = weights()
    loss_of = tf.function(lambda x: mean_square(chain(x, layers)))

    @tf.function
    def gradients(x):
        with tf.GradientTape() as tape:
            loss = loss_of(x)
        return loss, tape.gradient(loss, layers)

    def step(x):
        loss, slopes = gradients(x)
        for layer, slope in zip(layers, slopes):
            layer.assign_sub(0.1 * slope)
        return loss

    rewritten(step, inputs())


OPTIONS = {
    "autograph": {"autograph": False},
    "retracing": {"reduce_retracing": True},
    "attribute": {"experimental_attributes": {"_noinline": True}},  # of the step itself
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_options_of_tf_function(kind):
    train = make_train(weights())
    train.__name__ = f"train_{kind}_"
    rewritten(tf.function(train, **OPTIONS[kind]), inputs())


def test_a_function_that_implements_something():
    """It may not capture variables, so it takes their values."""
    layers = weights()

    @tf.function(experimental_implements="some.block")
    def block(x, *values):
        return chain(x, list(values))

    def step(x):
        with tf.GradientTape() as tape:
            loss = mean_square(block(x, *[layer.read_value() for layer in layers]))
        descend(tape, loss, layers)
        return loss

    rewritten(step, inputs())


def test_a_call_that_is_not_inlined_is_left_alone_and_named():
    body = tf.function(make_train(weights()), experimental_attributes={"_noinline": True})
    said = r"not counting 1 function that TensorFlow runs apart .*leave _noinline out"
    report = alone(lambda x: body(x) + 1, inputs(), status="skipped", reason=said)
    assert any("lms sees nothing" in warning for warning in report.warnings)


def test_a_call_that_is_not_inlined_beside_a_tape():
    layers = weights()
    attributes = {"_noinline": True}
    forward = tf.function(lambda x: chain(x, layers), experimental_attributes=attributes)

    def step(x):
        with tf.GradientTape() as tape:
            loss = mean_square(chain(forward(x), layers))
        descend(tape, loss, layers)
        return loss

    alone(step, inputs(), status="skipped", reason="may wait for another op.*leave _noinline out")


def test_forward_and_backward_in_two_functions():
    """The tape is outside: TensorFlow makes a pair, and the first returns all activations."""
    layers, x = weights(), inputs()

    def halves(x):
        return mean_square(chain(x, layers))

    function = named(halves)

    def step():
        with tf.GradientTape() as tape:
            loss = function(x)
        return [loss.numpy()] + [slope.numpy() for slope in tape.gradient(loss, layers)]

    stock = step()
    lms.enable("min")
    ours = step()
    for one, other in zip(stock, ours):
        np.testing.assert_array_equal(one, other)
    name = function.python_function.__name__
    mine = [report for report in lms.reports() if name in report.function]
    (forward,) = [report for report in mine if report.function.startswith("__forward_")]
    (backward,) = [report for report in mine if "__backward_" in report.function]
    assert forward.status == "fits"
    assert "put forward and backward pass into one tf.function" in forward.reason
    assert backward.status != "failed"


def test_a_function_that_returns_its_activations():
    def step(x):
        hidden = [x]
        for layer in layers:
            hidden.append(tf.tanh(tf.matmul(hidden[-1], layer)))
        return hidden[1:]

    layers = weights()
    alone(step, inputs(), status="fits", reason="are results that the function returns")


def test_a_custom_gradient_with_variables():
    layers = weights()

    def block(layer):
        @tf.custom_gradient
        def dense(y):
            z = tf.tanh(tf.matmul(y, layer))

            def gradient(upstream, variables=None):
                d = upstream * (1 - z * z)
                slopes = [tf.matmul(y, d, transpose_a=True)]
                return tf.matmul(d, layer, transpose_b=True), slopes

            return z, gradient

        return dense

    def step(x):
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                y = block(layer)(y)
            loss = mean_square(y)
        descend(tape, loss, layers)
        return loss

    rewritten(step, inputs())


def test_recompute_grad_around_nested_functions():
    layers = weights()

    def step(x):
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                inner = tf.function(lambda z, w=layer: tf.tanh(tf.matmul(tf.sin(z), w)))
                y = tf.recompute_grad(inner)(y)
            loss = mean_square(y)
        descend(tape, loss, layers)
        return loss

    rewritten(step, inputs())


def test_a_module():
    class Net(tf.Module):
        def __init__(self):
            super().__init__()
            self.layers = weights()

        @tf.function
        def train(self, x):
            return make_train(self.trainable_variables)(x)

    net = Net()
    rewritten(lambda x: net.train(x), inputs())


def test_structures_aliases_and_captured_tensors():
    """One tensor passed twice, returned as it is and under other shapes, and captured."""
    Pair = collections.namedtuple("Pair", "a b")
    layers, kept = weights(), inputs()

    def step(d, same):
        with tf.GradientTape() as tape:
            y = chain(d["x"][0], layers) + kept
            loss = mean_square(y - same)
        descend(tape, loss, layers)
        pair = Pair(loss * 2, [same, None, (tf.reshape(same, [-1]),)])
        return {"loss": loss, "pair": pair, "flat": tf.identity(d["x"][0]), "captured": kept}

    rewritten(step, {"x": [kept]}, kept)


def test_a_part_of_an_activation_that_is_returned():
    """Rows share their tensor's storage, which no prediction counts: only the rest holds."""
    layers = weights()

    def step(x):
        with tf.GradientTape() as tape:
            y = chain(x, layers)
            loss = mean_square(y)
        descend(tape, loss, layers)
        return loss, tf.sparse.from_dense(y[:1]), tf.RaggedTensor.from_row_lengths(y[:2, 0], [1, 1])

    stock, ours, report = compare(step, inputs())
    assert report.status == "rewritten" and ours.peak < stock.peak


def test_a_function_that_raises_in_the_middle():
    """What may have run by then has run: each variable is as before or as after the step."""
    layers, x = weights(), inputs()

    def step(x, limit):
        with tf.GradientTape() as tape:
            y = chain(x, layers)
            tf.debugging.assert_less(tf.reduce_max(y), limit)
            loss = mean_square(y)
        descend(tape, loss, layers)
        return loss

    function = named(step)
    rewritten(function, x, tf.constant(2.0))
    before = [layer.numpy() for layer in layers]
    function(x, tf.constant(2.0))
    after = [layer.numpy() for layer in layers]
    for layer, value in zip(layers, before):
        layer.assign(value)
    lms.enable("min")
    with pytest.raises(tf.errors.InvalidArgumentError):
        function(x, tf.constant(-2.0))
    assert reports_on(function)[-1].status == "rewritten"
    for layer, old, new in zip(layers, before, after):
        value = layer.numpy()
        assert np.array_equal(value, old) or np.array_equal(value, new)
        layer.assign(old)
    function(x, tf.constant(2.0))
    for layer, new in zip(layers, after):
        np.testing.assert_array_equal(layer.numpy(), new)
