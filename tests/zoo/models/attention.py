"""Models of attention: an encoder of texts, a decoder, a vision transformer; and MLP-Mixer."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from _models import gpt

from zoo.case import Case, case_of, classifier, floats, integers

layers = keras.layers


def _block(x: Any, heads: int, dropout: float, mask: Any = None) -> Any:
    """Attention and a perceptron, both after their norm."""
    width = x.shape[-1]
    y = layers.LayerNormalization(epsilon=1e-6)(x)
    attention = layers.MultiHeadAttention(heads, width // heads, dropout=dropout)
    x = x + attention(y, y, attention_mask=mask)
    y = layers.LayerNormalization(epsilon=1e-6)(x)
    y = layers.Dropout(dropout)(layers.Dense(4 * width, activation="gelu")(y))
    return x + layers.Dropout(dropout)(layers.Dense(width)(y))


def encoder(batch: int = 8, length: int = 96, width: int = 128, depth: int = 3) -> Case:
    """Classifies padded texts by their first token, in the manner of BERT; AdamW."""
    keras.utils.set_random_seed(1)
    tokens = keras.Input((length,), dtype="int32")
    x = layers.Embedding(2000, width)(tokens)
    x = x + layers.Embedding(length, width)(np.arange(length, dtype="int32"))
    x = layers.Dropout(0.1)(layers.LayerNormalization()(x))
    mask = keras.ops.expand_dims(keras.ops.not_equal(tokens, 0), 1)
    for _ in range(depth):
        x = _block(x, 4, 0.1, mask)
    x = layers.Dense(width, activation="tanh")(x[:, 0])
    model = keras.Model(tokens, layers.Dense(3)(x))
    texts = integers(2000, batch, length)
    texts[: batch // 2, length // 2 :] = 0
    optimizer = keras.optimizers.AdamW(1e-3, global_clipnorm=1.0)
    return classifier(model, optimizer, texts, integers(3, batch))


def decoder() -> Case:
    """GPT: causal, with dropout; Adam."""
    adam = keras.optimizers.Adam(1e-3)
    return case_of(gpt(4, 3, 128, 4, dropout=0.1, optimizer=adam, length=96, vocabulary=1000))


def vit(batch: int = 8, size: int = 48, patch: int = 6, width: int = 96, depth: int = 4) -> Case:
    """Vision transformer with a class token; AdamW with a cosine schedule."""
    keras.utils.set_random_seed(1)

    class ClassToken(layers.Layer):
        def build(self, shape: Any) -> None:
            self.token = self.add_weight(shape=(1, 1, shape[-1]), initializer="zeros")

        def call(self, x: Any) -> Any:
            tokens = keras.ops.broadcast_to(self.token, (keras.ops.shape(x)[0], 1, x.shape[-1]))
            return keras.ops.concatenate([tokens, x], axis=1)

    image = keras.Input((size, size, 3))
    x = layers.Conv2D(width, patch, patch)(image)
    x = ClassToken()(layers.Reshape((-1, width))(x))
    places = np.arange(x.shape[1], dtype="int32")
    x = layers.Dropout(0.1)(x + layers.Embedding(len(places), width)(places))
    for _ in range(depth):
        x = _block(x, 4, 0.1)
    x = layers.LayerNormalization(epsilon=1e-6)(x)[:, 0]
    rate = keras.optimizers.schedules.CosineDecay(1e-3, 100)
    model = keras.Model(image, layers.Dense(10)(x))
    optimizer = keras.optimizers.AdamW(rate, weight_decay=0.05)
    return classifier(model, optimizer, floats(batch, size, size, 3), integers(10, batch))


def mlp_mixer(batch: int = 8, size: int = 64, width: int = 96, depth: int = 4) -> Case:
    """Perceptrons over places and over channels in turn; Adam."""
    keras.utils.set_random_seed(1)

    def perceptron(x: Any, hidden: int) -> Any:
        return layers.Dense(x.shape[-1])(layers.Dense(hidden, activation="gelu")(x))

    image = keras.Input((size, size, 3))
    x = layers.Reshape((-1, width))(layers.Conv2D(width, 8, 8)(image))
    for _ in range(depth):
        y = layers.Permute((2, 1))(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Permute((2, 1))(perceptron(y, 128))])
        x = layers.Add()([x, perceptron(layers.LayerNormalization()(x), 4 * width)])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    model = keras.Model(image, layers.Dense(10)(x))
    data = floats(batch, size, size, 3), integers(10, batch)
    return classifier(model, keras.optimizers.Adam(1e-3), *data)
