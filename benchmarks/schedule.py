"""What another order of the same operations saves, alone and beside recomputation.

./run bench schedule [--models unet,...] [--rounds 5] [--share 50] [--out FILE]

For each model a child process trains it with TensorFlow's default threads, stock and lms in turn:
  - order alone: recompute=False, memory_budget="min". The peak is the worst of lms against the best
    of stock, activations only, and the times are what the control edges cost;
  - with recomputation: the added time that is predicted at --share percent of the activation peak,
    with order as a means (the default) and with the plan for the executor's own order
    (lms-core plan, on the graph that lms wrote down, for the same planner_seconds).
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import lms
import numpy as np
from _arguments import parsed, parser_for_models
from _measure import (
    in_child,
    largest_report,
    machine,
    machine_line,
    measured_in_turn,
    ratios,
    spread,
)
from _models import (
    FunctionTrainer,
    Problem,
    Subject,
    application,
    gpt,
    images,
    trainer_of,
    unet,
)
from planner import core

SECONDS = 2  # for the planner
layers = keras.layers


def classifier(name: str) -> Callable[[], Problem]:
    return lambda: application(name, batch=8, size=224, classes=100)


def branches(batch: int = 16, size: int = 64, count: int = 8) -> Problem:
    """Heads of two convolutions over one feature map, joined at the end."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((size, size, 3))
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(inputs)
    heads = []
    for _ in range(count):
        y = x
        for _ in range(2):
            y = layers.Conv2D(64, 3, padding="same", activation="relu")(y)
        heads.append(layers.GlobalAveragePooling2D()(layers.Conv2D(16, 1)(y)))
    x = layers.Dense(10)(layers.Concatenate()(heads))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.01)
    return Problem(keras.Model(inputs, x), loss, optimizer, *images(batch, size, 10))


