"""The models that the benchmarks train, and one training step of each, stock or with lms.

A problem is made anew by each call, always with the same weights and the same data.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras
import lms
import numpy as np
import tensorflow as tf

layers = keras.layers


@dataclasses.dataclass
class Problem:
    model: keras.Model
    loss: keras.losses.Loss
    optimizer: keras.optimizers.Optimizer
    inputs: Any  # an array, or what the model takes of them
    labels: Any

    def variables(self) -> list[Any]:
        return list(self.model.variables) + list(self.optimizer.variables)


@dataclasses.dataclass(frozen=True)
class Subject:
    """A problem with its title, made when it is wanted."""

    title: str
    problem: Callable[[], Problem]
    remapping: bool = True  # Grappler's, for stock and lms alike


class KerasTrainer:
    """What is common to the ways of training a Keras model; `options` are lms.enabled()'s."""

    def __init__(self, problem: Problem, options: Mapping[str, Any]) -> None:
        self.problem = problem
        self.options = dict(options)

    def weights(self) -> list[Any]:
        return [variable.numpy() for variable in self.problem.variables()]

    def set_weights(self, values: list[Any]) -> None:
        for variable, value in zip(self.problem.variables(), values):
            variable.assign(value)

    def switched(self, with_lms: bool) -> contextlib.AbstractContextManager[None]:
        return lms.enabled(**self.options) if with_lms else contextlib.nullcontext()


