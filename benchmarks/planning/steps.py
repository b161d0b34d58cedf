"""Models as functions of the batch size, for lms.max_batch_size; other processes find them."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from lms._planning import process_memory

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


def mobilenet(batch: int | None) -> tuple[Any, int | None]:
    """keras.applications' MobileNetV3Small, 96 px, 100 classes; Adam."""
    model = keras.applications.MobileNetV3Small((96, 96, 3), weights=None, classes=100)
    model.compile("adam", "sparse_categorical_crossentropy")
    return model, batch


def segmenter(batch: int | None) -> tuple[Any, int | None]:
    """3 levels from 24 channels with group norm and gelu, upsampled, 64 px, 12 classes; Adam."""
    x = inputs = keras.Input((64, 64, 3))
    skips = []
    for width in (24, 48, 96):
        x = layers.Conv2D(width, 3, padding="same", activation="gelu")(x)
        x = layers.GroupNormalization(8)(x)
        skips.append(x)
        x = layers.AveragePooling2D(2)(x)
    x = layers.Conv2D(128, 3, padding="same", activation="gelu")(x)
    for width in (96, 48, 24):
        x = layers.Concatenate()([layers.UpSampling2D()(x), skips.pop()])
        x = layers.Conv2D(width, 3, padding="same", activation="gelu")(x)
    model = keras.Model(inputs, layers.Dense(12, activation="softmax")(x))
    model.compile("adam", "sparse_categorical_crossentropy")
    return model, batch


def gated(batch: int | None) -> tuple[Any, int | None]:
    """8 residual blocks of gated, dilated 1-D convolutions over 256 samples of 8; RMSprop."""
    x = inputs = keras.Input((256, 8))
    x = layers.Conv1D(96, 7, padding="same")(x)
    for dilation in (1, 2, 4, 8, 16, 32, 64, 128):
        gate = layers.Conv1D(96, 3, padding="same", dilation_rate=dilation, activation="sigmoid")(x)
        told = layers.Conv1D(96, 3, padding="same", dilation_rate=dilation, activation="tanh")(x)
        x = layers.Add()([x, layers.Conv1D(96, 1)(layers.Multiply()([gate, told]))])
    model = keras.Model(inputs, layers.Dense(30)(layers.GlobalMaxPooling1D()(x)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.RMSprop(1e-4), loss)
    return model, batch


def ready(model: Any, batch: int) -> tuple[Any, list[Any]]:
    """A function that takes one training step of the compiled model, and a batch for it."""
    from lms._tf import plan_keras

    specifications = plan_keras.specifications(model, [batch])
    data = [tf.constant(process_memory.batch_like(spec)) for spec in specifications]
    model.optimizer.build(model.trainable_variables)
    return tf.function(lambda x, y: model.train_step((x, y))), data


# Nothing in lms was chosen by the last three.
STEPS = {step.__name__: step for step in (resnet50, transformer, unet, mobilenet, segmenter, gated)}
