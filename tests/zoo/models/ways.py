"""Other ways to write a step: mixed precision, Keras' train_step, recomputing, summing by hand."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf
from _models import convolution

from zoo.case import Case, classifier, descend, floats, integers

layers = keras.layers


@contextlib.contextmanager
def _policy(name: str) -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _small_cnn(size: int, width: int) -> keras.Model:
    keras.utils.set_random_seed(1)
    x = image = keras.Input((size, size, 3))
    for level in range(3):
        x = layers.ReLU()(convolution(x, width << level))
        x = layers.ReLU()(convolution(x, width << level))
        x = layers.MaxPool2D()(x)
    return keras.Model(image, layers.Dense(10, dtype="float32")(layers.Flatten()(x)))


def mixed_float16(batch: int = 8, size: int = 32, width: int = 16) -> Case:
    """float16 with a loss scale, which skips the update where something overflows."""
    with _policy("mixed_float16"):
        model = _small_cnn(size, width)
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01, momentum=0.9))
    optimizer.build(model.trainable_variables)
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = entropy(labels, model(images, training=True))
            scaled = optimizer.scale_loss(loss)
        descend(tape, scaled, model, optimizer)
        return loss

    return Case(step, tuple(map(tf.constant, (floats(batch, size, size, 3), integers(10, batch)))))


def mixed_bfloat16(batch: int = 8, size: int = 32, width: int = 16) -> Case:
    """The same network in bfloat16; Adam."""
    with _policy("mixed_bfloat16"):
        model = _small_cnn(size, width)
    data = floats(batch, size, size, 3), integers(10, batch)
    return classifier(model, keras.optimizers.Adam(1e-3), *data)


def compiled(batch: int = 8, size: int = 32, width: int = 16) -> Case:
    """Keras' own train_step: metrics, label smoothing, weight decay as losses of layers."""
    keras.utils.set_random_seed(1)
    decay = keras.regularizers.L2(1e-4)
    x = image = keras.Input((size, size, 3))
    for level in range(3):
        for stride in (1, 2):
            x = layers.SeparableConv2D(
                width << level, 3, stride, padding="same", pointwise_regularizer=decay
            )(x)
            x = layers.PReLU(shared_axes=[1, 2])(layers.BatchNormalization()(x))
    x = layers.Dropout(0.3)(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(image, layers.Dense(10, kernel_regularizer=decay)(x))
    loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    metrics = ["accuracy", keras.metrics.TopKCategoricalAccuracy(3)]
    optimizer = keras.optimizers.RMSprop(1e-3, momentum=0.9, centered=True)
    model.compile(optimizer, loss, metrics=metrics, jit_compile=False)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> dict[str, tf.Tensor]:
        return model.train_step((images, labels, weights))

    labels = np.eye(10, dtype="float32")[integers(10, batch)]
    weights = np.linspace(0.5, 2, batch, dtype="float32")
    return Case(step, tuple(map(tf.constant, (floats(batch, size, size, 3), labels, weights))))


def recomputed_by_hand(batch: int = 8, size: int = 32, width: int = 24) -> Case:
    """Blocks under tf.recompute_grad, which lms meets on top; momentum SGD."""
    keras.utils.set_random_seed(1)

    def block(channels: int, stride: int) -> keras.Model:
        x = seen = keras.Input((None, None, channels // stride))
        for number in range(2):
            x = layers.Conv2D(channels, 3, 1 if number else stride, padding="same")(x)
            x = layers.Activation("swish")(layers.GroupNormalization(8)(x))
        return keras.Model(seen, x)

    stem = layers.Conv2D(width, 3, padding="same")
    stem.build((None, size, size, 3))
    blocks = [block(width, 1), block(2 * width, 2), block(2 * width, 1), block(4 * width, 2)]
    head = layers.Dense(10)
    head.build((None, 4 * width))
    weights = [w for part in (stem, *blocks, head) for w in part.trainable_weights]
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(weights)

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            x = stem(images)
            for part in blocks:
                x = tf.recompute_grad(part)(x)
            logits = head(tf.reduce_mean(x, [1, 2]))
            error = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(error)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    return Case(step, tuple(map(tf.constant, (floats(batch, size, size, 3), integers(10, batch)))))


def accumulated(batch: int = 32, parts: int = 4, width: int = 192) -> Case:
    """Gradients of several parts of the batch are added up in a loop, clipped, applied; Lion."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((64, 32))])
    for _ in range(3):
        model.add(layers.Dense(width, activation="gelu"))
        model.add(layers.LayerNormalization())
    model.add(layers.GlobalAveragePooling1D())
    model.add(layers.Dense(10))
    optimizer = keras.optimizers.Lion(1e-4)
    optimizer.build(model.trainable_variables)
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    weights = model.trainable_variables

    @tf.function
    def step(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        total = 0.0
        sums = [tf.zeros(weight.shape) for weight in weights]
        for part in tf.range(parts):
            with tf.GradientTape() as tape:
                loss = entropy(labels[part], model(x[part], training=True)) / parts
            sums = [a + b for a, b in zip(sums, tape.gradient(loss, weights))]
            total += loss
        sums, norm = tf.clip_by_global_norm(sums, 1.0)
        optimizer.apply_gradients(zip(sums, weights))
        return total, norm

    x, labels = floats(parts, batch // parts, 64, 32), integers(10, parts, batch // parts)
    return Case(step, (tf.constant(x), tf.constant(labels)))
