"""What each way to save memory brings on one model, alone and together with the others.

./run bench together [--write] [--out FILE]

ResNet-50 at 128 px with Adam and an effective batch of 32, trained by Keras' fit for three batches.
Each row is a process of its own: peak of all that TensorFlow's allocator had in use in an epoch
after the first, weights and optimizer slots included, and seconds of the processor per image. Rows
that change the results say so; lms changes none.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import lms.keras
import numpy as np
from _measure import cpu_seconds, in_child, machine, machine_line, write_results
from rich import box
from rich.console import Console
from rich.table import Table

BATCH = 32
SIZE = 128
STEPS = 3


@dataclasses.dataclass(frozen=True)
class Row:
    """One way to train. `changes`: what it changes of the results, in words."""

    name: str
    batch: int = BATCH
    accumulate: int | None = None
    policy: str = "float32"
    optimizer: str = "adam"
    budget: str | None = None
    changes: str = ""


ROWS = (
    Row("stock"),
    Row("lms, 60%", budget="60%"),
    Row("lms, min", budget="min"),
    Row("four batches of 8", 8, 4, changes="batch normalization sees 8 images"),
    Row("mixed_bfloat16", policy="mixed_bfloat16", changes="lower precision"),
    Row("SGD with momentum", optimizer="momentum", changes="another optimizer"),
    Row("SGD", optimizer="sgd", changes="another optimizer"),
    Row("mixed_bfloat16, lms min", policy="mixed_bfloat16", budget="min", changes="precision"),
    Row(
        "four batches of 8, mixed_bfloat16, SGD, lms min",
        8,
        4,
        "mixed_bfloat16",
        "sgd",
        "min",
        "all of these",
    ),
)


def optimizer(row: Row) -> Any:
    told: dict[str, Any] = {}
    if row.accumulate:
        told["gradient_accumulation_steps"] = row.accumulate
    if row.optimizer == "adam":
        return keras.optimizers.Adam(1e-3, **told)
    return keras.optimizers.SGD(0.01, 0.9 if row.optimizer == "momentum" else 0.0, **told)


def measured_row(row: Row) -> dict[str, Any]:
    lms.memory.reset_peak()  # counts from here on: weights, too
    keras.utils.set_random_seed(1)
    keras.mixed_precision.set_dtype_policy(row.policy)
    model = keras.applications.ResNet50(weights=None, input_shape=(SIZE, SIZE, 3), classes=100)
    model.compile(optimizer(row), "sparse_categorical_crossentropy", jit_compile=False)
    x = np.random.default_rng(0).random((STEPS * BATCH, SIZE, SIZE, 3), dtype="float32")
    y = np.arange(STEPS * BATCH) % 100
    told = {"batch_size": row.batch, "shuffle": False, "verbose": 0}
    if row.budget is not None:
        lms.enable(row.budget)
    model.fit(x, y, **told)  # traces, and lms measures its plan
    model.fit(x, y, **told)
    lms.memory.reset_peak()
    seconds = cpu_seconds()
    model.fit(x, y, **told)
    seconds = cpu_seconds() - seconds
    report = lms.report() if row.budget is not None else None
    return {
        **dataclasses.asdict(row),
        "peak_bytes": lms.memory.peak_bytes(),
        "variables_bytes": sum(v.numpy().nbytes for v in model.variables)
        + sum(v.numpy().nbytes for v in model.optimizer.variables),
        "cpu_seconds_per_image": seconds / len(x),
        "status": report.status if report is not None else "",
    }


def show(rows: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    table = Table(box=box.SIMPLE, title="ResNet-50, 128 px", caption=machine_line(facts))
    for column in ("", "peak, MB", "of stock", "CPU time", "weights and slots, MB", "changes"):
        table.add_column(column, justify="left" if column in ("", "changes") else "right")
    stock = rows[0]
    for row in rows:
        table.add_row(
            row["name"],
            f"{row['peak_bytes'] / 1e6:.0f}",
            f"{row['peak_bytes'] / stock['peak_bytes']:.0%}",
            f"{row['cpu_seconds_per_image'] / stock['cpu_seconds_per_image']:.2f}",
            f"{row['variables_bytes'] / 1e6:.0f}",
            row["changes"] or "nothing",
        )
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="keep the figures in results/")
    parser.add_argument("--out", help="a file for the figures")
    parser.add_argument("--row", type=int, help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.row is not None:
        pathlib.Path(told.out).write_text(json.dumps(measured_row(ROWS[told.row])), "utf-8")
        return
    rows = []
    for number, row in enumerate(ROWS):
        rows.append(in_child(__file__, ["--row", str(number)]))
        print(f"  {row.name}: {rows[-1]['peak_bytes'] / 1e6:.0f} MB", file=sys.stderr, flush=True)
    facts = machine()
    show(rows, facts)
    if told.out:
        pathlib.Path(told.out).write_text(json.dumps({"machine": facts, "rows": rows}), "utf-8")
    if told.write:
        print("kept in", write_results("together", facts, rows))


if __name__ == "__main__":
    main()
