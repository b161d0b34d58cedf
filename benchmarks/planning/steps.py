"""Models as functions of the batch size, which lms.max_batch_size takes and other processes find."""

from __future__ import annotations

from typing import Any

import keras

layers = keras.layers


def convolution(x: Any, channels: int) -> Any:
    x = layers.Conv2D(channels, 3, padding="same", use_bias=False)(x)
    return layers.ReLU()(layers.BatchNormalization()(x))


def resnet50(batch: int | None) -> tuple[Any, int | None]:
    """keras.applications, 96 px, 1000 classes, SGD with momentum."""
    model = keras.applications.ResNet50(weights=None, input_shape=(96, 96, 3))
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "sparse_categorical_crossentropy")
    return model, batch


def transformer(batch: int | None) -> tuple[Any, int | None]:
    """4 pre-norm blocks of width 192 with 4 heads over 128 tokens of 2,000; Adam."""
    inputs = keras.Input((128,), dtype="int32")
    x = layers.Embedding(2000, 192)(inputs)
    for _ in range(4):
        y = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(4, 48)(y, y)])
        y = layers.LayerNormalization()(x)
        y = layers.Dense(768, activation="gelu")(y)
        x = layers.Add()([x, layers.Dense(192)(y)])
    x = layers.Dense(2000)(layers.LayerNormalization()(x))
    model = keras.Model(inputs, x)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-4), loss)
    return model, batch


def unet(batch: int | None) -> tuple[Any, int | None]:
    """3 levels of two convolutions with batch norm from 24 channels, 96 px; SGD."""
    x = inputs = keras.Input((96, 96, 3))
    skips = []
    for level in range(3):
        x = convolution(convolution(x, 24 << level), 24 << level)
        skips.append(x)
        x = layers.MaxPool2D()(x)
    x = convolution(convolution(x, 192), 192)
    for level in reversed(range(3)):
        x = layers.Conv2DTranspose(24 << level, 2, strides=2)(x)
        x = layers.Concatenate()([skips[level], x])
        x = convolution(convolution(x, 24 << level), 24 << level)
    model = keras.Model(inputs, layers.Conv2D(10, 1)(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01), loss)
    return model, batch


STEPS = {"resnet50": resnet50, "transformer": transformer, "unet": unet}
