"""The model of TensorFlow's allocator beside the allocator: real runs, request by request.

./run bench arena [--models resnet50,vgg,…] [--share 0.6] [--steps 10] [--write] [--out FILE]

Each run is a process of its own under TF_MKL_ALLOC_MAX_BYTES, with oneDNN on and two inter-op
threads, in four ways: stock, with 1.5 times the memory that it takes; lms' "auto" with twice that,
which leaves the step as it is; "auto" with --share of it, which rewrites; and that without places
(place=False). After a first step every request of --steps steps is recorded and replayed in the
model: its chunks, their addresses, the most bytes in use and the map at the end must be the
allocator's. Where lms is on the peak that it has predicted stands beside that of the run. --write
keeps the figures in benchmarks/results.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import caps
import keras
import lms
import tensorflow as tf
from _arguments import parsed
from _measure import in_child, machine, machine_line, why_not, write_results
from planning import steps
from rich import box
from rich.console import Console
from rich.table import Table

layers = keras.layers
MIB = 2**20
# The budget, what the pool may take of the peak of stock (0: --share), and whether tensors may get
# places beforehand: the allocator is asked for a few blocks then, and for little else.
WAYS = {
    "stock": ("", 1.5, False),
    "left alone": ("auto", 2.0, True),
    "rewritten": ("auto", 0.0, True),
    "by requests": ("auto", 0.0, False),
}


def application(name: str, side: int, optimizer: str) -> Any:
    """A function as those of planning.steps are."""

    def build(batch: int) -> tuple[Any, int]:
        model = getattr(keras.applications, name)(
            weights=None, input_shape=(side, side, 3), classes=100
        )
        model.compile(optimizer, "sparse_categorical_crossentropy")
        return model, batch

    return build


def lstm(batch: int) -> tuple[Any, int]:
    """Two LSTM layers of 128 over 64 tokens of 1,000, a label for each; Adam."""
    inputs = keras.Input((64,), dtype="int32")
    x = layers.Embedding(1000, 128)(inputs)
    x = layers.LSTM(128, return_sequences=True)(x)
    x = layers.LSTM(128, return_sequences=True)(x)
    model = keras.Model(inputs, layers.Dense(50, activation="softmax")(x))
    model.compile("adam", "sparse_categorical_crossentropy")
    return model, batch


def perceptron(batch: int) -> tuple[Any, int]:
    """Twelve residual layers of 512 with batch norm and gelu; SGD with momentum."""
    x = inputs = keras.Input((512,))
    for _ in range(12):
        y = layers.Dense(512)(layers.BatchNormalization()(x))
        x = layers.Add()([x, layers.Activation("gelu")(y)])
    model = keras.Model(inputs, layers.Dense(10, activation="softmax")(x))
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "sparse_categorical_crossentropy")
    return model, batch


MODELS = {
    **caps.MODELS,
    "vgg": application("VGG16", 64, "sgd"),
    "xception": application("Xception", 96, "adam"),
    "lstm": lstm,
    "perceptron": perceptron,
}
BATCHES = {**caps.BATCHES, "vgg": 192, "xception": 16, "lstm": 128, "perceptron": 4096}


def recorded(name: str, budget: str, place: bool, count: int) -> dict[str, Any]:
    """`count` steps under the limit of this process, after a first. budget: "": stock."""
    from lms import _native

    tf.config.threading.set_inter_op_parallelism_threads(2)
    keras.utils.set_random_seed(1)
    if problem := _native.watch_pool():
        raise SystemExit(problem)
    model, batch = MODELS[name](BATCHES[name])
    step, data = steps.ready(model, batch)
    with lms.enabled(budget, place=place) if budget else contextlib.nullcontext():
        step(*data)
        _native.start_arena_trace()
        for _ in range(count):
            step(*data)
        row: dict[str, Any] = _native.stop_arena_trace()
    if budget:
        report = max(lms.reports(), key=lambda report: report.peak_before_bytes)
        row.update(status=report.status, predicted=report.peak_after_bytes)
        # What others hold between steps, the optimizer's counter say, no report includes.
        others = row["total_bytes_before"] - report.resident_bytes
        row["ratio"] = report.peak_after_bytes / (row["total_peak_bytes"] - others)
    return row


def measured(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each way."""

    def run(budget: str, limit: int, place: bool = True) -> dict[str, Any]:
        os.environ.update(TF_ENABLE_ONEDNN_OPTS="1", TF_MKL_ALLOC_MAX_BYTES=str(limit))
        arguments = ["--child", name, "--budget", budget, "--steps", str(args.steps)]
        arguments += [] if place else ["--by-requests"]
        try:
            return in_child(__file__, arguments)
        except subprocess.SubprocessError as error:
            return {"problem": why_not(error)}

    plain = run("", caps.UNLIMITED)["total_peak_bytes"]
    rows = []
    for way, (budget, times, place) in WAYS.items():
        limit = int((times or args.share) * plain) // MIB * MIB
        row = {"model": name, "batch": BATCHES[name], "way": way, "limit": limit}
        rows.append({**row, **run(budget, limit, place)})
        print(f"  {rows[-1]}", flush=True)
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(title="The allocator and its model", box=box.SIMPLE)
    for column in ("model", "way"):
        table.add_column(column)
    columns = ("limit, MiB", "requests", "otherwise", "peak, MiB", "of the model", "same map")
    for column in (*columns, "predicted / measured"):
        table.add_column(column, justify="right")
    for row in rows:
        name = f"{row['model']} ({row['batch']})" if row["way"] == "stock" else ""
        limit = f"{row['limit'] / MIB:.0f}"
        if "problem" in row:
            table.add_row(name, row["way"], limit, row["problem"])
            continue
        peaks = (f"{row[key] / MIB:.2f}" for key in ("peak_bytes", "model_peak_bytes"))
        ratio = f"{row['ratio']:.3f}" if "ratio" in row else ""
        same = "yes" if row["same_map"] else "no"
        counts = (f"{row[key]:,}" for key in ("requests", "differences"))
        table.add_row(name, row["way"], limit, *counts, *peaks, same, ratio)
    Console(width=140).print(table)
    served = [row for row in rows if "problem" not in row]
    exact = [r for r in served if not r["differences"] and r["same_map"]]
    ratios = [row["ratio"] for row in served if "ratio" in row]
    near = [ratio for ratio in ratios if abs(ratio - 1) <= 0.03]
    print(f"exact: {len(exact)} of {len(rows)} runs")
    if ratios:
        print(f"predicted within 3%: {len(near)} of {len(ratios)}; the lowest {min(ratios):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--share", type=float, default=0.6, help="of the memory that stock takes")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--write", action="store_true", help="keep the figures in the results")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--budget", default="auto", help=argparse.SUPPRESS)
    parser.add_argument("--by-requests", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", help="write the figures here, as JSON")
    args = parsed(parser, MODELS)
    if args.child:
        row = recorded(args.child, args.budget, not args.by_requests, args.steps)
        pathlib.Path(args.out).write_text(json.dumps(row))
        return
    rows = [row for name in args.models.split(",") for row in measured(name, args)]
    print(machine_line(machine()))
    show(rows)
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(rows, indent=1))
    if args.write:
        print("kept in", write_results("arena", machine(), rows))


if __name__ == "__main__":
    sys.exit(main())
