"""What it costs to evaluate what a step computes from shapes: a step read with it, and without.

./run bench reading_time [--rounds 5] [--write]

A step whose batch is open, so that sizes are computed when it runs, is read (lms.plan: nothing
runs, and nothing is planned, as the budget fits). Seconds are those of the thread that reads: all
stages, and the one that evaluates ("shapes"). The cost is that over all others. Beside it the same
step with a given batch, of which TensorFlow's shape inference knows all sizes: a smaller graph.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
from _measure import machine, machine_line, write_results
from lms._planning import plan as _plan
from lms._settings import devices as _devices
from lms._tf import plan as _tf_plan
from planning_time import DEVICE, application, transformer48
from rich import box
from rich.console import Console
from rich.table import Table

layers = keras.layers
BATCH = 16


def unrolled_rnn() -> Any:
    """Two LSTMs of 128 units over 100 steps, unrolled."""
    x = inputs = keras.Input((100, 32))
    for _ in range(2):
        x = layers.LSTM(128, return_sequences=True, unroll=True)(x)
    return keras.Model(inputs, layers.Dense(10, activation="softmax")(x[:, -1]))


SUBJECTS: dict[str, Callable[[], Any]] = {
    "NASNetLarge": application("NASNetLarge"),
    "transformer, 48 layers": transformer48,
    "RNN, unrolled": unrolled_rnn,
}


def row_of(title: str, rounds: int) -> dict[str, Any]:
    def made() -> Any:
        model = SUBJECTS[title]()
        model.compile("sgd", "sparse_categorical_crossentropy")
        return model

    row: dict[str, Any] = {"step": title, "batch": BATCH, "given": [], "open": []}
    with _tf_plan.uncollected():
        device = _devices.find(DEVICE)
        steps = {
            kind: _tf_plan.prepare(_plan.Source(made).trace((size,))[0], device)
            for kind, size in (("given", BATCH), ("open", None))
        }
        for _ in range(rounds):
            for kind, prepared in steps.items():
                options = _plan.gathered("10TiB", {"unknown_dim": BATCH})
                report = _plan.planned_from(prepared, device, options)
                if report.assumption:
                    raise SystemExit(f"{title}: {report.assumption}")
                row[kind].append(dict(report.stage_seconds))
                row["nodes"], row[f"{kind}_bytes"] = report.nodes_before, report.peak_before_bytes
    return row


def total(stages: dict[str, float]) -> float:
    return sum(stages.values())


def show(rows: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    table = Table(box=box.SIMPLE, title="Reading a step", caption=machine_line(facts))
    names = ("step", "nodes", "without", "with", "cost", "spread", "batch given")
    for column in names:
        table.add_column(column, justify="left" if column == "step" else "right")
    for row in rows:
        cost = [s["shapes"] / (total(s) - s["shapes"]) for s in row["open"]]
        without = statistics.median(total(s) - s["shapes"] for s in row["open"])
        table.add_row(
            row["step"],
            str(row["nodes"]),
            f"{without:.3f} s",
            f"{statistics.median(map(total, row['open'])):.3f} s",
            f"{statistics.median(cost):+.1%}",
            f"{min(cost):+.1%} to {max(cost):+.1%}",
            f"{statistics.median(map(total, row['given'])):.3f} s",
        )
    Console(width=130).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="keep the figures in the results")
    args = parser.parse_args()
    rows = [row_of(title, args.rounds) for title in SUBJECTS]
    facts = machine()
    show(rows, facts)
    if args.write:
        print("kept in", write_results("reading_time", facts, rows))


if __name__ == "__main__":
    main()
