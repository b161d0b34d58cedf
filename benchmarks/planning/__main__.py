"""Planning without a run: how long it takes, how near it is, and what batch it says fits.

./run bench planning [--parts time,accuracy,limit] [--models resnet50,transformer,…]
                     [--limit 2GiB] [--write] [--out FILE]

time: ResNet-152 at batch 256 on a V100 of 16 GB, in a process of its own; seconds of the wall and
of the processor. accuracy: what lms.plan predicts for this machine, and the allocator's real peak
of the same step (the highest of four calls). limit: lms.max_batch_size(check=True) under a process
limit, without lms and with it, beside a search by real runs, each in a process of its own under
RLIMIT_DATA, in steps of 5%. --write keeps the figures in benchmarks/results.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

_STARTED = time.perf_counter(), time.process_time()

import lms  # noqa: E402
import tensorflow as tf  # noqa: E402

_IMPORTED = time.perf_counter(), time.process_time()

from _measure import in_child, machine, machine_line, write_results  # noqa: E402
from lms._planning import plan as _plan  # noqa: E402
from lms._planning import process_memory as _process_memory  # noqa: E402
from lms._settings import devices as _devices  # noqa: E402
from lms._tf import plan as _tf_plan  # noqa: E402
from rich import box  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from planning import steps  # noqa: E402

MAIN = str(pathlib.Path(__file__))
MIB = 2**20
BATCHES = {"unet": 8}  # of the others: 16
STEP = 1.05  # of the search by runs
MOST_RUNS = 8


def resnet152() -> Any:
    model = tf.keras.applications.ResNet152(weights=None)
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


def child_time() -> dict[str, Any]:
    """The call of lms.plan in its parts; each is (wall, processor) seconds."""
    device, options = _devices.find("V100-16GB"), _plan.gathered("auto", {})
    clocks = [(time.perf_counter(), time.process_time())]
    with _tf_plan.uncollected():
        traced, held = _plan.Source(resnet152).trace((256,))
        clocks.append((time.perf_counter(), time.process_time()))
        report = _plan.planned(traced, device, options, held)
    clocks.append((time.perf_counter(), time.process_time()))

    def spent(begin: tuple[float, float], end: tuple[float, float]) -> list[float]:
        return [end[0] - begin[0], end[1] - begin[1]]

    return {
        "import": spent(_STARTED, _IMPORTED),
        "build_and_trace": spent(clocks[0], clocks[1]),
        "optimize": spent(clocks[1], clocks[2]),
        "plan_call": spent(clocks[0], clocks[2]),
        "of_which_lms_wall": report.optimizer_seconds,
        "load_average": os.getloadavg()[0],
        "nodes": report.nodes_before,
        "status": report.status,
        "peak_before_bytes": report.peak_before_bytes,
        "peak_after_bytes": report.peak_after_bytes,
        "budget_bytes": report.budget_bytes,
        "predicted_added": report.predicted_time_overhead,
        "swapped_bytes": report.swapped_bytes,
    }


def child_accuracy(name: str) -> dict[str, Any]:
    """Predicted and real peak of a step, activations and all: a call's rise over what was there
    before it, on top of what is resident."""
    batch = BATCHES.get(name, 16)
    report = lms.plan(lambda: steps.STEPS[name](None)[0], batch)
    model, _ = steps.STEPS[name](batch)
    step, data = steps.ready(model, batch)
    rises = []
    for _ in range(5):
        lms.memory.reset_peak()
        before = lms.memory.bytes_in_use()
        step(*data)
        rises.append(lms.memory.peak_bytes() - before)
    real = max(rises[1:]) + report.resident_bytes
    return {
        "model": name,
        "batch": batch,
        "predicted": report.peak_before_bytes,
        "resident": report.resident_bytes,
        "real": real,
        "ratio": report.peak_before_bytes / real,
    }


def child_limit(name: str, limit: int) -> dict[str, Any]:
    """lms.max_batch_size without lms and with it, and the search by real runs from its answers."""
    make = steps.STEPS[name]
    found = lms.max_batch_size(make, memory_limit=limit, check=True)
    return {"rows": [_searched(name, key, found) for key in ("without_lms", "with_lms")]}


def _searched(name: str, key: str, found: lms.LargestSize) -> dict[str, Any]:
    """In steps of 5%, up while they train and down while they do not."""
    limit, budget, own = found.memory_limit, found.budget_bytes, found.own_bytes
    if key == "without_lms":
        budget, own = 0, found.own_without_lms_bytes
    predicted = max((trial.size for trial in found.trials[key] if trial.fits), default=0)
    runs = dict(found.checks[key])

    def trains(size: int) -> bool:
        if size not in runs:
            ran = _process_memory.runs(steps.STEPS[name], size, limit, budget, own)
            runs[size] = bool(ran["ok"])
            print(f"  {name}: batch {size}: {ran}", flush=True)
        return runs[size]

    size, first = max(1, predicted), trains(max(1, predicted))
    while len(runs) < MOST_RUNS:
        size = max(size + 1, round(size * STEP)) if first else min(size - 1, round(size / STEP))
        if size < 1 or trains(size) != first:
            break
    largest = max((size for size, good in runs.items() if good), default=0)
    return {
        "model": name,
        "lms": key == "with_lms",
        "limit": limit,
        "own": own,
        "budget": found.budget_bytes,
        "plans": len(found.trials[key]),
        "seconds": found.seconds,
        "predicted": predicted,
        "slowdown": found.slowdown if key == "with_lms" else 0.0,
        "trains": largest,
        "fails": min((size for size, good in runs.items() if not good), default=0),
        "ratio": predicted / largest if largest else 0.0,
        "runs": {str(size): good for size, good in sorted(runs.items())},
    }


def show(rows: dict[str, Any]) -> None:
    console = Console(width=100)
    if "time" in rows:
        row = rows["time"]
        table = Table(title="ResNet-152, batch 256, V100-16GB", box=box.SIMPLE)
        for column in ("part", "wall s", "processor s"):
            table.add_column(column, justify="left" if column == "part" else "right")
        for part in ("import", "build_and_trace", "optimize", "plan_call"):
            table.add_row(part, *(f"{value:.2f}" for value in row[part]))
        console.print(table)
        before, after = (row[f"peak_{when}_bytes"] / 2**30 for when in ("before", "after"))
        console.print(
            f"{row['status']}: {before:.2f} to {after:.2f} GiB, {row['predicted_added']:+.1%}; "
            f"load average {row['load_average']:.1f}\n"
        )
    if rows.get("accuracy"):
        table = Table(title="Peak of a step on this machine", box=box.SIMPLE)
        for column in ("model", "batch", "predicted MiB", "allocator MiB", "ratio"):
            table.add_column(column, justify="left" if column == "model" else "right")
        for row in rows["accuracy"]:
            figures = (f"{row[key] / MIB:.1f}" for key in ("predicted", "real"))
            table.add_row(row["model"], str(row["batch"]), *figures, f"{row['ratio']:.3f}")
        console.print(table)
    if rows.get("limit"):
        limit = rows["limit"][0]["limit"] / 2**30
        table = Table(title=f"Largest batch, RLIMIT_DATA {limit:g} GiB", box=box.SIMPLE)
        columns = ("process's own MiB", "predicted", "trains", "fails", "ratio", "added time")
        for column in ("model", "", *columns):
            table.add_column(column, justify="right" if column in columns else "left")
        for row in rows["limit"]:
            sizes = (str(row[key]) for key in ("predicted", "trains", "fails"))
            own, added = f"{row['own'] / MIB:.0f}", f"{row['slowdown']:+.1%}" if row["lms"] else ""
            which = "lms" if row["lms"] else "stock"
            table.add_row(row["model"], which, own, *sizes, f"{row['ratio']:.3f}", added)
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", default="time,accuracy,limit")
    parser.add_argument("--models", default=",".join(steps.STEPS))
    parser.add_argument("--limit", type=int, default=2 << 30, help="bytes")
    parser.add_argument("--write", action="store_true", help="keep the figures in the results")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--out", help="write the figures here, as JSON")
    args = parser.parse_args()
    if args.child:
        children = {
            "time": child_time,
            "accuracy": lambda: child_accuracy(args.models),
            "limit": lambda: child_limit(args.models, args.limit),
        }
        pathlib.Path(args.out).write_text(json.dumps(children[args.child]()))
        return
    parts = args.parts.split(",")
    rows: dict[str, Any] = {}
    if "time" in parts:
        rows["time"] = in_child(MAIN, ["--child", "time"])
    for part in ("accuracy", "limit"):
        if part in parts:
            common = ["--child", part, "--limit", str(args.limit)]
            made = [in_child(MAIN, [*common, "--models", m]) for m in args.models.split(",")]
            rows[part] = [row for one in made for row in one["rows"]] if part == "limit" else made
    print(machine_line(machine()))
    show(rows)
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(rows, indent=1))
    if args.write:
        print("kept in", write_results("planning", machine(), rows))


if __name__ == "__main__":
    main()
