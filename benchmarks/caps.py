"""The smallest hard limit of TensorFlow's pool of memory under which a step trains: stock, lms.

./run bench caps [--models resnet50,transformer,…] [--budget auto] [--steps 1000] [--shares 0.8,0.6]
                 [--write] [--out FILE]

Each run is a process of its own under TF_MKL_ALLOC_MAX_BYTES, with oneDNN on. The smallest limit is
found by bisection, to 2%, with --trial runs of the step, and confirmed with --steps of them; where
these run out of memory the next larger limit counts. After that the step is trained at shares of
stock's own limit, for how much of a limit lms uses and what it adds to the time. --write keeps the
figures in benchmarks/results.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import lms
from _arguments import parsed
from _measure import in_child, machine, machine_line, why_not, write_results
from planning import steps
from rich import box
from rich.console import Console
from rich.table import Table

MIB = 2**20
UNLIMITED = 8 << 30
NEAR = 1.02  # of the bisection
LONGEST = 1800  # seconds of a process


def densenet(batch: int) -> tuple[Any, int]:
    """keras.applications' DenseNet121, 64 px, 100 classes; SGD."""
    model = keras.applications.DenseNet121(weights=None, input_shape=(64, 64, 3), classes=100)
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model, batch


def efficientnet(batch: int) -> tuple[Any, int]:
    """keras.applications' EfficientNetB0, 64 px, 100 classes; Adam."""
    model = keras.applications.EfficientNetB0(weights=None, input_shape=(64, 64, 3), classes=100)
    model.compile("adam", "sparse_categorical_crossentropy")
    return model, batch


# Sizes at which a step of stock takes a few hundred MiB and less than a second.
BATCHES = {
    **{"resnet50": 8, "transformer": 8, "unet": 8, "mobilenet": 32, "segmenter": 8, "gated": 32},
    **{"densenet": 16, "efficientnet": 16},
}
MODELS = {**steps.STEPS, "densenet": densenet, "efficientnet": efficientnet}


def trained(name: str, budget: str, count: int) -> dict[str, Any]:
    """`count` steps under the limit of this process. budget: "": stock."""
    keras.utils.set_random_seed(1)
    lms.memory.reset_peak()
    model, batch = MODELS[name](BATCHES[name])
    step, data = steps.ready(model, batch)
    with lms.enabled(budget) if budget else contextlib.nullcontext():
        step(*data)
        times = []
        for _ in range(count - 1):
            began = time.perf_counter()
            step(*data)
            times.append(time.perf_counter() - began)
    times.sort()
    row: dict[str, Any] = {"seconds": times[len(times) // 2], "peak": lms.memory.peak_bytes()}
    if budget:
        report = max(lms.reports(), key=lambda report: report.peak_before_bytes)
        row.update(
            status=report.status,
            predicted=report.peak_after_bytes,
            added=report.predicted_time_overhead,
            optimizer=report.optimizer_seconds,
        )
    return row


class Runs:
    """Of one model, each limit once."""

    def __init__(self, name: str, trial: int) -> None:
        self.name = name
        self.trial = trial
        self.known: dict[tuple[str, int, int], dict[str, Any] | None] = {}

    def row(self, budget: str, limit: int, count: int = 0) -> dict[str, Any] | None:
        """What came of it; None where it ran out of memory."""
        key = (budget, limit, count or self.trial)
        if key not in self.known:
            os.environ.update(TF_ENABLE_ONEDNN_OPTS="1", TF_MKL_ALLOC_MAX_BYTES=str(limit))
            arguments = ["--child", self.name, "--budget", budget, "--steps", str(key[2])]
            try:
                self.known[key] = in_child(__file__, arguments, LONGEST)
                result = f"{self.known[key]}"
            except subprocess.SubprocessError as error:
                self.known[key] = None
                result = why_not(error)
            which = f"lms {budget}" if budget else "stock"
            print(f"  {self.name}, {which}, {limit / MIB:.0f} MiB: {result}", flush=True)
        return self.known[key]

    def smallest(self, budget: str, needed: int, count: int) -> int:
        """The smallest limit that trains, to 2%, in whole MiB: not below `needed`, the bytes that
        tensors take. One that does in trials and not in `count` steps gives way to the next."""
        low = int(0.95 * needed) // MIB * MIB
        high = int(1.1 * needed) // MIB * MIB + MIB
        while not self.row(budget, high):
            low, high = high, int(1.1 * high) // MIB * MIB + MIB
        while high > low * NEAR:
            middle = (low + high) // 2 // MIB * MIB
            if middle in (low, high):
                break
            if self.row(budget, middle):
                high = middle
            else:
                low = middle
        while count > self.trial and not self.row(budget, high, count):
            high = int(high * NEAR) // MIB * MIB + MIB
        return high


def measured(name: str, args: argparse.Namespace) -> dict[str, Any]:
    runs = Runs(name, args.trial)
    plain, least = (runs.row(budget, UNLIMITED) for budget in ("", "min"))
    if not plain or not least:
        raise SystemExit(f"{name} does not train without a limit")
    stock = runs.smallest("", plain["peak"], args.trial)
    ours = runs.smallest(args.budget, least["peak"], args.steps)
    row: dict[str, Any] = {"model": name, "batch": BATCHES[name], "stock": stock, "lms": ours}
    row["at_the_least"] = runs.row(args.budget, ours, max(args.steps, args.trial))
    row |= {"bytes": plain["peak"], "shares": []}
    for share in map(float, args.shares.split(",")):
        limit = max(ours, int(share * stock) // MIB * MIB)
        ran = runs.row(args.budget, limit)
        if ran:
            used, slower = ran["predicted"] / limit, ran["seconds"] / plain["seconds"] - 1
            row["shares"].append({**ran, "limit": limit, "used": used, "slower": slower})
    return row


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(title="Smallest limit that trains, MiB", box=box.SIMPLE)
    columns = ("stock", "lms", "lms / stock", "lms / predicted", "added")
    for column in ("model", *columns, "limit: predicted peak, predicted and measured added time"):
        table.add_column(column, justify="right" if column in columns else "left")
    for row in rows:
        shares = "; ".join(
            f"{at['limit'] / MIB:.0f}: {at['used']:.0%}, {at['added']:+.1%}, {at['slower']:+.0%}"
            for at in row["shares"]
        )
        least = row["at_the_least"]
        limits = (f"{row[key] / MIB:.0f}" for key in ("stock", "lms"))
        ratios = (f"{row['lms'] / size:.2f}" for size in (row["stock"], least["predicted"]))
        added = f"{least['added']:+.1%}"
        table.add_row(f"{row['model']} ({row['batch']})", *limits, *ratios, added, shares)
    Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--budget", default="auto")
    parser.add_argument("--steps", type=int, default=1000, help="that must train at the least")
    parser.add_argument("--trial", type=int, default=12, help="steps of each run of the bisection")
    parser.add_argument("--shares", default="0.8,0.6", help="of stock's limit")
    parser.add_argument("--write", action="store_true", help="keep the figures in the results")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--out", help="write the figures here, as JSON")
    args = parsed(parser, MODELS)
    if args.child:
        row = trained(args.child, args.budget, args.steps)
        pathlib.Path(args.out).write_text(json.dumps(row))
        return
    rows = []
    for name in args.models.split(","):
        rows.append(measured(name, args))
        show(rows[-1:])
    print(machine_line(machine()))
    show(rows)
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(rows, indent=1))
    if args.write:
        print("kept in", write_results("caps", machine(), rows))


if __name__ == "__main__":
    sys.exit(main())
