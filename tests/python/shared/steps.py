"""Training steps that are over their budget, and the check that lms changes nothing in them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import lms
import tensorflow as tf

LAYERS, WIDTH, BATCH = 5, 64, 512
TILE = BATCH * WIDTH * 4  # bytes of an activation
_numbers = itertools.count()


def weights(count: int = LAYERS, shape=(WIDTH, WIDTH), dtype=tf.float32) -> list[tf.Variable]:
    rng = tf.random.Generator.from_seed(7)
    return [tf.Variable(tf.cast(rng.normal(shape) / WIDTH**0.5, dtype)) for _ in range(count)]


def momentum_step(weights: list, slots: list, x: tf.Tensor) -> Callable:
    """Trains a chain of dense layers; each slot is assigned a new value in each step."""

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            y = chain(x, weights)
            loss = tf.reduce_sum(y * y)
        for weight, slot, gradient in zip(weights, slots, tape.gradient(loss, weights)):
            slot.assign(0.9 * slot - 1e-4 * gradient)
            weight.assign_add(slot)
        return loss

    return step


def inputs() -> tf.Tensor:
    return tf.random.Generator.from_seed(8).normal([BATCH, WIDTH])


def chain(x: tf.Tensor, layers: list) -> tf.Tensor:
    for layer in layers:
        x = tf.tanh(tf.matmul(x, layer))
    return x


def named(step: Callable) -> Callable:
    """A tf.function whose reports can be told from the others'."""
    step.__name__ = f"rule_{next(_numbers)}_"
    return tf.function(step)


def descend(tape: tf.GradientTape, loss: tf.Tensor, variables: list[tf.Variable]) -> None:
    for variable, gradient in zip(variables, tape.gradient(loss, variables)):
        variable.assign_sub(0.1 * tf.cast(gradient, variable.dtype))


def check(step: Callable, *args, memory_budget: str = "min") -> lms.Report:
    """Rewritten, lower, and every output and variable equal."""
    function = step if hasattr(step, "python_function") else named(step)
    result = lms.verify(function, *args, memory_budget=memory_budget)
    assert result.ok and result.repeatable, str(result)
    assert result.report is not None
    assert result.report.status == "rewritten", result.report.reason
    assert result.report.peak_after_bytes < result.report.peak_before_bytes
    return result.report
