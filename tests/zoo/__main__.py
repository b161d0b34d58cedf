"""Every model of keras.applications, and those that people write: same bits, budget met?

./run zoo [--others | --gpu] [--models REGEX] [--quick] [--shard I/N] [--jobs N] [--resume]
          [--write] [--seconds S] [--memory GIB] [--table] [--place DIR]

Each model runs in a process of its own with one thread of each kind: three steps of stock
TensorFlow, then with the budgets "70%" and "min" (zoo/child.py says how). Rows are added to
build/zoo/rows.jsonl as they come, what the processes say to build/zoo/logs. After an interruption
--resume goes on: models whose row is there are left out unless lms or the model has changed since.
--table measures nothing and shows the rows that there are; --write puts them into docs/zoo.md.
--place keeps rows and logs in another folder.

--others: programs with models that nobody of this project wrote for it, or as tutorials have them,
run as their users do, with libraries of their own in build/zoo-others/venv; budgets "60%", "min"
and one in bytes (zoo/others/child.py says how). Rows and logs are in build/zoo-others, --write
makes docs/zoo-others.md.

--gpu: on the first GPU, or on the stand-in for one (tests/standin) where there is none; budgets
"60%", "min", and "auto" in a process of its own, under a limit at which stock TensorFlow runs out
of memory (zoo/gpu_child.py says how). build/zoo-gpu, docs/zoo-gpu.md.

Exit status 1: a value differs from stock's where stock repeats itself, a process crashed, lms
failed, or a step took more than a budget that its report says is met.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import re
import time
from typing import Any

from zoo import kinds, pool, rows, table, verdict
from zoo.kinds import Kind

ABOUT_OWN = """
`./run zoo --write`: models at their smallest, each in a process of its own with one intra-op and
one inter-op thread. Three steps of stock TensorFlow, and three with each budget from the same
start; all losses of all steps and all variables (weights, optimizer slots, moving averages,
random states) are compared bit for bit. Where they differ, stock is optimised anew four times and
compared with itself. "MB" are a budget's activations: budget_bytes less resident_bytes; "min"
asks for the least peak found, and its budget is the one to ask for in bytes to get there, with
the margin of 5% that all budgets have. "measured/budget" is the allocator's peak in the last step
above what was in use before it, over that; met is 1.000 or less. "measured/predicted" is the same
over the predicted peak. Options are the default ones: where a step is measured to be over its
budget, it is planned again, and three more steps follow ("planned 2 times"). "first step": of
the budget, the step that made the (first) plan. "planning s": of all that lms does, for one
optimisation.
"""
ABOUT_OTHERS = """
`./run zoo --others --write`: programs with models of other people, or written as tutorials have
them, each in a process of its own with one intra-op and one inter-op thread, and with libraries
of an environment of their own. A program runs as a whole, from its beginning, by stock TensorFlow
and under each budget; all that its steps return and all variables at the end are compared bit for
bit. Stock runs four times, each time as other instances of the same functions, in which another of
two ops may run first: where values differ it is compared with itself. "75% in bytes" is the number
of bytes that leaves 75% of the predicted activations. "predicted MB" and "stock MB": the
activations' peak of the step as stock runs it, by the last plan that was made for it, and the
highest that the four took. "MB" are a budget's
activations: budget_bytes less resident_bytes. "measured/budget": the allocator's peak above what
was in use before, the highest of the steps after the last plan, but for those in which a function
is called for the first time, over that; up to 1.02 counts as kept. A step begins when its input
pipeline has filled its buffers.
"measured/predicted": the same over the predicted peak, which is that of the order that takes most.
"warned": the report says that sizes are not known. Options are the default ones: steps are planned
again where they take more than the budget.

