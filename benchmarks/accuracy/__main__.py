"""Predicted and measured: memory, and added time, of training steps, stock and rewritten.

./run bench accuracy [--models NAME,...|families|all] [--budgets 75%,50%,35%] [--rounds 5]
                     [--options JSON] [--out FILE] [--calibrate | --fit]

Each model runs in a process of its own: stock (a budget that it fits) and each budget, with the
default options (but feedback off) and TensorFlow's default threads, steps of stock and lms in
turn. Memory is the activation peak by the allocator, the highest of the steps. With --calibrate
the step is timed once with lms.calibrate() beforehand. With --fit Keras' own loop trains, over
batches whose size the graph does not know, a smaller one among them: seconds are then of a whole
fit, and added time is not judged. All models take about an hour on two cores; the rows so far are
written as they come, to benchmarks/results where all models were asked for.
Which kernels run, and what they take, depends on the processor: the table and the figures name it
and its instruction sets, and the name of the file does, so that those of several stay.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from _measure import in_child, machine, write_results

from accuracy import zoo
from accuracy.rows import rows_of
from accuracy.table import show, verdict

MAIN = str(pathlib.Path(__file__))


def names_of(text: str) -> list[str]:
    if text in ("all", "families"):
        return list(zoo.NAMES if text == "all" else zoo.FAMILIES)
    names = text.split(",")
    unknown = sorted(set(names) - set(zoo.NAMES))
    if unknown:
        raise SystemExit(f"unknown model {', '.join(unknown)}; known: {', '.join(zoo.NAMES)}")
    return names


def kept(file: str | None, budgets: list[str]) -> list[dict[str, Any]]:
    """The rows that an earlier run has written there, of models of which it has them all."""
    if file is None or not pathlib.Path(file).exists():
        return []
    rows = json.loads(pathlib.Path(file).read_text())["rows"]
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["model"], set()).add(row["budget"])
    return [row for row in rows if found[row["model"]] == {"stock", *budgets}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="all", help="names, 'families' or 'all' (default)")
    parser.add_argument("--budgets", default="75%,50%,35%")
    parser.add_argument("--rounds", type=int, default=5, help="steps of each, in turn")
    parser.add_argument("--options", default="{}", help="for lms.enable(), as JSON")
    parser.add_argument("--calibrate", action="store_true", help="time the step's ops beforehand")
    parser.add_argument("--fit", action="store_true", help="by model.fit, unknown batch")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", help="write the figures here, as JSON; go on with what is there")
    args = parser.parse_args()
    if args.fit and args.calibrate:
        parser.error("--calibrate times functions, not model.fit")
    budgets = [budget for budget in args.budgets.split(",") if budget]
    if args.child:
        options = json.loads(args.options)
        rows = rows_of(args.models, budgets, args.rounds, options, args.calibrate, args.fit)
        pathlib.Path(args.out).write_text(json.dumps(rows))
        return

    failed = []
    names = names_of(args.models)
    facts = machine()
    rows = kept(args.out, budgets)
    there = {row["model"] for row in rows}
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name}" + ": there already" * (name in there), flush=True)
        if name in there:
            continue
        words = ["--child", "--models", name, "--budgets", args.budgets, "--options", args.options]
        words += ["--rounds", str(args.rounds)] + ["--calibrate"] * args.calibrate
        words += ["--fit"] * args.fit
        try:
            rows += in_child(MAIN, words)
        except Exception as error:
            failed.append(name)
            print(f"  failed: {error}", flush=True)
            continue
        for row in rows[-1 - len(budgets) :]:
            peak = max(row["measured_bytes"]) / 1e6
            print(
                f"  {row['budget']:>6} {row['status']:10} {peak:7.1f} MB, predicted "
                f"{row['accuracy']:.3f} of it; added {row['measured_added_cpu']:+.1%} CPU, "
                f"predicted {row['predicted_added']:+.1%}",
                flush=True,
            )
        if args.out:
            pathlib.Path(args.out).write_text(json.dumps({"machine": facts, "rows": rows}) + "\n")
        elif args.models == "all":
            write_results(
                "accuracy_fit" if args.fit else "accuracy", facts, rows, by_processor=True
            )
    show(rows, facts)
    for line in verdict(rows, times=not args.fit):
        print(line)
    if failed:
        raise SystemExit(f"no rows for {', '.join(failed)}")


if __name__ == "__main__":
    main()
