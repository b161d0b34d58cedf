"""One model in the ways that people train it, batch sizes unknown to the graph: is the budget met?

./run bench programs [--budget 60%] [--batch 32] [--out FILE]

Keras' fit with arrays, with tf.data (with and without drop_remainder), with steps_per_execution,
and a loop by hand whose shapes are None, each with a smaller last batch, or a dropped one. Each
runs in a process of its own with one thread of each kind, so that losses can be compared with
stock's bit by bit. Measured is the highest rise of the bytes in use during any call of the
training function in a second epoch; what fit itself holds (the arrays as tensors) is there before.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import lms
import numpy as np
import tensorflow as tf
from _measure import in_child, largest_report, machine, machine_line, one_thread_of_each_kind
from _models import convolution, images

layers = keras.layers
SIZE = 32
BATCHES = 6.5  # per epoch: the last one has half the rows


def make_model() -> keras.Model:
    keras.utils.set_random_seed(1)
    x = inputs = keras.Input((SIZE, SIZE, 3))
    for _ in range(6):
        x = layers.ReLU()(convolution(x, 16))
    x = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, x)


def compiled(**options: Any) -> keras.Model:
    model = make_model()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss, **options)
    return model


def data(batch: int) -> tuple[np.ndarray, np.ndarray]:
    return images(int(BATCHES * batch), SIZE, 10)


def dataset(batch: int, drop_remainder: bool) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(data(batch)).batch(batch, drop_remainder)


Epoch = Callable[[], list[float]]  # trains for an epoch, and returns losses


class Peak(keras.callbacks.Callback):
    """The highest rise of the bytes in use during a call."""

    def __init__(self) -> None:
        super().__init__()
        self.rises: list[int] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.in_use = lms.memory.bytes_in_use()
        lms.memory.reset_peak()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.rises.append(lms.memory.peak_bytes() - self.in_use)


peak = Peak()  # of the process


def fit(model: keras.Model, *args: Any, **options: Any) -> Epoch:
    def epoch() -> list[float]:
        history = model.fit(*args, **options, shuffle=False, verbose=0, callbacks=[peak])
        return list(history.history["loss"])

    return epoch


def arrays(batch: int) -> Epoch:
    return fit(compiled(), *data(batch), batch_size=batch)


def pipeline(batch: int) -> Epoch:
    return fit(compiled(), dataset(batch, False))


def pipeline_dropping(batch: int) -> Epoch:
    return fit(compiled(), dataset(batch, True))


def several_steps(batch: int) -> Epoch:
    return fit(compiled(steps_per_execution=4), *data(batch), batch_size=batch)


def several_steps_of_pipeline(batch: int) -> Epoch:
    return fit(compiled(steps_per_execution=4), dataset(batch, True))


def by_hand(batch: int) -> Epoch:
    model = make_model()
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    pixels = tf.TensorSpec([None, SIZE, SIZE, 3], tf.float32)

    @tf.function(input_signature=[pixels, tf.TensorSpec([None], tf.int32)])
    def train(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(inputs, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    inputs, labels = data(batch)
    starts = range(0, len(inputs), batch)

    def epoch() -> list[float]:
        losses = []
        for i in starts:
            rows = tf.constant(inputs[i : i + batch]), tf.constant(labels[i : i + batch])
            peak.on_train_batch_begin(i)
            losses.append(float(train(*rows)))
            peak.on_train_batch_end(i)
        return losses

    return epoch


PROGRAMS: dict[str, tuple[str, Callable[[int], Epoch]]] = {
    "arrays": ("fit(x, y, batch_size=)", arrays),
    "pipeline": ("fit(dataset), a smaller last batch", pipeline),
    "dropping": ("fit(dataset), drop_remainder", pipeline_dropping),
    "executions": ("fit(x, y, batch_size=), steps_per_execution=4", several_steps),
    "executions-dropping": ("the same, dataset with drop_remainder", several_steps_of_pipeline),
    "by-hand": ("a tf.function of [None, 32, 32, 3]", by_hand),
}


def measured_row(name: str, batch: int, budget: str) -> dict[str, Any]:
    one_thread_of_each_kind()
    lms.memory.reset_peak()

    def epochs() -> tuple[list[str], int]:
        epoch = PROGRAMS[name][1](batch)
        losses = epoch()
        peak.rises.clear()
        losses += epoch()
        return [loss.hex() for loss in losses], max(peak.rises)

    stock, stock_bytes = epochs()
    with lms.enabled(budget):
        losses, measured_bytes = epochs()
    report = largest_report()
    return {
        "program": name,
        "status": report.status,
        "reason": report.reason,
        "sizes": list(report.sizes),
        "warnings": list(report.warnings),
        "stock_bytes": stock_bytes,
        "budget_bytes": report.budget_bytes - report.resident_bytes,
        "predicted_bytes": report.peak_after_bytes - report.resident_bytes,
        "measured_bytes": measured_bytes,
        "losses_equal": losses == stock,
    }


def show(rows: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Activation peak of an epoch, MB", caption=machine_line(facts))
    for column in ("program", "status", "sizes"):
        table.add_column(column)
    for column in ("stock", "budget", "predicted", "measured", "of the budget", "losses"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            PROGRAMS[row["program"]][0],
            row["status"],
            ", ".join(row["sizes"]) or "known",
            *(f"{row[f'{field}_bytes'] / 1e6:.2f}" for field in ("stock", "budget", "predicted")),
            f"{row['measured_bytes'] / 1e6:.2f}",
            f"{row['measured_bytes'] / row['budget_bytes']:.3f}",
            "equal" if row["losses_equal"] else "DIFFER",
        )
    Console(width=170).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--child", choices=sorted(PROGRAMS), help=argparse.SUPPRESS)
    parser.add_argument("--out", help="write the figures here, as JSON")
    args = parser.parse_args()
    if args.child:
        row = measured_row(args.child, args.batch, args.budget)
        pathlib.Path(args.out).write_text(json.dumps(row))
        return
    words = ["--budget", args.budget, "--batch", str(args.batch)]
    rows = []
    for name in PROGRAMS:
        print(f"{name} ...", flush=True)
        rows.append(in_child(__file__, ["--child", name, *words]))
    facts = machine()
    show(rows, facts)
    for row in rows:
        for warning in row["warnings"]:
            print(f"{row['program']}: {warning}")
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps({"machine": facts, "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
