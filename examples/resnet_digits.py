"""What the examples train: ResNet-50 on the handwritten digits that come with scikit-learn."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf
from sklearn import datasets

SIZE = 128  # pixels; the digits are 8 x 8 and are scaled up
BATCH = 48


def resnet50(size: int = SIZE) -> keras.Model:
    """ResNet-50 for ten classes, the same weights at every call."""
    keras.utils.set_random_seed(1)
    model = keras.applications.ResNet50(
        weights=None, input_shape=(size, size, 3), classes=10, classifier_activation=None
    )

    # Each block starts as the identity, as is usual: the loss falls from the first steps on.
    def copy(layer: keras.layers.Layer) -> keras.layers.Layer:
        config = layer.get_config()
        if layer.name.endswith("_3_bn"):
            config["gamma_initializer"] = "zeros"
        return layer.__class__.from_config(config)

    return keras.models.clone_model(model, clone_function=copy)


def images(count: int, size: int = SIZE) -> tuple[np.ndarray, np.ndarray]:
    """The first `count` digits of a fixed shuffle: images [count, size, size, 3] and labels."""
    digits = datasets.load_digits()
    chosen = np.random.default_rng(1).permutation(len(digits.target))[:count]
    small = (digits.images[chosen, :, :, None] / 16.0).astype(np.float32)
    large = tf.image.resize(small, (size, size), method="bicubic").numpy()
    return np.repeat(large, 3, axis=-1), digits.target[chosen].astype(np.int32)


def batches(steps: int, batch: int = BATCH, size: int = SIZE) -> tf.data.Dataset:
    """`steps` batches of one size, in a fixed order."""
    return tf.data.Dataset.from_tensor_slices(images(steps * batch, size)).batch(
        batch, drop_remainder=True
    )


def adam() -> keras.optimizers.Optimizer:
    return keras.optimizers.Adam(5e-4)


def loss_function() -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
