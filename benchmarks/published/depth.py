"""gradient-checkpointing: CIFAR ResNets v2 of 6b + 2 layers, by their number of blocks b.

Four rows are b = 1 to 4, where memory and seconds are published. One asks how deep a network
trains in the activation memory in which stock ends at 5 blocks. The others plan deeper ones at the
published batch for that memory: how long it takes, and what it adds to the step.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import keras
from _models import Problem, images
from _pairs import Paired, report_figures

from published import own_size, source
from published.search import ROUNDS_OF_TRIES, at_added, at_cut
from published.verdict import AHEAD, BEHIND, LEVEL, NOT_MEASURED, Row, Rows, judge_cut

NAME = "depth"
PUBLISHED = source.read("openai_gradient_checkpointing")
BATCH = 128  # measured; 1280 is published
DEEP_BATCH = 64  # of the deepest network
PLANNED_BATCH = 4096
STOCK_BLOCKS = 5  # after which stock runs out of memory at batch 4096
THEIR_BLOCKS = 25  # which gradient-checkpointing passes there
DEEP = (100, 50, 25)  # tried in this order
PLANNED = (25, 50, 100, 200, 400)
GROWTH = 2.1  # their seconds grow with blocks to the power of this
MOST = "deepest"
layers = keras.layers

# Keras walks a model from its end to its beginning, a layer a call.
sys.setrecursionlimit(1_000_000)


def pairs_of_rows() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Without and with checkpoints."""
    both = zip(PUBLISHED["without_checkpoints"], PUBLISHED["with_checkpoints"])
    return {f"{stock['blocks']} blocks": (stock, kept) for stock, kept in both}


PAIRS = pairs_of_rows()
ROWS = (*PAIRS, MOST, *(f"plan {blocks}" for blocks in PLANNED))


def resnet_v2(batch: int, blocks: int) -> Problem:
    """3 stages of `blocks` blocks that normalise first, 16 to 64 channels, momentum SGD."""
    keras.utils.set_random_seed(1)

    def convolved(x: Any, channels: int, size: int = 3, stride: int = 1) -> Any:
        return layers.Conv2D(channels, size, stride, padding="same", use_bias=False)(x)

    def normed(x: Any) -> Any:
        return layers.ReLU()(layers.BatchNormalization()(x))

    inputs = keras.Input((32, 32, 3))
    x = convolved(inputs, 16)
    for stage in range(3):
        channels = 16 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = normed(x)
            shortcut = convolved(y, channels, 1, stride) if stride > 1 else x
            y = convolved(normed(convolved(y, channels, stride=stride)), channels)
            x = layers.Add()([y, shortcut])
    x = layers.Dense(10)(layers.GlobalAveragePooling2D()(normed(x)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    return Problem(keras.Model(inputs, x), loss, optimizer, *images(batch, 32, 10))


def claimed(name: str) -> tuple[float, float]:
    """The published cut and added time of a row of 1 to 4 blocks."""
    stock, kept = PAIRS[name]
    return 1 - kept["peak_mb"] / stock["peak_mb"], kept["s"] / stock["s"] - 1


def theirs_seconds(blocks: int) -> float:
    """Of their rewriting: published at 200 blocks, elsewhere by the published growth."""
    return PUBLISHED["claims"]["rewrite_seconds_200_blocks"] * (blocks / 200) ** GROWTH


def planner_seconds(blocks: int) -> float:
    """The option, whose default of 1 s is for steps of up to 30,000 operations."""
    return max(1.0, blocks / 25)


def measure(name: str, quick: bool) -> dict[str, Any]:
    if name == MOST:
        return measure_deepest(DEEP[-1:] if quick else DEEP)
    cut, added = claimed(name)
    blocks = PAIRS[name][0]["blocks"]
    paired = Paired(lambda: resnet_v2(BATCH, blocks))
    rounds = 1 if quick else 5
    # With one block their memory grew: a small cut is asked for there.
    found = at_cut(paired, max(cut, 0.05), rounds, 1 if quick else 3)
    tried = at_added(paired, added, found, min(rounds, ROUNDS_OF_TRIES), 0 if quick else 2)
    return {"batch": BATCH, "blocks": blocks, "at_cut": found, "tried": tried}


def measure_deepest(tried: tuple[int, ...]) -> dict[str, Any]:
    few = Paired(lambda: resnet_v2(DEEP_BATCH, STOCK_BLOCKS))
    memory = few.stock_peak
    del few
    found: dict[str, Any] = {"batch": DEEP_BATCH, "memory": memory, "missed": []}
    for blocks in tried:
        deep = Paired(lambda blocks=blocks: resnet_v2(DEEP_BATCH, blocks))
        share = 100 * memory / deep.stock_peak
        picked = deep.picked(share, 3, planner_seconds=planner_seconds(blocks))
        if picked["peak"] <= memory:
            figures = {**deep.turns(1), **report_figures(picked["report"])}
            return {**found, **figures, "blocks": blocks, "budget": picked["options"]}
        found["missed"].append({"blocks": blocks, "lms_peak": picked["peak"]})
    return found


def plan(name: str, quick: bool) -> dict[str, Any]:
    """In the memory that stock's step of STOCK_BLOCKS takes at the published batch."""
    blocks = int(name.split()[1])
    few = own_size.Planned(lambda: resnet_v2(1, STOCK_BLOCKS), PLANNED_BATCH)
    memory = few.at("100%")
    begun = time.process_time()
    deep = own_size.Planned(lambda: resnet_v2(1, blocks), PLANNED_BATCH)
    traced = time.process_time() - begun
    whole = memory["stock_peak"] + memory["resident"]
    found = deep.at(str(whole), planner_seconds=planner_seconds(blocks))
    return {
        **found,
        "device": deep.device.name,
        "batch": PLANNED_BATCH,
        "memory": whole,
        "blocks": blocks,
        "trace_cpu_s": traced,
    }


PARTS = {"measured": measure, "planned": plan}


def has(name: str, part: str) -> bool:
    """Is there such a part of that row?"""
    return (part == "planned") == name.startswith("plan ")


def judge(row: Row, rows: Rows) -> tuple[str, str]:
    name = row["row"]
    if name.startswith("plan "):
        return judge_planned(row.get("planned"), row.get("why", ""))
    measured = row.get("measured")
    if not measured:
        return NOT_MEASURED, row.get("why", "")
    if name == MOST:
        return judge_deepest(measured)
    cut, added = claimed(name)
    return judge_cut(measured["at_cut"], cut, added)


def judge_deepest(measured: Row) -> tuple[str, str]:
    blocks = measured.get("blocks", 0)
    if measured.get("pairs_with_other_bits"):
        return BEHIND, "the step had other bits than stock's"
    if blocks > THEIR_BLOCKS:
        return AHEAD, ""
    return (LEVEL if blocks == THEIR_BLOCKS else BEHIND), f"{blocks} blocks were reached"


def judge_planned(planned: Row | None, why: str) -> tuple[str, str]:
    if not planned:
        return NOT_MEASURED, why
    if planned["status"] not in ("rewritten", "fits"):
        return BEHIND, f"no plan was found: {planned['reason']}"
    theirs = theirs_seconds(planned["blocks"])
    if planned["planning_s"] < theirs:
        return AHEAD, ""
    return BEHIND, f"{planned['planning_s']:.0f} s are more than {theirs:.0f} s"
