"""Workers in processes of their own, beside the same number of workers with stock TensorFlow.

./run bench distributed [--models resnet50,transformer] [--loops fit,own] [--workers 2,4]
                        [--budgets 60%,min] [--steps 20] [--pack MIB] [--out FILE]
./run bench distributed --random 200 [--first-seed 0]

Each row is a model, a way to train it and a number of workers, all on this machine, with one thread
of each kind. Each worker trains it by MultiWorkerMirroredStrategy (gRPC, rings): by stock twice,
and then with lms at each budget, from the same weights. Reported are whether losses and weights of
all workers have stock's bits (and whether stock has its own), the largest rise of the allocator's
peak above what was there before a step, beside what the budget leaves, and the time of a step. With
--pack TensorFlow reduces gradients in packs of so many MiB, in place of all at once.

--random trains so many random small models on two workers, each under options of its own, half of
the time with a profile of its own, and with delays at random. What takes more than --patience
seconds counts as a failure, as does any difference.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from rich import box
from rich.console import Console
from rich.table import Table

from distributed.cluster import Cluster

MODELS = ("resnet50", "transformer")
LOOPS = ("fit", "own")
AT_ONCE = 20  # random models that a pair of processes trains before it is replaced


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", default=",".join(MODELS), help="default: all")
    parser.add_argument("--loops", default=",".join(LOOPS), help="fit: tf_keras; own: Keras 3")
    parser.add_argument("--workers", default="2,4", help="how many (default 2,4)")
    parser.add_argument("--budgets", default="60%,min")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--pack", type=int, default=0, help="MiB of gradients that are one pack")
    parser.add_argument("--random", type=int, default=0, help="so many random models instead")
    parser.add_argument("--first-seed", type=int, default=0, help="of these (default 0)")
    parser.add_argument(
        "--patience", type=float, default=900, help="seconds without a sign of life"
    )
    parser.add_argument("--out", help="write the figures here, as JSON")
    told = parser.parse_args()
    for name, known in (("models", MODELS), ("loops", LOOPS)):
        unknown = set(getattr(told, name).split(",")) - set(known)
        if unknown:
            parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return told


def trained(told: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for model in told.models.split(","):
        for loop in told.loops.split(","):
            for workers in map(int, told.workers.split(",")):
                task = {
                    "model": model,
                    "loop": loop,
                    "budgets": told.budgets.split(","),
                    "steps": told.steps,
                    "pack_bytes": told.pack << 20,
                }
                said = Cluster("distributed.training", task, workers).run(told.patience)
                rows += rows_of(task, workers, said)
                print(f"  {model}, {loop}, {workers} workers", file=sys.stderr, flush=True)
    return rows


def rows_of(task: dict[str, Any], workers: int, said: list[list[Any]]) -> list[dict[str, Any]]:
    """One row for each budget; `said` by each worker: one figure for each training."""
    row = {key: task[key] for key in ("model", "loop", "pack_bytes")} | {"workers": workers}
    if any(len(figures) < 2 + len(task["budgets"]) for figures in said):
        return [{**row, "budget": ", ".join(task["budgets"]), "problem": "a worker did not end"}]
    stock, again = ([figures[number] for figures in said] for number in range(2))
    bits = [figure["bits"] for figure in stock]
    rows = []
    for number, budget in enumerate(task["budgets"]):
        ours = [figures[2 + number] for figures in said]
        rows.append(
            {
                **row,
                "budget": budget,
                "status": ", ".join(sorted({figure["status"] for figure in ours})),
                "stock_equals_stock": bits == [figure["bits"] for figure in again],
                "equal": bits == [figure["bits"] for figure in ours],
                "stock_peak": max(figure["peak"] for figure in again),
                "peaks": [figure["peak"] for figure in ours],
                "allowed": [figure["allowed"] for figure in ours],
                "seconds": max(figure["seconds"] for figure in ours),
                "stock_seconds": max(figure["seconds"] for figure in again),
                "predicted_overhead": max(figure["predicted_overhead"] for figure in ours),
            }
        )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(box=box.SIMPLE, title="activations at the peak, the worst of all workers")
    table.add_column("")
    for column in ("budget", "bits", "status"):
        table.add_column(column)
    for column in ("stock, MB", "with lms", "allowed", "time", "predicted"):
        table.add_column(column, justify="right")
    for row in rows:
        name = f"{row['model']}, {row['loop']}, {row['workers']} workers"
        if row["pack_bytes"]:
            name += f", packs of {row['pack_bytes'] >> 20} MiB"
        if "problem" in row:
            table.add_row(name, row["budget"], row["problem"])
            continue
        bits = "equal" if row["equal"] else "DIFFER"
        worst = max(range(row["workers"]), key=lambda w: row["peaks"][w] / row["allowed"][w])
        table.add_row(
            name,
            row["budget"],
            bits if row["stock_equals_stock"] else f"{bits}; stock's own differ",
            row["status"],
            f"{row['stock_peak'] / 1e6:.1f}",
            f"{row['peaks'][worst] / 1e6:.1f}",
            f"{row['allowed'][worst] / 1e6:.1f}",
            f"{row['seconds'] / row['stock_seconds']:.2f}",
            f"{1 + row['predicted_overhead']:.2f}",
        )
    Console(width=120).print(table)


def random_models(told: argparse.Namespace) -> dict[str, Any]:
    """How many models were trained, rewritten, and what went wrong by their seeds."""
    todo = list(range(told.first_seed, told.first_seed + told.random))
    failures: dict[int, str] = {}
    trained_ones = rewritten = profiled = 0
    while todo:
        cluster = Cluster("distributed.random_models", {"seeds": todo[:AT_ONCE]}, 2)
        said = cluster.run(told.patience)
        done = min(map(len, said))
        for seed, *figures in zip(todo, *said):
            rewritten += any("rewritten" in figure["statuses"] for figure in figures)
            profiled += any(figure["profile"] for figure in figures)
            wrong = [figure["problem"] for figure in figures if figure["problem"]]
            if wrong:
                failures[seed] = "; ".join(wrong)
        trained_ones += done
        if done < len(todo[:AT_ONCE]):
            failures[todo[done]] = cluster.problem or "a worker ended"
            done += 1
        todo = todo[done:]
        text = f"  {trained_ones} trained, {rewritten} rewritten, {len(failures)} failed"
        print(text, file=sys.stderr, flush=True)
    return {
        "models": trained_ones,
        "rewritten": rewritten,
        "by_a_profile": profiled,
        "failures": failures,
    }


def main() -> None:
    told = arguments()
    found: Any
    if told.random:
        found = random_models(told)
        print(f"{found['models']} models on two workers, {found['rewritten']} rewritten")
        for seed, problem in found["failures"].items():
            print(f"seed {seed}: {problem}")
    else:
        found = trained(told)
        show(found)
    if told.out:
        with open(told.out, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    if told.random and found["failures"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
