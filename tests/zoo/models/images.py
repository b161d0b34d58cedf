"""Models of images: labels, pixels, voxels, boxes, likeness."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from _models import cifar_resnet, convolution, unet, unet3d

from zoo.case import Case, case_of, descend, floats

layers = keras.layers


def residual() -> Case:
    """A ResNet of 3 x 3 basic blocks; momentum SGD."""
    return case_of(cifar_resnet(16, 3))


def segmentation() -> Case:
    """U-Net, a class per pixel; SGD."""
    return case_of(unet(2, 48, 12))


def volumes() -> Case:
    """U-Net of three dimensions; Adam."""
    return case_of(unet3d(32, 1, 6))


def detector(batch: int = 2, size: int = 96, classes: int = 5) -> Case:
    """A backbone, a feature pyramid, and heads that all levels share; three losses, SGD."""
    keras.utils.set_random_seed(1)

    def stage(x: Any, channels: int) -> Any:
        x = layers.ReLU()(convolution(x, channels, stride=2))
        y = convolution(layers.ReLU()(convolution(x, channels)), channels)
        return layers.ReLU()(layers.Add()([x, y]))

    x = image = keras.Input((size, size, 3))
    features = []
    for channels in (16, 24, 32, 48, 64):
        x = stage(x, channels)
        features.append(x)
    width = 32
    laterals = [layers.Conv2D(width, 1)(feature) for feature in features[2:]]
    pyramid = [laterals[-1]]
    for lateral in reversed(laterals[:-1]):
        pyramid.append(layers.Add()([lateral, layers.UpSampling2D()(pyramid[-1])]))
    pyramid = [layers.Conv2D(width, 3, padding="same")(level) for level in pyramid]

    def head(outputs: int) -> list[Any]:
        hidden = [layers.Conv2D(width, 3, padding="same", activation="relu") for _ in range(2)]
        return [*hidden, layers.Conv2D(outputs, 3, padding="same"), layers.Reshape((-1, outputs))]

    def predicted(parts: list[Any]) -> Any:
        outputs = []
        for level in pyramid:
            for part in parts:
                level = part(level)
            outputs.append(level)
        return layers.Concatenate(axis=1)(outputs)

    model = keras.Model(image, [predicted(head(classes)), predicted(head(4))])
    kernels = [weight for weight in model.trainable_weights if weight.path.endswith("kernel")]
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True)
    optimizer.build(model.trainable_variables)
    focal = keras.losses.BinaryFocalCrossentropy(from_logits=True, reduction="sum")
    huber = keras.losses.Huber(reduction=None)

    @tf.function
    def step(images: tf.Tensor, truth: tf.Tensor, boxes: tf.Tensor) -> dict[str, tf.Tensor]:
        found = tf.cast(tf.reduce_any(truth > 0, -1), tf.float32)
        count = tf.maximum(tf.reduce_sum(found), 1)
        with tf.GradientTape() as tape:
            scores, places = model(images, training=True)
            losses = {
                "class": focal(truth, scores) / count,
                "box": tf.reduce_sum(huber(boxes, places) * found) / count,
                "decay": 1e-4 * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels]),
            }
            loss = tf.add_n(list(losses.values()))
        descend(tape, loss, model, optimizer)
        return losses

    places = model.outputs[0].shape[1]
    truth = (floats(batch, places, classes) > 1.5).astype("float32")
    data = floats(batch, size, size, 3), truth, floats(batch, places, 4, seed=2)
    return Case(step, tuple(map(tf.constant, data)))


def contrastive(batch: int = 12, size: int = 32, width: int = 16) -> Case:
    """Two random views of each image through one tower, drawn together (as SimCLR does); Adam."""
    keras.utils.set_random_seed(1)
    x = image = keras.Input((size, size, 3))
    for level in range(3):
        x = layers.ReLU()(convolution(x, width << level))
        x = layers.ReLU()(convolution(x, width << level, stride=2))
    x = layers.GlobalAveragePooling2D()(x)
    tower = keras.Model(image, layers.Dense(32)(layers.Dense(64, activation="relu")(x)))
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(tower.trainable_variables)

    def view(images: tf.Tensor) -> tf.Tensor:
        images = tf.image.random_flip_left_right(images)
        images = tf.image.random_brightness(images, 0.2)
        return images + 0.05 * tf.random.normal(tf.shape(images))

    @tf.function
    def step(images: tf.Tensor) -> tf.Tensor:
        views = [view(images), view(images)]
        with tf.GradientTape() as tape:
            one, other = (tf.math.l2_normalize(tower(v, training=True), -1) for v in views)
            likeness = tf.matmul(one, other, transpose_b=True) / 0.1
            labels = tf.range(batch)
            entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
            loss = tf.reduce_mean(entropy(labels, likeness))
            loss += tf.reduce_mean(entropy(labels, tf.transpose(likeness)))
        descend(tape, loss, tower, optimizer)
        return loss

    return Case(step, (tf.constant(floats(batch, size, size, 3)),))
