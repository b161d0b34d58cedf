"""Small programs whose sizes are computed from shapes, for test_shape_arithmetic.py.

Run as a program, with names of cases, it prints for each the bytes that its step is predicted to
take in the order that it seems to run in, and those that it takes, in a process of its own with
one thread of each kind: the peak of a step is then the same every time.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from typing import Any

import keras
import lms
import tensorflow as tf
from keras import layers

BATCH = 24  # not the number that is assumed where nothing is known
ROWS = 5 * BATCH + 12  # full batches and a smaller one

Case = tuple[Callable[..., Any], tf.TensorSpec, int]
FUNCTIONS: dict[str, Callable[[], Case]] = {}
MODELS: dict[str, Callable[[], keras.Model]] = {}


def normal(*shape: int) -> tf.Tensor:
    return tf.random.Generator.from_seed(3).normal(shape)


def function(*shape: int | None, batch: int = BATCH) -> Callable[[Callable], Callable]:
    """A loss of an argument of that shape, of which a step takes the gradient.

    Open dimensions are `batch`. Decorated is what makes of x and of a weight what is summed up.
    """

    def add(body: Callable) -> Callable:
        FUNCTIONS[body.__name__] = lambda: (body, tf.TensorSpec(shape), batch)
        return body

    return add


def model(make: Callable[[], keras.Model]) -> Callable[[], keras.Model]:
    MODELS[make.__name__] = make
    return make


# Of a tf.function with an open batch; `w` is a variable of [64, 64].


@function(None, 50, 64)
def tensordot(x, w):
    return tf.tanh(tf.tensordot(x, w, 1))


@function(None, 50, 64)
def reshape_to_rows(x, w):
    y = tf.tanh(tf.reshape(x, [-1, 64]) @ w)
    return tf.reshape(y, [-1, 50, 8, 8]) * 2.0


@function(None, 50, 64)
def heads(x, w):
    y = tf.reshape(tf.reshape(x, [-1, 64]) @ w, [tf.shape(x)[0], -1, 8, 8])
    y = tf.transpose(y, [0, 2, 1, 3])
    return tf.nn.softmax(tf.matmul(y, y, transpose_b=True))


@function(None, 50, 64)
def repeat(x, w):
    return tf.tanh(tf.repeat(tf.tanh(x * w[0]), 3, axis=1))


@function(None, 16, 64)
def repeat_along_two_axes(x, w):
    y = tf.reshape(tf.tanh(x * w[0]), [-1, 4, 4, 64])
    return tf.tanh(tf.repeat(tf.repeat(y, 2, axis=1), 2, axis=2))


@function(None, 50, 64)
def moments(x, w):
    mean, variance = tf.nn.moments(x * w[0], [0, 1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-3)


@function(None, 50, 64)
def groups(x, w):
    shape = tf.shape(x)
    y = tf.reshape(x * w[0], tf.concat([shape[:2], [8, shape[2] // 8]], 0))
    mean, variance = tf.nn.moments(y, [1, 3], keepdims=True)
    return tf.tanh(tf.reshape((y - mean) * tf.math.rsqrt(variance + 1e-3), shape))


@function(None, 60, 64)
def mask_of_positions(x, w):
    y = x * w[0]
    scores = tf.matmul(y, y, transpose_b=True)
    length = tf.shape(x)[1]
    mask = tf.range(length)[:, None] >= tf.range(length)[None, :]
    return tf.nn.softmax(tf.where(mask[None], scores, tf.fill(tf.shape(scores), -1e9)))


@function(None, 60, 64)
def fill_and_one_hot(x, w):
    shape = tf.shape(x)
    y = x * w[0] + tf.fill([shape[0], 1, 64], 0.5)
    places = tf.one_hot(tf.range(shape[0]) % 30, shape[1])
    return tf.tanh(y * places[:, :, None])


@function(None, 60, 64)
def sequence_mask(x, w):
    lengths = tf.range(tf.shape(x)[0])
    mask = tf.sequence_mask(lengths, tf.shape(x)[1], dtype=tf.float32)
    return tf.tanh(x * w[0] * mask[:, :, None])


@function(None, 60, 64)
def random_on_shape(x, w):
    y = tf.nn.dropout(x * w[0], 0.3)
    return tf.tanh(y + tf.random.normal(tf.shape(y)))


@function(None, 30, 64)
def einsum(x, w):
    y = tf.einsum("btc,cd->btd", x, w)
    return tf.nn.softmax(tf.einsum("bic,bjc->bij", y, y))


@function(None, 16, 16, 8)
def resize(x, w):
    shape = tf.shape(x)
    size = tf.cast(tf.cast(shape[1:3], tf.float32) * 2.0, tf.int32)
    return tf.tanh(tf.image.resize(x * w[0, :8], size))


@function(None, 33, 64)
def pad(x, w):
    missing = -tf.shape(x)[1] % 16
    return tf.tanh(tf.pad(x * w[0], [[0, 0], [0, missing], [0, 0]]))


@function(None, 60, 64)
def split(x, w):
    half = tf.shape(x)[1] // 4
    first, second = tf.split(tf.tanh(x * w[0]), [half, tf.shape(x)[1] - half], axis=1)
    return tf.concat([tf.tanh(second), tf.sin(first)], 1)


@function(None, 60, 64)
def strided_slice(x, w):
    return tf.tanh(tf.tanh(x * w[0])[:, : tf.shape(x)[1] // 2, 1:-1:2])


@function(None, 10, 64)
def tile(x, w):
    return tf.tanh(tf.tile(tf.tanh(x * w[0]), [1, tf.shape(x)[1] // 2, 1]))


@function(None, 1, 64)
def broadcast(x, w):
    return tf.tanh(tf.broadcast_to(x * w[0], [tf.shape(x)[0], 40, 64]))


@function(None, None, 64, batch=40)
def meshgrid(x, w):
    rows, columns = tf.meshgrid(tf.range(tf.shape(x)[0]), tf.range(tf.shape(x)[1]), indexing="ij")
    return tf.tanh(x * w[0] * tf.cast(rows + columns, tf.float32)[..., None])


@function(None, 32, 32, 3)
def patches(x, w):
    y = tf.image.extract_patches(
        x * w[0, :3], [1, 8, 8, 1], [1, 8, 8, 1], [1, 1, 1, 1], padding="VALID"
    )
    return tf.tanh(tf.reshape(y, [tf.shape(y)[0], -1, y.shape[-1]]))


@function(None, 50, 64)
def branch(x, w):
    def rows():
        return tf.tanh(tf.tensordot(x, w, 1))

    return tf.cond(tf.reduce_sum(x) > -1e9, rows, lambda: x * w[0])


@function(None, 30, 64)
def loop(x, w):
    y = x
    for _ in tf.range(3):
        y = tf.tanh(tf.tensordot(y, w, 1))
    return y


@function(None, 30, 64)
def loop_over_time(x, w):
    steps = tf.transpose(x, [1, 0, 2])
    states = tf.TensorArray(tf.float32, tf.shape(steps)[0])
    state = tf.zeros([tf.shape(x)[0], 64])
    for i in tf.range(tf.shape(steps)[0]):
        state = tf.tanh(tf.reshape(steps[i] @ w, tf.shape(state)) + state)
        states = states.write(i, state)
    return tf.sin(tf.transpose(states.stack(), [1, 0, 2]))


@function(None, 50, 64)
def nested_function(x, w):
    @tf.function(input_signature=[tf.TensorSpec([None, None, 64]), tf.TensorSpec([64, 64])])
    def inner(x, w):
        return tf.tanh(tf.tensordot(x, w, 1))

    return inner(inner(x, w), w)


@function(None, 50, 64)
def row_of_batches(x, w):
    """A size that is the product of two open ones, through a sum that broadcasts."""
    y = tf.reshape(x * w[0], [-1])
    y = tf.reshape(y, [tf.size(y) // 64, 64]) + w[1]
    return tf.tanh(tf.reshape(y, tf.stack([tf.reduce_prod(tf.shape(x)[:2]), 64])))


# Of models, trained by `fit` over batches, the last of which is smaller.


def head(x: Any) -> Any:
    return layers.Dense(4)(layers.GlobalAveragePooling1D()(x))


@model
def upsampling():
    inputs = x = layers.Input((24, 24, 3))
    for _ in range(3):
        x = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    x = layers.UpSampling2D()(x)
    for _ in range(3):
        x = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    return keras.Model(inputs, layers.Dense(4)(layers.GlobalAveragePooling2D()(x)))


@model
def dense_on_sequences():
    inputs = x = layers.Input((20, 32))
    for _ in range(4):
        x = layers.Dense(64, activation="tanh")(x)
    return keras.Model(inputs, head(x))


@model
def reshape_layers():
    inputs = layers.Input((30, 32))
    x = layers.Dense(64, activation="tanh")(inputs)
    x = layers.Reshape((-1, 16))(x)
    x = layers.Dense(32, activation="tanh")(x)
    return keras.Model(inputs, head(x))


@model
def attention():
    inputs = x = layers.Input((24, 32))
    for _ in range(2):
        y = layers.MultiHeadAttention(4, 8)(x, x, use_causal_mask=True)
        x = layers.LayerNormalization()(x + y)
        x = x + layers.Dense(32)(layers.Dense(64, activation="gelu")(x))
    return keras.Model(inputs, head(x))


@model
def grouped_queries():
    inputs = x = layers.Input((24, 32))
    x = layers.GroupQueryAttention(8, 8, 2)(x, x)
    return keras.Model(inputs, head(layers.Dense(64, activation="tanh")(x)))


@model
def group_normalization():
    inputs = x = layers.Input((16, 16, 3))
    for _ in range(2):
        x = layers.Conv2D(16, 3, padding="same")(x)
        x = keras.activations.relu(layers.GroupNormalization(4)(x))
    return keras.Model(inputs, layers.Dense(4)(layers.GlobalAveragePooling2D()(x)))


@model
def batch_normalization_and_dropout():
    inputs = x = layers.Input((40, 16))
    for _ in range(3):
        x = layers.Conv1D(32, 3, padding="same")(x)
        x = layers.Dropout(0.2)(keras.activations.relu(layers.BatchNormalization()(x)))
    return keras.Model(inputs, head(x))


@model
def recurrent():
    inputs = layers.Input((12, 16))
    x = layers.GRU(32, return_sequences=True, reset_after=False)(inputs)
    return keras.Model(inputs, head(layers.Dense(64, activation="tanh")(x)))


@model
def resizing_and_padding():
    inputs = layers.Input((16, 16, 3))
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(inputs)
    x = layers.ZeroPadding2D(2)(layers.Resizing(30, 30)(x))
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    return keras.Model(inputs, layers.Dense(4)(layers.GlobalAveragePooling2D()(x)))


@model
def repeat_vector_and_flatten():
    inputs = layers.Input((64,))
    x = layers.Dense(64, activation="tanh")(inputs)
    x = layers.RepeatVector(20)(x)
    x = layers.Dense(48, activation="tanh")(x)
    return keras.Model(inputs, layers.Dense(4)(layers.Flatten()(x)))


def made_report(names: tuple[str, ...]) -> lms.Report:
    """The report on the largest of the functions of such names."""
    made = [r for r in lms.reports() if any(name in r.function for name in names)]
    return max(made, key=lambda report: report.peak_before_bytes)


def run_function(name: str) -> tuple[lms.Report, int, int]:
    """Its report, the bytes that a step takes, and by how many these may differ."""
    body, spec, batch = FUNCTIONS[name]()
    weight = tf.Variable(normal(64, 64) * 0.1)

    @tf.function(input_signature=[spec])
    def shape_step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(body(x, weight) ** 2)
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    x = normal(*[batch if size is None else size for size in spec.shape])
    shape_step(x)
    lms.memory.reset_peak()
    before = lms.memory.bytes_in_use()
    shape_step(x)
    return made_report(("shape_step",)), lms.memory.peak_bytes() - before, 0


class _Measure(keras.callbacks.Callback):
    """The peaks of the full batches but the first, over what was in use before each."""

    before = 0

    def __init__(self) -> None:
        super().__init__()
        self.peaks: list[int] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        lms.memory.reset_peak()
        self.before = lms.memory.bytes_in_use()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if 1 <= batch < ROWS // BATCH:
            self.peaks.append(lms.memory.peak_bytes() - self.before)


def run_model(name: str) -> tuple[lms.Report, int, int]:
    """The same: threads of the dataset make a batch ahead, during a step or before it."""
    keras.utils.set_random_seed(1)
    net = MODELS[name]()
    net.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    rows = normal(ROWS, *net.input_shape[1:])
    data = tf.data.Dataset.from_tensor_slices((rows, tf.range(ROWS) % 4))
    measure = _Measure()
    net.fit(data.batch(BATCH), verbose=0, callbacks=[measure])
    batch_bytes = rows.numpy().nbytes * BATCH // ROWS
    measured = statistics.median_low(measure.peaks)
    return made_report(("one_step", "multi_step")), measured, batch_bytes


def main(names: list[str]) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for name in names:
        lms.clear_reports()
        lms.enable("1TiB", replan=False)
        report, measured, ahead = (run_function if name in FUNCTIONS else run_model)(name)
        lms.disable()
        # In which order a step runs that fits is drawn with each instance of its graph, and its
        # peak with it: of the orders that are foretold the nearest counts.
        orders = [peak - report.resident_bytes for peak in report.order_peaks["before"]]
        predicted = min(orders, key=lambda peak: abs(peak - measured))
        assert max(orders) == report.peak_before_bytes - report.resident_bytes
        figures = {
            "predicted": predicted,
            "measured": measured,
            "ahead": ahead,
            "status": report.status,
            "reason": report.reason,
            "warnings": report.warnings,
        }
        print("CASE", name, json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or [*FUNCTIONS, *MODELS])
