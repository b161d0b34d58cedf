"""The models once more, with each block under tf.recompute_grad, over the same layers.

A functional model is cut at tensors into parts, which become one model again: those that are blocks
compute their inside a second time in the backward pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

Cut = Callable[[keras.Model], list["Part"]]


class Part(NamedTuple):
    """From tensors of the model to one that is computed of them."""

    inputs: Sequence[Any]
    output: Any
    block: bool = True  # computed twice


class Recomputed(keras.layers.Layer):
    """Part of a model under tf.recompute_grad."""

    def __init__(self, inside: keras.Model) -> None:
        super().__init__()
        self.inside = inside

    def call(self, *inputs: Any, training: bool = False) -> Any:
        def compute(*tensors: tf.Tensor) -> tf.Tensor:
            given = tensors[0] if len(tensors) == 1 else list(tensors)
            return self.inside(given, training=training)

        return tf.recompute_grad(compute)(*inputs)


def by_block(model: keras.Model, parts: Sequence[Part]) -> keras.Model:
    """The same function of the same variables; the last part ends where `model` does."""
    values = {id(model.input): model.input}
    for part in parts:
        given = [values[id(tensor)] for tensor in part.inputs]
        inside = keras.Model(list(part.inputs) if len(given) > 1 else part.inputs[0], part.output)
        if part.block:
            values[id(part.output)] = Recomputed(inside)(*given)
        else:
            values[id(part.output)] = inside(given if len(given) > 1 else given[0])
    return keras.Model(model.input, values[id(parts[-1].output)])


def in_a_row(model: keras.Model, first: Any, ends: Sequence[Any]) -> list[Part]:
    """Blocks that follow each other from `first` on; before and behind them nothing is one."""
    starts = [first, *ends[:-1]]
    blocks = [Part([start], end) for start, end in zip(starts, ends)]
    return [Part([model.input], first, False), *blocks, Part([ends[-1]], model.output, False)]


def resnet50(model: keras.Model) -> list[Part]:
    names = [found.name for found in model.layers]
    ends = [name for name in names if re.fullmatch(r"conv\d_block\d+_out", name)]
    start = model.get_layer("pool1_pool").output
    return in_a_row(model, start, [model.get_layer(name).output for name in ends])


def cifar_resnet(model: keras.Model) -> list[Part]:
    adds = {id(found.output) for found in model.layers if isinstance(found, keras.layers.Add)}
    relus = [found for found in model.layers if isinstance(found, keras.layers.ReLU)]
    ends = [found.output for found in relus if id(found.input) in adds]
    return in_a_row(model, relus[0].output, ends)


def gpt(model: keras.Model) -> list[Part]:
    # The first sum adds the positions; then each block has one behind each of its two halves.
    sums = [found.output for found in model.operations if type(found).__name__ == "Add"]
    return in_a_row(model, sums[0], sums[2::2])


def unet(model: keras.Model) -> list[Part]:
    pools = [found for found in model.layers if isinstance(found, keras.layers.MaxPooling2D)]
    ups = [found for found in model.layers if isinstance(found, keras.layers.Conv2DTranspose)]
    parts, x = [], model.input
    for pool in pools:
        parts += [Part([x], pool.input), Part([pool.input], pool.output, False)]
        x = pool.output
    skips = [pool.input for pool in reversed(pools)]
    ends = [up.input for up in ups] + [model.layers[-1].input]
    parts.append(Part([x], ends[0]))
    parts += [Part([skip, x], end) for skip, x, end in zip(skips, ends, ends[1:])]
    return [*parts, Part([ends[-1]], model.output, False)]


CUTS: dict[str, Cut] = {
    "resnet50": resnet50, "cifar": cifar_resnet, "gpt": gpt, "unet": unet,
}  # fmt: skip