def training_step(
    problem: Problem, model: keras.Model | None = None, jit_compile: bool | None = None
) -> Callable[..., tf.Tensor]:
    """A tf.function of inputs and labels. model: another one over the problem's variables."""
    model = problem.model if model is None else model
    variables = problem.model.trainable_variables

    @tf.function(jit_compile=jit_compile)
    def train(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = problem.loss(labels, model(inputs, training=True))
        gradients = tape.gradient(loss, variables)
        problem.optimizer.apply_gradients(zip(gradients, variables))
        return loss

    return train


class FunctionTrainer(KerasTrainer):
    """A tf.function step."""

    def __init__(self, problem: Problem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        problem.optimizer.build(problem.model.trainable_variables)
        self.data = tf.nest.map_structure(tf.constant, (problem.inputs, problem.labels))

        self.train = training_step(problem)

    def step(self, with_lms: bool) -> Any:
        with self.switched(with_lms):
            return self.train(*self.data)


class FitTrainer(KerasTrainer):
    """model.fit over a dataset of which nobody knows the batch's size: the last one is smaller."""

    def __init__(self, problem: Problem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        problem.model.compile(problem.optimizer, problem.loss)
        batch = len(problem.labels)
        rows = tf.data.Dataset.from_tensor_slices((problem.inputs, problem.labels))
        self.data = rows.repeat(2).take(batch + (batch + 1) // 2).batch(batch)

    def step(self, with_lms: bool) -> Any:
        """One whole batch and, but for batches of one row, a smaller one."""
        with self.switched(with_lms):
            return self.problem.model.fit(self.data, verbose=0).history["loss"][-1]


def trainer_of(subject: Subject, options: Mapping[str, Any]) -> FunctionTrainer:
    if not subject.remapping:
        tf.config.optimizer.set_experimental_options({"remapping": False})
    return FunctionTrainer(subject.problem(), options)


# ---- Data ----


def images(batch: int, size: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(batch, size, size, 3)).astype("float32")
    return inputs, rng.integers(0, classes, size=(batch,)).astype("int32")


# ---- Models ----


def convolution(x: Any, channels: int, size: int = 3, stride: int = 1) -> Any:
    """Convolution and batch norm."""
    x = layers.Conv2D(channels, size, stride, padding="same", use_bias=False)(x)
    return layers.BatchNormalization()(x)


def resnet50(batch: int) -> Problem:
    """keras.applications, 224 px, 1000 classes, SGD."""
    keras.utils.set_random_seed(1)
    model = keras.applications.ResNet50(weights=None, classes=1000)
    loss = keras.losses.SparseCategoricalCrossentropy()
    return Problem(model, loss, keras.optimizers.SGD(0.01), *images(batch, 224, 1000))


def cifar_resnet(batch: int, blocks: int = 19) -> Problem:
    """3 x `blocks` basic blocks (v1) of 16, 32 and 64 channels, 32 px, momentum SGD."""
    keras.utils.set_random_seed(1)
    x = inputs = keras.Input((32, 32, 3))
    x = layers.ReLU()(convolution(x, 16))
    for stage, channels in enumerate((16, 32, 64)):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            shortcut = convolution(x, channels, 1, stride) if stride > 1 else x
            x = layers.ReLU()(convolution(x, channels, stride=stride))
            x = layers.ReLU()(layers.Add()([convolution(x, channels), shortcut]))
    x = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    return Problem(keras.Model(inputs, x), loss, optimizer, *images(batch, 32, 10))


def gpt(
    batch: int,
    depth: int = 12,
    width: int = 384,
    heads: int = 6,
    dropout: float = 0.0,
    optimizer: keras.optimizers.Optimizer | None = None,
    length: int = 256,
    vocabulary: int = 8000,
) -> Problem:
    """Pre-norm decoder of Keras layers; SGD where no optimizer is given."""
    keras.utils.set_random_seed(1)

    def dropped(x: Any) -> Any:
        return layers.Dropout(dropout)(x) if dropout else x

    inputs = keras.Input((length,), dtype="int32")
    x = layers.Embedding(vocabulary, width)(inputs)
    x = x + layers.Embedding(length, width)(np.arange(length, dtype="int32"))
    for _ in range(depth):
        y = layers.LayerNormalization()(x)
        attention = layers.MultiHeadAttention(heads, width // heads, dropout=dropout)
        x = x + dropped(attention(y, y, use_causal_mask=True))
        y = layers.LayerNormalization()(x)
        x = x + dropped(layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(y)))
    x = layers.Dense(vocabulary, use_bias=False)(layers.LayerNormalization()(x))
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, vocabulary, size=(batch, length + 1)).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = keras.Model(inputs, x)
    optimizer = optimizer or keras.optimizers.SGD(0.01)
    return Problem(model, loss, optimizer, tokens[:, :-1], tokens[:, 1:])


def transformer(batch: int, depth: int = 10, width: int = 768, heads: int = 12) -> Problem:
    """The same with dropout 0.1 in attention and after both parts of each block, and Adam."""
    return gpt(batch, depth, width, heads, 0.1, keras.optimizers.Adam(1e-4))


def unet(batch: int, size: int = 160, channels: int = 32) -> Problem:
    """4 levels of two convolutions with batch norm and ReLU, and a bottom; SGD."""
    keras.utils.set_random_seed(1)

    def block(x: Any, channels: int) -> Any:
        for _ in range(2):
            x = layers.ReLU()(convolution(x, channels))
        return x

    x = inputs = keras.Input((size, size, 3))
    skips = []
    for level in range(4):
        skips.append(block(x, channels << level))
        x = layers.MaxPool2D()(skips[-1])
    x = block(x, channels << 4)
    for level in reversed(range(4)):
        x = layers.Conv2DTranspose(channels << level, 2, strides=2)(x)
        x = block(layers.Concatenate()([skips[level], x]), channels << level)
    x = layers.Conv2D(10, 1)(x)
    pixels, _ = images(batch, size, 10)
    labels = np.random.default_rng(1).integers(0, 10, size=(batch, size, size)).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return Problem(keras.Model(inputs, x), loss, keras.optimizers.SGD(0.01), pixels, labels)


def unet3d(side: int, batch: int = 1, channels: int = 16) -> Problem:
    """3D U-Net after Isensee et al. (2017): 5 levels of residual blocks with instance norm; Adam.

    `side` voxels each way, a multiple of 16. Transposed convolutions, no deep supervision.
    """
    keras.utils.set_random_seed(1)

    def convolved(x: Any, channels: int, size: int = 3, stride: int = 1) -> Any:
        x = layers.Conv3D(channels, size, stride, padding="same")(x)
        return layers.LeakyReLU()(layers.GroupNormalization(groups=-1)(x))

    def block(x: Any, channels: int, stride: int) -> Any:
        x = convolved(x, channels, stride=stride)
        y = layers.SpatialDropout3D(0.3)(convolved(x, channels))
        return layers.Add()([x, convolved(y, channels)])

    x = inputs = keras.Input((side, side, side, 4))
    skips = []
    for level in range(5):
        x = block(x, channels << level, 2 if level else 1)
        skips.append(x)
    for level in reversed(range(4)):
        x = layers.Conv3DTranspose(channels << level, 2, strides=2)(x)
        x = convolved(layers.Concatenate()([skips[level], x]), channels << level)
        x = convolved(x, channels << level, size=1)
    x = layers.Conv3D(1, 1)(x)
    rng = np.random.default_rng(0)
    voxels = rng.standard_normal((batch, side, side, side, 4), dtype="float32")
    labels = rng.integers(0, 2, size=(batch, side, side, side, 1)).astype("float32")
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    return Problem(keras.Model(inputs, x), loss, keras.optimizers.Adam(1e-4), voxels, labels)


def application(
    name: str, batch: int, size: int, classes: int = 1000, momentum: float = 0.0
) -> Problem:
    """A model of keras.applications at `size` x `size` px, SGD."""
    keras.utils.set_random_seed(1)
    make = getattr(keras.applications, name)
    model = make(weights=None, classes=classes, input_shape=(size, size, 3))
    loss = keras.losses.SparseCategoricalCrossentropy()
    optimizer = keras.optimizers.SGD(0.01, momentum=momentum)
    return Problem(model, loss, optimizer, *images(batch, size, classes))


def lstm(batch: int, length: int = 100, units: int = 256) -> Problem:
    """Two LSTM layers (loops) over a vocabulary of 8,000, a class per sequence; Adam."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((length,), dtype="int32")
    x = layers.Embedding(8000, units)(inputs)
    x = layers.LSTM(units)(layers.LSTM(units, return_sequences=True)(x))
    x = layers.Dense(10)(x)
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 8000, size=(batch, length)).astype("int32")
    labels = rng.integers(0, 10, size=(batch,)).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return Problem(keras.Model(inputs, x), loss, keras.optimizers.Adam(1e-3), tokens, labels)
