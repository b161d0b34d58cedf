"""TensorFlow Large Model Support: how far a card's memory reaches by swapping, planned for a P100.

Nothing runs: for each published multiple, the largest batch or image that is predicted to fit
without lms, by recomputation alone, by swapping alone and by both, within the published slowdown.
"""

from __future__ import annotations

from typing import Any

import keras
import lms
from _models import application, unet3d
from swap import published as _published

from published import own_size
from published.verdict import AHEAD, BEHIND, LEVEL, NOT_MEASURED, Row, Rows

NAME = "reach"
SLOWDOWN = 0.3  # the most that they publish, where a figure does not say
OUT_OF_CORE = 1 / 0.55 - 1  # at 55% of the speed
WAYS: dict[str, dict[str, Any]] = {
    "recompute": {"swap": False},
    "swap": {"recompute": False},
    "mix": {},
}
CLOSE = 0.02
GOOGLENET_BATCH = 16
layers = keras.layers


def rows_by_name() -> dict[str, dict[str, Any]]:
    named: dict[str, dict[str, Any]] = {}
    for row in _published.rows():
        name = f"{row['model']} {row['multiple']:g}x"
        named[name] = {**row, "slowdown": OUT_OF_CORE if "55%" in row["note"] else SLOWDOWN}
    return named


PUBLISHED_ROWS = rows_by_name()
ROWS = tuple(PUBLISHED_ROWS)

# The nine modules: channels of 1x1, of 3x3 with those before it, of 5x5 likewise, after the pool.
# A None is a pooling that halves.
MODULES = (
    (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None,
    (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), None,
    (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
)  # fmt: skip


def googlenet(side: int) -> keras.Model:
    """The first Inception network, without its second heads and normalisation; SGD."""

    def convolved(x: Any, channels: int, size: int = 1, stride: int = 1) -> Any:
        return layers.Conv2D(channels, size, stride, padding="same", activation="relu")(x)

    def halved(x: Any) -> Any:
        return layers.MaxPool2D(3, 2, padding="same")(x)

    inputs = keras.Input((side, side, 3))
    x = halved(convolved(inputs, 64, 7, 2))
    x = halved(convolved(convolved(x, 64), 192, 3))
    for module in MODULES:
        if module is None:
            x = halved(x)
            continue
        one, before_three, three, before_five, five, after = module
        branches = [
            convolved(x, one),
            convolved(convolved(x, before_three), three, 3),
            convolved(convolved(x, before_five), five, 5),
            convolved(layers.MaxPool2D(3, 1, padding="same")(x), after),
        ]
        x = layers.Concatenate()(branches)
    x = layers.Dropout(0.4)(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(inputs, layers.Dense(1000)(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01), loss)
    return model


def googlenet_of(side: int) -> Any:
    return googlenet(side), GOOGLENET_BATCH


def unet3d_of(side: int) -> Any:
    return own_size.compiled(lambda: unet3d(side))(), 1


def search(model: str, **options: Any) -> lms.LargestSize:
    options["device"] = own_size.P100
    options["precision"] = 0.02
    options["progress"] = lambda line: print(f"    {line}", flush=True)
    if model == "googlenet":
        return lms.max_size(
            googlenet_of, what="side", at_least=224, multiple_of=32, at_most=8192, **options
        )
    if model == "unet3d":
        return lms.max_size(
            unet3d_of, what="side", at_least=64, multiple_of=16, at_most=448, **options
        )
    name = {"resnet50": "ResNet50", "resnet152": "ResNet152"}[model]
    make = own_size.compiled(lambda: application(name, 1, 224))
    return lms.max_batch_size(make, **options)


def amount(model: str, size: int) -> int:
    """What the published multiple counts: images, pixels or voxels."""
    return size ** {"googlenet": 2, "unet3d": 3}.get(model, 1)


def plan(name: str, quick: bool) -> dict[str, Any]:
    published = PUBLISHED_ROWS[name]
    model = published["model"]
    stock = search(model, lms=False).without_lms or 0
    found: dict[str, Any] = {"device": own_size.P100.name, "stock": stock, "ways": {}}
    for way in ("mix",) if quick else WAYS:
        print(f"  {way}", flush=True)
        try:
            largest = search(model, lms=True, max_slowdown=published["slowdown"], **WAYS[way])
        except ValueError as error:  # not one size could be planned
            found["ways"][way] = {"size": 0, "multiple": 0.0, "why": str(error)[:300]}
            continue
        size = largest.with_lms or 0
        found["ways"][way] = {
            "size": size,
            "multiple": amount(model, size) / amount(model, stock),
            "added": largest.slowdown,
            "seconds": largest.seconds,
        }
    return found


PARTS = {"planned": plan}


def best(row: Row) -> tuple[str, dict[str, Any]]:
    """The way that reaches furthest."""
    ways = row["planned"]["ways"]
    way = max(ways, key=lambda name: ways[name]["multiple"])
    return way, ways[way]


def judge(row: Row, rows: Rows) -> tuple[str, str]:
    if not row.get("planned"):
        return NOT_MEASURED, row.get("why", "")
    published = PUBLISHED_ROWS[row["row"]]
    way, found = best(row)
    if found["multiple"] > published["multiple"] * (1 + CLOSE):
        return AHEAD, ""
    why = f"{way} reaches {found['multiple']:.2f} times, within {published['slowdown']:.0%}"
    near = found["multiple"] >= published["multiple"] * (1 - CLOSE)
    return (LEVEL if near else BEHIND), why
