"""Training steps that swapping is tried on: small, over their budget, of ordinary TensorFlow.

`make(name)` builds one from scratch, always with the same weights and data. `train(name, steps,
directory)` runs it, stock without a directory, else at half of its activation peak by swapping
alone, and returns what there is to compare as plain data. Run as a program it writes one JSON
line per step named, for children with one thread of each kind.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

import keras
import lms
import numpy as np
import tensorflow as tf
from lms._settings.swap_options import grouped

layers = keras.layers
# Another order of its operations is enough for a recurrent network at half; the least for a branch
# is 62%, as both sides of it count as taken. Most of what the step in float16 takes is the patches
# that a single gradient of a convolution holds.
BUDGETS = {"unrolled_rnn": "30%", "branch": "70%", "mixed_precision": "90%"}


@dataclasses.dataclass
class Step:
    """`run` takes one step and returns the loss; `variables` is all that it changes."""

    run: Callable[[], Any]
    variables: list[Any]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def integers(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, high, size=shape).astype("int32")


def keras_step(model: keras.Model, inputs: np.ndarray, labels: np.ndarray) -> Step:
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    data = tf.constant(inputs), tf.constant(labels)

    @tf.function
    def step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(inputs, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return Step(lambda: step(*data), list(model.variables) + list(optimizer.variables))


def cnn_model() -> keras.Model:
    inputs = x = keras.Input((32, 32, 3))
    for channels in (16, 16, 32, 32):
        x = layers.Conv2D(channels, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    return keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def cnn() -> Step:
    return keras_step(cnn_model(), normal(32, 32, 32, 3), integers(10, 32))


def transformer() -> Step:
    inputs = keras.Input((64,), dtype="int32")
    x = layers.Embedding(100, 64)(inputs)
    for _ in range(3):
        attended = layers.MultiHeadAttention(4, 16, dropout=0.1)(x, x)
        x = layers.LayerNormalization()(x + layers.Dropout(0.1)(attended))
        mixed = layers.Dense(64)(layers.Dense(256, activation="gelu")(x))
        x = layers.LayerNormalization()(x + layers.Dropout(0.1)(mixed))
    model = keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))
    return keras_step(model, integers(100, 16, 64), integers(10, 16))


def mixed_precision() -> Step:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return keras_step(cnn_model(), normal(16, 32, 32, 3), integers(10, 16))
    finally:
        keras.config.set_dtype_policy(before)


def sgd(weights: list[tf.Variable], loss_of: Callable[[], tf.Tensor]) -> Step:
    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of()
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.1 * gradient)
        return loss

    return Step(step, weights)


def squares(count: int, width: int) -> list[tf.Variable]:
    return [tf.Variable(normal(width, width, seed=i) / width**0.5) for i in range(count)]


def chain(x: tf.Tensor, weights: list[tf.Variable]) -> tf.Tensor:
    for weight in weights:
        x = tf.tanh(tf.matmul(x, weight))
    return x


def dense() -> Step:
    """Activations of 1 MiB each."""
    weights, x = squares(10, 128), tf.constant(normal(2048, 128))

    def loss() -> tf.Tensor:
        y = chain(x, weights)
        return tf.reduce_mean(y * y)

    return sgd(weights, loss)


def masks() -> Step:
    """int32 indices and bool masks that the backward pass wants again."""
    weights, x = squares(6, 128), tf.constant(normal(2048, 128))

    def loss() -> tf.Tensor:
        y = x
        for number, weight in enumerate(weights):
            y = tf.matmul(y, weight)
            keep = tf.cast(y * 1000.0, tf.int32) % 3 != number % 3
            rows = tf.math.floormod(tf.cast(y[:, 0] * 1000.0, tf.int32), 2048)
            y = tf.where(keep, y, 0.1 * tf.gather(y, rows))
        return tf.reduce_mean(y * y)

    return sgd(weights, loss)


def accumulation() -> Step:
    """A tf.while_loop over parts of the batch, each with its own forward and backward pass."""
    weights, x = squares(8, 128), tf.constant(normal(4, 2048, 128))

    @tf.function
    def step() -> tf.Tensor:
        def body(i: tf.Tensor, total: tf.Tensor, sums: list[tf.Tensor]) -> Any:
            with tf.GradientTape() as tape:
                y = chain(x[i], weights)
                loss = tf.reduce_mean(y * y)
            gradients = tape.gradient(loss, weights)
            return i + 1, total + loss, [a + b for a, b in zip(sums, gradients)]

        start = [tf.zeros_like(weight) for weight in weights]
        _, total, sums = tf.while_loop(
            lambda i, *_: i < 4, body, [tf.constant(0), tf.constant(0.0), start]
        )
        for weight, gradient in zip(weights, sums):
            weight.assign_sub(0.02 * gradient)
        return total

    return Step(step, weights)


def branch() -> Step:
    """A tf.cond: all layers are trained in every second step, the last two in the others."""
    weights, x = squares(8, 128), tf.constant(normal(2048, 128))
    number = tf.Variable(0)

    @tf.function
    def step() -> tf.Tensor:
        def gradients(trained: list[tf.Variable]) -> list[tf.Tensor]:
            with tf.GradientTape() as tape:
                y = chain(x, trained)
                loss = tf.reduce_mean(y * y)
            zeros = tf.UnconnectedGradients.ZERO
            return [loss, *tape.gradient(loss, weights, unconnected_gradients=zeros)]

        loss, *found = tf.cond(
            tf.equal(number % 2, 0), lambda: gradients(weights), lambda: gradients(weights[-2:])
        )
        for weight, gradient in zip(weights, found):
            weight.assign_sub(0.1 * gradient)
        number.assign_add(1)
        return loss

    return Step(step, [*weights, number])


def unrolled_rnn(length: int = 60) -> Step:
    cell, inward = tf.Variable(normal(128, 128) / 12), tf.Variable(normal(64, 128, seed=2) / 8)
    x = tf.constant(normal(length, 256, 64))

    def loss() -> tf.Tensor:
        state = tf.zeros([256, 128])
        total = tf.constant(0.0)
        for i in range(length):
            state = tf.tanh(tf.matmul(state, cell) + tf.matmul(x[i], inward))
            total += tf.reduce_mean(state * tf.nn.sigmoid(state))
        return total

    return sgd([cell, inward], loss)


def keras_fit() -> Step:
    """Four steps a call: Keras puts them into a loop."""
    model = cnn_model()
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss_of, steps_per_execution=4)
    inputs, labels = normal(256, 32, 32, 3), integers(10, 256)

    def run() -> float:
        history = model.fit(inputs, labels, batch_size=32, shuffle=False, verbose=0)
        return history.history["loss"][0]

    return Step(run, list(model.variables))


class Interruption:
    """Does nothing until it is told to; knows what was stored when it did something."""

    def __init__(self) -> None:
        self.action: Callable[[], None] | None = None
        self.stored = 0

    def __call__(self) -> None:
        if self.action is not None:
            self.stored = lms.swap_statistics().stored_bytes
            self.action()


def interrupted(layers_before: int, act: Callable[[], None]) -> Step:
    """The dense step, which calls `act` in its forward pass, after so many of its ten layers."""
    weights, x = squares(10, 128), tf.constant(normal(2048, 128))

    def call() -> np.ndarray:
        act()
        return np.zeros([], np.float32)

    def loss() -> tf.Tensor:
        y = chain(x, weights[:layers_before])
        with tf.control_dependencies([y]):
            gate = tf.numpy_function(call, [], tf.float32)
        with tf.control_dependencies([gate]):
            y = chain(tf.identity(y), weights[layers_before:])
        return tf.reduce_mean(y * y)

    return sgd(weights, loss)


MODELS: dict[str, Callable[[], Step]] = {
    "cnn": cnn,
    "transformer": transformer,
    "mixed_precision": mixed_precision,
    "dense": dense,
    "masks": masks,
    "accumulation": accumulation,
    "branch": branch,
    "unrolled_rnn": unrolled_rnn,
    "keras_fit": keras_fit,
}


def make(name: str) -> Step:
    keras.utils.set_random_seed(3)
    return MODELS[name]()


def swapping(directory: Any, **options: Any) -> contextlib.AbstractContextManager[None]:
    """lms.enabled() for swapping alone into `directory`; nothing where that is None.

    The way there is given, not measured, for the plan to be the same each time.
    """
    if directory is None:
        return contextlib.nullcontext()
    chosen = {"memory_budget": "50%", "recompute": False, "swap_to": str(directory)}
    if options.get("swap", True):
        options = {"swap_out_bandwidth": "1GB", "swap_in_bandwidth": "1GB", **options}
    return lms.enabled(**grouped({**chosen, "replan": False, **options}))


def digest(variables: list[Any]) -> list[str]:
    return [hashlib.sha256(v.numpy().tobytes()).hexdigest()[:16] for v in variables]


def largest_report() -> lms.Report:
    return max(lms.reports(), key=lambda report: report.peak_before_bytes)


def train(name: str, steps: int, directory: Any = None) -> dict[str, Any]:
    gc.collect()  # the step before this one leaves no trace in what is measured
    step = make(name)
    lms.clear_reports()
    losses, peaks, moved = [], [], []
    with swapping(directory, memory_budget=BUDGETS.get(name, "50%")):
        for _ in range(steps):
            lms.memory.reset_peak()
            resident, before = lms.memory.bytes_in_use(), lms.swap_statistics()
            losses.append(float(step.run()).hex())
            after = lms.swap_statistics()
            peaks.append(lms.memory.peak_bytes() - resident)
            moved.append(
                [after.written_bytes - before.written_bytes, after.read_bytes - before.read_bytes]
            )
    result = {"losses": losses, "peaks": peaks, "moved": moved, "digest": digest(step.variables)}
    if directory is not None:
        result["report"] = json.loads(largest_report().to_json())
        result["stored_bytes"] = lms.swap_statistics().stored_bytes
    return result


def main() -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    directory, steps, *names = sys.argv[1:]
    for name in names:
        stock, swapped = train(name, int(steps)), train(name, int(steps), directory)
        ways = {"name": name, "stock": stock, "swapped": swapped}
        if any(stock[what] != swapped[what] for what in ("losses", "digest")):
            again = train(name, int(steps))
            ways["repeats"] = all(stock[what] == again[what] for what in ("losses", "digest"))
        print(json.dumps(ways), flush=True)


if __name__ == "__main__":
    main()
