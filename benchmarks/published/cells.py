"""Networks of searched cells for CIFAR-10: NASNet-A, AmoebaNet-A and the second one of DARTS.

20 cells from 36 channels, two of them halve the image; a head of pooling and one dense layer. The
cells are those that the papers print, as the DARTS paper compares them. Paths are not dropped, and
there is no second head.

A cell is text: for each inner node two "operation:source" words. Sources 0 and 1 are the last two
cells' results, 2 is the first inner node. `joined` are the nodes whose results are the cell's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import keras
from _models import Problem, images

layers = keras.layers
CELLS = 20
CHANNELS = 36


@dataclasses.dataclass(frozen=True)
class Cells:
    normal: str
    normal_joined: tuple[int, ...]
    reduce: str
    reduce_joined: tuple[int, ...]


NASNET = Cells(
    "sep5:1 sep3:0  sep5:0 sep3:0  avg:1 skip:0  avg:0 avg:0  sep3:1 skip:1",
    (2, 3, 4, 5, 6),
    "sep5:1 sep7:0  max:1 sep7:0  avg:1 sep5:0  skip:3 avg:2  sep3:2 max:1",
    (4, 5, 6),
)
AMOEBANET = Cells(
    "avg:0 max:1  sep3:0 sep5:2  sep3:0 avg:3  sep3:1 skip:1  skip:0 avg:1",
    (4, 5, 6),
    "avg:0 sep3:1  max:0 sep7:2  sep7:0 avg:1  max:0 max:1  seven:0 sep3:5",
    (3, 4, 6),
)
DARTS = Cells(
    "sep3:0 sep3:1  sep3:0 sep3:1  sep3:1 skip:0  skip:0 dil3:2",
    (2, 3, 4, 5),
    "max:0 max:1  skip:2 max:1  max:0 skip:2  skip:2 max:1",
    (2, 3, 4, 5),
)


def pointwise(x: Any, channels: int, stride: int = 1) -> Any:
    x = layers.Conv2D(channels, 1, stride, use_bias=False)(layers.ReLU()(x))
    return layers.BatchNormalization()(x)


def halved(x: Any, channels: int) -> Any:
    """Two pointwise convolutions with stride 2, one of them of the image moved by a pixel."""
    x = layers.ReLU()(x)
    moved = layers.Cropping2D(((1, 0), (1, 0)))(layers.ZeroPadding2D(((0, 1), (0, 1)))(x))
    parts = [
        layers.Conv2D(channels // 2, 1, 2, use_bias=False)(x),
        layers.Conv2D(channels - channels // 2, 1, 2, use_bias=False)(moved),
    ]
    return layers.BatchNormalization()(layers.Concatenate()(parts))


def separable(x: Any, channels: int, size: int, stride: int, dilation: int = 1) -> Any:
    """Depthwise and pointwise. With dilation once, else twice, the first time with the stride."""
    for each in (stride,) if dilation > 1 else (stride, 1):
        depthwise = layers.DepthwiseConv2D(
            size, each, padding="same", use_bias=False, dilation_rate=dilation
        )
        x = layers.Conv2D(channels, 1, use_bias=False)(depthwise(layers.ReLU()(x)))
        x = layers.BatchNormalization()(x)
    return x


def operation(kind: str, x: Any, channels: int, stride: int) -> Any:
    if kind == "skip":
        return x if stride == 1 else halved(x, channels)
    if kind == "max":
        return layers.MaxPool2D(3, stride, padding="same")(x)
    if kind == "avg":
        return layers.AveragePooling2D(3, stride, padding="same")(x)
    if kind == "seven":  # 1x7 and 7x1
        x = layers.ReLU()(x)
        x = layers.Conv2D(channels, (1, 7), (1, stride), padding="same", use_bias=False)(x)
        x = layers.Conv2D(channels, (7, 1), (stride, 1), padding="same", use_bias=False)(x)
        return layers.BatchNormalization()(x)
    return separable(x, channels, int(kind[-1]), stride, 2 if kind.startswith("dil") else 1)


def cell(
    text: str, joined: Sequence[int], before: Any, last: Any, channels: int, reduce: bool
) -> Any:
    if before.shape[1] != last.shape[1]:
        before = halved(before, channels)
    else:
        before = pointwise(before, channels)
    states = [before, pointwise(last, channels)]
    words = [word.split(":") for word in text.split()]
    for first, second in zip(words[::2], words[1::2]):
        states.append(
            layers.Add()(
                [
                    operation(kind, states[int(at)], channels, 2 if reduce and int(at) < 2 else 1)
                    for kind, at in (first, second)
                ]
            )
        )
    return layers.Concatenate()([states[at] for at in joined])


def cell_network(cells: Cells) -> Callable[[int, int], Problem]:
    def make(batch: int, side: int) -> Problem:
        keras.utils.set_random_seed(1)
        inputs = keras.Input((side, side, 3))
        stem = layers.Conv2D(3 * CHANNELS, 3, padding="same", use_bias=False)(inputs)
        before = last = layers.BatchNormalization()(stem)
        channels = CHANNELS
        for at in range(CELLS):
            reduce = at in (CELLS // 3, 2 * CELLS // 3)
            channels *= 2 if reduce else 1
            text = cells.reduce if reduce else cells.normal
            joined = cells.reduce_joined if reduce else cells.normal_joined
            before, last = last, cell(text, joined, before, last, channels, reduce)
        logits = layers.Dense(10)(layers.GlobalAveragePooling2D()(last))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model = keras.Model(inputs, logits)
        return Problem(model, loss, keras.optimizers.SGD(0.01), *images(batch, side, 10))

    return make
