"""Writes the graphs of real training steps as .lmsgraph files, for the table: needs TensorFlow.

    PYTHONPATH=benchmarks .venv/bin/python -m planner.dump DIRECTORY [resnet50,gpt,unet]

Each model takes one step under a budget with lms's option `dump_graphs`; of the functions that ran
the one with most ops is kept, as NAME.lmsgraph.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from planner import core

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

CLASSES = 10


def resnet50() -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    import keras

    return keras.applications.ResNet50(weights=None, classes=CLASSES), (4, 224, 224, 3), (4,)


def gpt() -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    import keras

    layers = keras.layers
    width, length, heads = 192, 128, 4
    tokens = keras.Input((length,))
    x = layers.Embedding(500, width)(tokens)
    for _ in range(6):
        h = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(heads, width // heads)(h, h, use_causal_mask=True)
        h = layers.LayerNormalization()(x)
        x = x + layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(h))
    return keras.Model(tokens, layers.Dense(500)(x)), (4, length), (4, length)


def unet() -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    import keras

    layers = keras.layers

    def block(x: Any, channels: int) -> Any:
        for _ in range(2):
            x = layers.Conv2D(channels, 3, padding="same", use_bias=False)(x)
            x = layers.ReLU()(layers.BatchNormalization()(x))
        return x

    image = keras.Input((128, 128, 3))
    x, skips = image, []
    for level in range(4):
        x = block(x, 16 << level)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = block(x, 16 << 4)
    for level in reversed(range(4)):
        x = layers.Conv2DTranspose(16 << level, 2, strides=2)(x)
        x = block(layers.Concatenate()([skips[level], x]), 16 << level)
    return keras.Model(image, layers.Conv2D(CLASSES, 1)(x)), (4, 128, 128, 3), (4, 128, 128)


MODELS: dict[str, Callable[[], tuple[Any, tuple[int, ...], tuple[int, ...]]]] = {
    "resnet50": resnet50,
    "gpt": gpt,
    "unet": unet,
}


def dump(name: str, folder: pathlib.Path) -> pathlib.Path:
    """One step of the model; the file with its graph."""
    import keras
    import lms
    import tensorflow as tf

    model, inputs, labels = MODELS[name]()
    # Logits, except for the network that ends in a softmax.
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=name != "resnet50")
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    with tempfile.TemporaryDirectory() as parts:
        with lms.enabled(memory_budget="50%", dump_graphs=parts):
            step(tf.zeros(inputs), tf.zeros(labels, tf.int32))
        found = core.largest_dump(parts)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.lmsgraph"
        path.write_bytes(found.read_bytes())
    return path


def main() -> None:
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    names = sys.argv[2].split(",") if len(sys.argv) == 3 else list(MODELS)
    for name in names:
        path = dump(name, pathlib.Path(sys.argv[1]))
        print(f"{path}: {path.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