An instance of a function runs in one of several orders, and a report foretells the peak of each
(`order_peaks`). So predictions are counted in three ways: the highest over the highest measured; of
the nearest order over what was measured (of stock's instances the worst); and what is usual, the
median of the orders, over the median of the instances.
"""
ABOUT_GPU = """
`./run zoo --gpu --write`: the models of [the zoo](zoo.md) on a GPU, each in a process of its own.
"device" says which: the stand-in is no card, but a device of type "GPU" whose kernels are the
CPU's, with the allocator, streams and pinned memory that TensorFlow brings for one
(tests/standin). Peaks are those of the device's allocator (`get_memory_info`), which hands out
more than it was asked for. Columns are as there. "auto" is measured on a device whose whole memory
is halfway between the lowest peak that lms reached and the peak of stock TensorFlow. The five
ConvNeXt do not run on the stand-in: XLA compiles their grouped convolutions, and it has none.
"""
ABOUT = {
    kinds.OWN.title: ABOUT_OWN,
    kinds.OTHERS.title: ABOUT_OTHERS,
    kinds.GPU.title: ABOUT_GPU,
}


def chosen(kind: Kind, args: argparse.Namespace) -> list[str]:
    names = list(kind.catalogue.QUICK if args.quick else kind.catalogue.NAMES)
    if args.models:
        names = [name for name in names if re.search(args.models, name)]
    part, parts = args.shard
    names = [name for number, name in enumerate(names) if number % parts == part - 1]
    if not names:
        raise SystemExit("no such model; known: " + ", ".join(kind.catalogue.NAMES))
    return names


def split_by_memory(kind: Kind, names: list[str], gib: float) -> tuple[list[str], list[str]]:
    """Those that `gib` GiB are enough for, and the others."""
    small = [name for name in names if kind.catalogue.NEEDED.get(name, 0) <= gib]
    return small, [name for name in names if name not in small]


def shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError("I/N, with I from 1 to N")
    return int(match[1]), int(match[2])


def run_child(kind: Kind, name: str, out: str) -> None:
    """Measures one model in this process, and writes its row to `out` as a JSON line."""
    os.environ.update(kind.environment(name))
    child = kind.child()
    row = child.measure(name)
    row["versions"] = rows.versions(kind)
    row["cpu_seconds"] = time.process_time()
    pathlib.Path(out).write_text(json.dumps(row) + "\n")


def measure(kind: Kind, names: list[str], bounds: pool.Bounds, done: int) -> None:
    """Adds a row for each name; `done` others have been measured before."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    known = rows.latest(kind)
    # The longest first, so that the last ones do not run alone; unknown ones may be long.
    names = sorted(names, key=lambda n: -known.get(n, {}).get("process_seconds", 1e9))
    running: list[str] = []
    keys: dict[str, str] = {}  # of what each began with
    parts = (TextColumn("zoo"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*parts, TextColumn("{task.description}"))
    with bar as progress, contextlib.closing(pool.run(kind, names, bounds, known)) as events:
        task = progress.add_task("", total=len(names) + done, completed=done)
        for name, row in events:
            if row is None:
                running.append(name)
                keys[name] = rows.key(kind, name)
            else:
                running.remove(name)
                today = datetime.date.today().isoformat()
                rows.add(kind, {**row, "key": keys[name], "date": today})
                progress.advance(task)
                for line in verdict.faults(row) or [_in_short(row)]:
                    progress.print(line, highlight=False, markup=False)
            progress.update(task, description=", ".join(running))


def _in_short(row: dict[str, Any]) -> str:
    parts = [
        f"{budget} {verdict.final(at)['status']} {verdict.ratio(at) or 0:.3f}"
        for budget, at in row["budgets"].items()
    ]
    return f"{row['model']}: {', '.join(parts)} ({row['process_seconds']:.0f} s)"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./run zoo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--others", action="store_true", help="programs of others")
    which.add_argument("--gpu", action="store_true", help="on a GPU, or the stand-in for one")
    parser.add_argument("--models", default="", help="those whose names match, in any part")
    parser.add_argument("--quick", action="store_true", help="a few small ones")
    parser.add_argument("--shard", type=shard, default=(1, 1), help="I/N: every Nth model")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--resume", action="store_true", help="leave out what is measured")
    parser.add_argument("--seconds", type=float, default=1200, help="that a model may take")
    parser.add_argument(
        "--memory", type=float, default=3, help="GiB a process may take (default 3)"
    )
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument(
        "--write", action="store_true", help="the page in docs, of all rows there are"
    )
    parser.add_argument("--place", type=pathlib.Path, help="of rows and logs")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    args = parser.parse_args()
    kind = kinds.OTHERS if args.others else kinds.GPU if args.gpu else kinds.OWN
    if args.place:
        kind = dataclasses.replace(kind, place=args.place)
    if args.child:
        run_child(kind, args.child, args.out)
        return 0

    names = chosen(kind, args)
    large: list[str] = []
    if not args.table:
        names, large = split_by_memory(kind, names, args.memory)
    interrupted = False
    if not args.table:
        known = rows.latest(kind)
        left = [n for n in names if not (args.resume and rows.finished(kind, n, known.get(n)))]
        bounds = pool.Bounds(args.jobs, args.seconds, int(args.memory * 2**30))
        try:
            measure(kind, left, bounds, len(names) - len(left))
        except KeyboardInterrupt:
            interrupted = True

    from _machine import machine_facts

    facts = machine_facts()
    known = rows.latest(kind)
    found = [known[name] for name in names if name in known]
    table.show(kind.title, found, facts)
    faults = [line for row in found for line in verdict.faults(row)]
    left_out = [f"left out: {n} needs --memory {kind.catalogue.NEEDED[n]}" for n in large]
    for line in [*verdict.summary(found), *faults, *left_out]:
        print(line)
    if args.write:
        every = [known[name] for name in kind.catalogue.NAMES if name in known]
        missing = [name for name in kind.catalogue.NAMES if name not in known]
        page = table.markdown(kind.title, every, missing, facts, ABOUT[kind.title])
        kind.document.write_text(page)
        print(f"written to {kind.document.relative_to(kinds.ROOT)}")
    if interrupted:
        print("interrupted; --resume goes on")
        return 130
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
