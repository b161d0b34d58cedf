"""The 18 networks of Optimal Gradient Checkpoint Search's table, at any batch and image size.

Those that keras.applications has are taken from there. The others are built here after the papers
that describe them, as PyTorch's torchvision has them: AlexNet, VGG without batch norm, ResNet-18
and 34, DenseNet-161. The three of CIFAR-10 are in cells.py. All train with SGD.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
from _models import Problem, application, convolution, images

from published.cells import AMOEBANET, DARTS, NASNET, cell_network

layers = keras.layers
CLASSES = 1000
PROBABILITIES = keras.losses.SparseCategoricalCrossentropy
Make = Callable[[int, int], Problem]  # of a batch and an image's side


def problem_of(inputs: Any, logits: Any, batch: int, side: int, classes: int = CLASSES) -> Problem:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = keras.Model(inputs, logits)
    return Problem(model, loss, keras.optimizers.SGD(0.01), *images(batch, side, classes))


def start(side: int) -> Any:
    keras.utils.set_random_seed(1)
    return keras.Input((side, side, 3))


def dense_top(x: Any) -> Any:
    """Two dense layers of 4,096 with dropout, and the classes: the top of AlexNet and VGG."""
    x = layers.Flatten()(x)
    for _ in range(2):
        x = layers.Dropout(0.5)(layers.Dense(4096, activation="relu")(x))
    return layers.Dense(CLASSES)(x)


def alexnet(batch: int, side: int) -> Problem:
    inputs = start(side)
    x = layers.ZeroPadding2D(2)(inputs)
    x = layers.Conv2D(64, 11, strides=4, activation="relu")(x)
    x = layers.MaxPool2D(3, 2)(x)
    x = layers.Conv2D(192, 5, padding="same", activation="relu")(x)
    x = layers.MaxPool2D(3, 2)(x)
    for channels in (384, 256, 256):
        x = layers.Conv2D(channels, 3, padding="same", activation="relu")(x)
    return problem_of(inputs, dense_top(layers.MaxPool2D(3, 2)(x)), batch, side)


def vgg(depths: Sequence[int]) -> Make:
    """`depths`: convolutions of each of the five stages."""

    def make(batch: int, side: int) -> Problem:
        x = inputs = start(side)
        for stage, depth in enumerate(depths):
            for _ in range(depth):
                channels = min(64 << stage, 512)
                x = layers.Conv2D(channels, 3, padding="same", activation="relu")(x)
            x = layers.MaxPool2D()(x)
        return problem_of(inputs, dense_top(x), batch, side)

    return make


def basic_resnet(depths: Sequence[int]) -> Make:
    """Blocks of two 3x3 convolutions: ResNet-18 and 34."""

    def make(batch: int, side: int) -> Problem:
        inputs = start(side)
        x = layers.ReLU()(convolution(inputs, 64, 7, 2))
        x = layers.MaxPool2D(3, 2, padding="same")(x)
        for stage, depth in enumerate(depths):
            channels = 64 << stage
            for block in range(depth):
                stride = 2 if stage > 0 and block == 0 else 1
                shortcut = convolution(x, channels, 1, stride) if stride > 1 else x
                x = layers.ReLU()(convolution(x, channels, stride=stride))
                x = layers.ReLU()(layers.Add()([convolution(x, channels), shortcut]))
        return problem_of(inputs, layers.Dense(CLASSES)(pooled(x)), batch, side)

    return make


def pooled(x: Any) -> Any:
    return layers.GlobalAveragePooling2D()(x)


def normed(x: Any) -> Any:
    return layers.ReLU()(layers.BatchNormalization()(x))


def densenet161(batch: int, side: int) -> Problem:
    """Growth 48, which keras.applications cannot be told."""
    growth = 48
    inputs = start(side)
    x = layers.ReLU()(convolution(inputs, 2 * growth, 7, 2))
    x = layers.MaxPool2D(3, 2, padding="same")(x)
    for stage, depth in enumerate((6, 12, 36, 24)):
        if stage:
            x = layers.Conv2D(x.shape[-1] // 2, 1, use_bias=False)(normed(x))
            x = layers.AveragePooling2D(2)(x)
        for _ in range(depth):
            y = layers.Conv2D(4 * growth, 1, use_bias=False)(normed(x))
            y = layers.Conv2D(growth, 3, padding="same", use_bias=False)(normed(y))
            x = layers.Concatenate()([x, y])
    return problem_of(inputs, layers.Dense(CLASSES)(pooled(normed(x))), batch, side)


def from_keras(name: str) -> Make:
    return lambda batch, side: application(name, batch, side)


# By the names of the published table.
NETWORKS: dict[str, Make] = {
    "Alexnet": alexnet,
    "VGG 11": vgg((1, 1, 2, 2, 2)),
    "VGG 13": vgg((2, 2, 2, 2, 2)),
    "VGG 16": vgg((2, 2, 3, 3, 3)),
    "VGG 19": vgg((2, 2, 4, 4, 4)),
    "Resnet 18": basic_resnet((2, 2, 2, 2)),
    "Resnet 34": basic_resnet((3, 4, 6, 3)),
    "Resnet 50": from_keras("ResNet50"),
    "Resnet 101": from_keras("ResNet101"),
    "Resnet 152": from_keras("ResNet152"),
    "Densenet 121": from_keras("DenseNet121"),
    "Densenet 161": densenet161,
    "Densenet 169": from_keras("DenseNet169"),
    "Densenet 201": from_keras("DenseNet201"),
    "Inception v3": from_keras("InceptionV3"),
    "NASNet Cifar10": cell_network(NASNET),
    "AmoebaNet Cifar10": cell_network(AMOEBANET),
    "DARTS Cifar10": cell_network(DARTS),
}

# What is trained here: batch and side. A step takes a few seconds of one processor.
SIZES: dict[str, tuple[int, int]] = {
    "Alexnet": (64, 224),
    "VGG 11": (16, 96),
    "VGG 13": (16, 96),
    "VGG 16": (16, 96),
    "VGG 19": (16, 96),
    "Resnet 18": (16, 160),
    "Resnet 34": (16, 128),
    "Resnet 50": (8, 128),
    "Resnet 101": (8, 96),
    "Resnet 152": (8, 96),
    "Densenet 121": (8, 160),
    "Densenet 161": (8, 128),
    "Densenet 169": (8, 128),
    "Densenet 201": (8, 96),
    "Inception v3": (4, 200),
    "NASNet Cifar10": (8, 32),
    "AmoebaNet Cifar10": (8, 32),
    "DARTS Cifar10": (8, 32),
}
