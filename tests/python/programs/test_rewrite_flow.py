"""A rewrite of steps with control flow, functions and tapes: equal to stock, bit for bit.

Every step is over its budget, so it is really rewritten, and asserted to be.
"""

import numpy as np
import pytest
import tensorflow as tf
from steps import BATCH, LAYERS, WIDTH, chain, check, descend, inputs, weights

# ---- Control flow ----


def test_a_while_loop_inside_the_step():
    layers, x = weights(), inputs()

    def step(rounds):
        with tf.GradientTape() as tape:
            y = chain(x, layers[:2])
            for _ in tf.range(rounds):
                y = tf.tanh(tf.matmul(y, layers[2]))
            y = chain(y, layers[3:] * 2)
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    check(step, tf.constant(3))


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_inside_the_step(taken):
    layers, x = weights(), inputs()

    def step(flag):
        with tf.GradientTape() as tape:
            y = chain(x, layers[:3])
            if flag:
                y = tf.tanh(tf.matmul(y, layers[3]))
                y = tf.exp(-y)
            else:
                y = tf.sin(y)
            y = chain(y, layers[2:])
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers[:3])
        return loss

    check(step, tf.constant(taken))


def test_a_loop_that_updates_the_variables():
    """No edge may lead from a copy into the loop's frame."""
    layers, x = weights(), inputs()
    frozen = weights()

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(chain(chain(x, frozen), layers) ** 2)
        gradients = tape.gradient(loss, layers)
        for _ in tf.range(3):
            for layer, gradient in zip(layers, gradients):
                layer.assign_sub(0.01 * gradient)
        return loss

    check(step)


@pytest.mark.parametrize("finite", [True, False])
def test_a_branch_that_updates_the_variables(finite):
    """As loss scaling does: the step is left out where a gradient is not finite."""
    layers, x = weights(), inputs()

    def step(factor):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(chain(x, layers) ** 2) * factor
        gradients = tape.gradient(loss, layers)
        if tf.math.is_finite(tf.add_n([tf.reduce_sum(gradient) for gradient in gradients])):
            for layer, gradient in zip(layers, gradients):
                layer.assign_sub(0.01 * gradient)
        return loss

    check(step, tf.constant(1.0 if finite else np.inf))


def test_a_branch_within_a_branch_within_a_loop():
    layers, x = weights(), inputs()

    def step(flag):
        with tf.GradientTape() as tape:
            y = chain(x, layers)
            for i in tf.range(2):
                if flag:
                    if i > 0:
                        y = tf.sin(y)
                        y = tf.exp(-y)
                    else:
                        y = tf.tanh(tf.matmul(y, layers[0]))
            loss = tf.reduce_mean(chain(y, layers) ** 2)
        descend(tape, loss, layers)
        return loss

    check(step, tf.constant(True))


# ---- Tapes, functions and gradients of one's own ----


def test_custom_gradients():
    layers, x = weights(), inputs()

    @tf.custom_gradient
    def squash(y):
        result = tf.tanh(y)
        return result, lambda upstream: tf.clip_by_value(upstream * (1 - result * result), -1, 1)

    def step():
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                y = squash(tf.matmul(y, layer))
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    check(step)


def test_recompute_grad_of_tensorflow_itself():
    layers, x = weights(), inputs()

    def step():
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                block = tf.recompute_grad(lambda y, w=layer: tf.tanh(tf.matmul(tf.sin(y), w)))
                y = block(y)
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    check(step)


def test_functions_called_in_a_step():
    layers, x = weights(), inputs()
    inner = tf.function(lambda y, layer: tf.tanh(tf.matmul(y, layer)))
    outer = tf.function(lambda y, first, second: inner(inner(y, first), second))

    def step():
        with tf.GradientTape() as tape:
            y = outer(outer(x, layers[0], layers[1]), layers[2], layers[3])
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers[:4])
        return loss

    check(step)


def test_a_persistent_tape():
    layers, x = weights(), inputs()

    def step():
        with tf.GradientTape(persistent=True) as tape:
            y = chain(x, layers)
            loss, other = tf.reduce_mean(y * y), tf.reduce_mean(tf.abs(y))
        descend(tape, loss, layers)
        descend(tape, other, layers)
        return loss, other

    check(step)


def test_gradients_of_gradients():
    layers, x = weights(), inputs()

    def step():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(chain(x, layers))
            slope = inner.gradient(y, x)
            loss = tf.reduce_mean((tf.norm(slope, axis=1) - 1) ** 2)
        descend(outer, loss, layers)
        return loss

    check(step)


def test_a_step_that_returns_activations():
    layers, x = weights(), inputs()

    def step():
        with tf.GradientTape() as tape:
            hidden = [x]
            for layer in layers:
                hidden.append(tf.tanh(tf.matmul(hidden[-1], layer)))
            loss = tf.reduce_mean(hidden[-1] ** 2)
        gradients = tape.gradient(loss, layers)
        return {"loss": loss, "second": hidden[2], "flat": tf.reshape(hidden[3], [-1])}, gradients

    report = check(step)
    assert any(kept["reason"] == "returned or preserved by name" for kept in report.kept)


# ---- Types and shapes ----


def test_mixed_precision():
    policy = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        model = tf.keras.Sequential(
            [tf.keras.layers.Dense(WIDTH, "tanh") for _ in range(LAYERS)]
            + [tf.keras.layers.Dense(1, dtype="float32")]
        )
        model.build([BATCH, WIDTH])
    finally:
        tf.keras.mixed_precision.set_global_policy(policy)
    variables = [variable.value for variable in model.trainable_variables]
    x = inputs()

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True) ** 2)
        descend(tape, loss, variables)
        return loss

    check(step)


def test_empty_tensors_integers_and_strings_on_the_side():
    layers, x = weights(), inputs()

    def step(names, none):
        with tf.GradientTape() as tape:
            y = chain(x, layers)
            y = tf.concat([y, tf.tanh(none)], 0)
            order = tf.argsort(y[:, 0])
            loss = tf.reduce_mean(tf.gather(y, order)[:64] ** 2)
        descend(tape, loss, layers)
        hashed = tf.strings.to_hash_bucket_fast(names, 1000)
        return loss, order, hashed, tf.strings.join([names, tf.as_string(order[:2])])

    check(step, tf.constant(["a", "b"]), tf.zeros([0, WIDTH]))


def test_scatters_that_take_over_their_input():
    layers, x = weights(), inputs()
    rows = tf.constant([[1], [5]])

    def step():
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                y = tf.tanh(tf.matmul(y, layer))
                y = tf.tensor_scatter_nd_update(y, rows, 2 * tf.gather_nd(y, rows))
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    check(step)
