"""Processor seconds that lms takes to read and plan large steps, at any budget and batch.

./run bench planning_time [--only TEXT] [--budgets auto,50%,min] [--write] [--out FILE]

Each model is traced once, with an open batch, goes through TensorFlow's own passes once, and is
planned for a V100 of 16 GB with its link to the host at each batch and budget, as lms.plan does:
nothing runs. The seconds are those of the thread that plans, all stages of lms together; what
TensorFlow's own passes take is not in them. Work that was counted is beside them: the same on any
machine. --write keeps the figures in benchmarks/results.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf
from _measure import machine, machine_line, write_results
from lms._planning import plan as _plan
from lms._settings import devices as _devices
from lms._tf import plan as _tf_plan
from rich import box
from rich.console import Console
from rich.table import Table

layers = keras.layers
DEVICE = "V100-16GB"


def transformer48() -> Any:
    """48 pre-norm blocks of width 512 with 8 heads over 256 tokens of 8,000."""
    tokens = keras.Input((256,), dtype="int32")
    x = layers.Embedding(8000, 512)(tokens)
    for _ in range(48):
        y = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(8, 64)(y, y)])
        y = layers.LayerNormalization()(x)
        y = layers.Dense(2048, activation="gelu")(y)
        x = layers.Add()([x, layers.Dense(512)(y)])
    return keras.Model(tokens, layers.Dense(8000, activation="softmax")(x))


def application(name: str) -> Callable[[], Any]:
    return lambda: getattr(tf.keras.applications, name)(weights=None)


# Title: how the model is made, its optimizer, batches.
SUBJECTS: dict[str, tuple[Callable[[], Any], str, tuple[int, ...]]] = {
    "ResNet-152, SGD": (application("ResNet152"), "sgd", (64, 256, 1520)),
    "ResNet-152, Adam": (application("ResNet152"), "adam", (64, 256, 1520)),
    "DenseNet121, SGD": (application("DenseNet121"), "sgd", (256,)),
    "transformer, 48 layers, Adam": (transformer48, "adam", (64,)),
    "NASNetLarge, SGD": (application("NASNetLarge"), "sgd", (32,)),
}


def rows_of(title: str, budgets: list[str]) -> list[dict[str, Any]]:
    make, optimizer, batches = SUBJECTS[title]

    def made() -> Any:
        model = make()
        model.compile(optimizer, "sparse_categorical_crossentropy")
        return model

    rows = []
    with _tf_plan.uncollected():
        device = _devices.find(DEVICE)
        traced, _ = _plan.Source(made).trace((None,))
        prepared = _tf_plan.prepare(traced, device)
        for batch in batches:
            for budget in budgets:
                options = _plan.gathered(budget, {"unknown_dim": batch})
                try:
                    report = _plan.planned_from(prepared, device, options)
                except ValueError as error:
                    rows.append(
                        {"step": title, "batch": batch, "budget": budget, "error": str(error)}
                    )
                    continue
                stages = report.stage_seconds
                rows.append(
                    {
                        "step": title,
                        "batch": batch,
                        "budget": budget,
                        "nodes": report.nodes_before,
                        "seconds": sum(stages.values()),
                        "stages": {name: round(value, 4) for name, value in stages.items()},
                        "work": getattr(report, "planner_work", None),
                        "status": report.status,
                        "reason": report.reason,
                        "peak_before_bytes": report.peak_before_bytes,
                        "peak_after_bytes": report.peak_after_bytes,
                        "budget_bytes": report.budget_bytes,
                        "added": report.predicted_time_overhead,
                        "warnings": list(report.warnings),
                    }
                )
                show_row(rows[-1])
    return rows


def show_row(row: dict[str, Any]) -> None:
    print(
        f"  {row['step']}, batch {row['batch']}, {row['budget']}: {row['seconds']:.2f} s, "
        f"{row['status']}",
        file=sys.stderr,
        flush=True,
    )


def show(rows: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    table = Table(box=box.SIMPLE, title=f"Planning for a {DEVICE}", caption=machine_line(facts))
    for column in ("step", "nodes", "batch", "budget", "s", "read", "plan", "work, M", "status"):
        table.add_column(column, justify="left" if column in ("step", "status") else "right")
    table.add_column("GiB", justify="right")
    table.add_column("added", justify="right")
    for row in rows:
        if "error" in row:
            table.add_row(
                row["step"], "", str(row["batch"]), row["budget"], "", "", "", "", row["error"]
            )
            continue
        plan = sum(row["stages"].get(name, 0) for name in ("plan", "rewrite", "verify"))
        table.add_row(
            row["step"],
            str(row["nodes"]),
            str(row["batch"]),
            row["budget"],
            f"{row['seconds']:.2f}",
            f"{row['seconds'] - plan:.2f}",
            f"{plan:.2f}",
            "" if row["work"] is None else f"{row['work'] / 1e6:.0f}",
            row["status"],
            f"{row['peak_before_bytes'] / 2**30:.2f} to {row['peak_after_bytes'] / 2**30:.2f}",
            f"{row['added']:+.1%}" if row["status"] == "rewritten" else "",
        )
    console = Console(width=140)
    console.print(table)
    seconds = [row["seconds"] for row in rows if "seconds" in row]
    console.print(f"most: {max(seconds):.2f} s, median: {statistics.median(seconds):.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="steps whose title has this in it")
    parser.add_argument("--budgets", default="auto,50%,min")
    parser.add_argument("--write", action="store_true", help="keep the figures in the results")
    parser.add_argument("--out", help="write the figures here, as JSON")
    args = parser.parse_args()
    rows = []
    for title in SUBJECTS:
        if args.only in title:
            rows += rows_of(title, args.budgets.split(","))
    facts = machine()
    show(rows, facts)
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps({"machine": facts, "rows": rows}, indent=1))
    if args.write:
        print("kept in", write_results("planning_time", facts, rows))


if __name__ == "__main__":
    main()