def tied_rnn(batch: int = 64, length: int = 32, width: int = 512, classes: int = 1000) -> Problem:
    """An RNN unrolled by hand: the gradient of each weight is a sum over all time steps."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((length, width))
    of_input = layers.Dense(width)
    of_state = layers.Dense(width, use_bias=False)
    head = layers.Dense(classes)
    state, outputs = layers.ReLU()(of_input(inputs[:, 0])), []
    for step in range(length):
        state = layers.Activation("tanh")(of_input(inputs[:, step]) + of_state(state))
        outputs.append(layers.Reshape((1, classes))(head(state)))
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, size=(batch, length)).astype("int32")
    data = rng.normal(size=(batch, length, width)).astype("float32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = keras.Model(inputs, layers.Concatenate(axis=1)(outputs))
    return Problem(model, loss, keras.optimizers.SGD(0.01), data, labels)


def mlp(clip: float | None = None) -> Problem:
    """Weights larger than activations: when is each gradient used up by its update?"""
    keras.utils.set_random_seed(1)
    batch, width = 64, 1536
    x = inputs = keras.Input((width,))
    for _ in range(8):
        x = layers.Dense(width, activation="relu")(x)
    rng = np.random.default_rng(0)
    data = rng.normal(size=(batch, width)).astype("float32")
    labels = rng.integers(0, 10, size=(batch,)).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(1e-3, global_clipnorm=clip)
    return Problem(keras.Model(inputs, layers.Dense(10)(x)), loss, optimizer, data, labels)


MODELS = {
    "branches": Subject("8 heads over one feature map, 64 px, batch 16", branches),
    "rnn": Subject("RNN, 32 steps unrolled, width 512, batch 64", tied_rnn),
    "mlp": Subject("MLP, 8 x 1536, batch 64, Adam", mlp),
    "clipped": Subject("the same with global_clipnorm: needs all gradients", lambda: mlp(1.0)),
    "gpt": Subject("GPT, 6 layers, batch 2, no remapping", lambda: gpt(2, 6), remapping=False),
    "unet": Subject("U-Net, 4 levels, 128 px, batch 4", lambda: unet(4, 128)),
    "inception": Subject("InceptionV3, 224 px, batch 8", classifier("InceptionV3")),
    "nasnet": Subject("NASNetMobile, 224 px, batch 8", classifier("NASNetMobile")),
    "densenet": Subject("DenseNet121, 224 px, batch 8", classifier("DenseNet121")),
    "xception": Subject("Xception, 224 px, batch 8", classifier("Xception")),
    "efficientnet": Subject("EfficientNetB0, 224 px, batch 8", classifier("EfficientNetB0")),
}


def report_of(trainer: FunctionTrainer, **options: Any) -> lms.Report:
    trainer.options = options
    lms.clear_reports()
    trainer.step(True)
    return largest_report()


def overhead_in_own_order(trainer: FunctionTrainer, share: float) -> float | None:
    """Predicted by the planner alone, for the graph as the executor runs it; None: not possible."""
    with tempfile.TemporaryDirectory() as directory:
        report_of(trainer, memory_budget="100000 GiB", dump_graphs=directory)
        graph = core.largest_dump(directory)
        figures = core.call(
            "plan", graph, "--budget", f"{share:g}%", "--json", "--seconds", SECONDS
        )
    return figures["added_share"] if figures["feasible"] else None


def child(model: Subject, args: argparse.Namespace) -> dict[str, Any]:
    lms.memory.reset_peak()
    trainer = trainer_of(model, {})
    trainer.step(False)
    own = overhead_in_own_order(trainer, args.share)
    share = report_of(
        trainer, memory_budget=f"{args.share:g}%", safety_margin=0.0, planner_seconds=SECONDS
    )
    order = report_of(trainer, memory_budget="min", recompute=False)
    trainer.step(False)
    trainer.step(True)
    steps = measured_in_turn(trainer, args.rounds)
    return {
        "steps": steps,
        "overhead_own_order": own,
        "overhead_any_order": share.predicted_time_overhead
        if share.status == "rewritten"
        else None,
        "share": json.loads(share.to_json()),
        "order": json.loads(order.to_json()),
    }


def summary(name: str, result: dict[str, Any]) -> dict[str, Any]:
    steps, order = result["steps"], result["order"]
    resident = order["resident_bytes"]
    stock = [step["peak"] for step in steps["stock"]]
    ours = [step["peak"] for step in steps["lms"]]
    return {
        "model": name,
        "title": MODELS[name].title,
        "status": order["status"],
        "stock_peaks": stock,
        "lms_peaks": ours,
        "share": max(ours) / min(stock),
        "predicted_share": (order["peak_after_bytes"] - resident)
        / (order["peak_before_bytes"] - resident),
        "edges": len(order["decisions"]),
        "cpu": ratios(steps, "cpu"),
        "wall": ratios(steps, "wall"),
        "overhead_own_order": result["overhead_own_order"],
        "overhead_any_order": result["overhead_any_order"],
        "reason": result["share"]["reason"],
    }


def show(rows: list[dict[str, Any]], share: float, facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title="Order as a means: activation peak, worst of lms / best of stock, and time ratios",
        caption=machine_line(facts),
    )
    columns = ("model", "stock MB", "order alone MB", "share", "predicted", "edges", "CPU", "wall")
    for column in (*columns, f"added at {share:g}%, own order", "any order"):
        table.add_column(column)

    def megabytes(peaks: list[int]) -> str:
        return f"{min(peaks) / 1e6:.1f} to {max(peaks) / 1e6:.1f}"

    def percent(value: float | None) -> str:
        return "not possible" if value is None else f"{value:+.2%}"

    for row in rows:
        table.add_row(
            row["title"],
            megabytes(row["stock_peaks"]),
            megabytes(row["lms_peaks"]) if row["status"] == "rewritten" else row["status"],
            f"{row['share']:.1%}",
            f"{row['predicted_share']:.1%}",
            str(row["edges"]),
            spread(row["cpu"]),
            spread(row["wall"]),
            percent(row["overhead_own_order"]),
            percent(row["overhead_any_order"]),
        )
    Console(width=220).print(table)


def main() -> None:
    parser = parser_for_models(__doc__, MODELS, rounds=5)
    parser.add_argument("--share", type=float, default=50, help="percent, with recomputation")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parsed(parser, MODELS)
    if args.child:
        result = child(MODELS[args.models], args)
        pathlib.Path(args.out).write_text(json.dumps(result) + "\n")
        return
    rows = []
    for name in args.models.split(","):
        words = ["--child", "--models", name, "--rounds", str(args.rounds)]
        rows.append(summary(name, in_child(__file__, [*words, "--share", f"{args.share:g}"])))
        print(f"{name}: order alone {rows[-1]['share']:.1%}; {rows[-1]['reason']}", flush=True)
    facts = machine()
    show(rows, args.share, facts)
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps({"machine": facts, "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
