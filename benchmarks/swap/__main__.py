"""Swapping and recomputation, alone and together, beside stock TensorFlow.

./run bench swap [--models resnet50,...] [--budgets 50%,40%] [--ways recompute,swap,mix]
                 [--rounds 6] [--directory DIR] [--bandwidth 300MB [--own-figures]]
                 [--calibrate] [--quick] [--out FILE]
./run bench swap --speeds
./run bench swap --fake-gpu

On a CPU (the default) tensors are spilled to a file in --directory. Each row is a model, a budget
(of the activation peak) and a way: recomputation alone, swapping alone, both. A child process
takes steps of stock and of lms in turn with TensorFlow's default threads; another one, with one
thread of each kind, compares 3 losses and all weights bit for bit. Beside the rows: what the disk
carries in a plain loop, and whether that is enough for the budget. With --bandwidth the kernel
slows the children's disk down to so much each way, and lms is told so (with --own-figures it finds
out by itself); where the kernel cannot, the planner's figures for several speeds are shown
(--speeds shows these alone). What lms keeps of a device (its profile, what a link carries) is that
of this run alone; with --calibrate each model's operations are timed beforehand.

--fake-gpu needs no GPU: it plans for one, and runs nothing. What runs on a GPU is ./run gpu.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Collection
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from _measure import in_child, machine, machine_line, why_not, write_results

from swap import cpu, disk, fake_gpu, published, throttle
from swap.problems import SUBJECTS, WAYS
from swap.table import CPU_COLUMNS, cpu_row, print_table, speed_rows

MAIN = str(pathlib.Path(__file__))
UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
CHILD_SECONDS = 3600  # a part that takes longer has failed
THROUGH_MEMORY = 1 << 30  # of the GPU that the whole optimizer is tried for


def size_of(text: str) -> int:
    match = re.fullmatch(r"([\d.]+)\s*([KMG]i?B)?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: a number, perhaps with KB, MiB, …")
    return int(float(match[1]) * UNITS[match[2] or ""])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="", help="default: all of the mode")
    parser.add_argument("--budgets", default="50%,40%")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--rounds", type=int, default=6, help="steps of each, in turn")
    parser.add_argument("--directory", default="/var/tmp", help="where to spill to")
    parser.add_argument("--bandwidth", dest="rate", type=size_of, default=0, help="of the disk")
    parser.add_argument("--own-figures", action="store_true", help="lms measures the slow disk")
    parser.add_argument("--calibrate", action="store_true", help="time the step's ops beforehand")
    parser.add_argument("--quick", action="store_true", help="3 rounds, bits are not compared")
    parser.add_argument("--no-bits", action="store_true", help="bits are not compared")
    parser.add_argument("--out", help="write the figures here, as JSON")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--speeds", action="store_true", help="plans for disks of several speeds")
    mode.add_argument("--fake-gpu", action="store_true", help="plans for a GPU that is not there")
    parser.add_argument("--memory", type=size_of, default=16 << 30, help="of the GPU")
    for name in ("child", "group"):
        parser.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return args
    known: Collection[str] = fake_gpu.PROBLEMS if args.fake_gpu else SUBJECTS
    args.all_rows = not args.models and args.ways == ",".join(WAYS) and not args.quick
    args.models = args.models or ",".join(known)
    for kind, given, there in (("model", args.models, known), ("way", args.ways, WAYS)):
        unknown = set(given.split(",")) - set(there)
        if unknown:
            parser.error(f"unknown {kind} {', '.join(sorted(unknown))}; known: {', '.join(there)}")
    if args.quick:
        args.rounds, args.no_bits = min(args.rounds, 3), True
    return args


def run_child(args: argparse.Namespace) -> None:
    if args.group:
        throttle.join(args.group)
    children = {**cpu.CHILDREN, **fake_gpu.CHILDREN}
    pathlib.Path(args.out).write_text(json.dumps(children[args.child](args)))


def child(part: str, args: argparse.Namespace, **instead: Any) -> Any:
    """Runs a part in a process of its own, with these arguments but for those given here."""
    values: dict[str, Any] = {
        name: getattr(args, name)
        for name in ("models", "budgets", "ways", "rounds", "directory", "memory")
    }
    rate = 0 if args.own_figures else args.rate
    values.update({"bandwidth": rate, "group": args.group, **instead})
    words = ["--child", part]
    for name, value in values.items():
        if value != "":
            words += [f"--{name}", str(value)]
    return in_child(MAIN, words, CHILD_SECONDS)


def finish(name: str, args: argparse.Namespace, facts: dict[str, Any], rows: Any) -> None:
    """A run of all rows goes to benchmarks/results, any run where --out says."""
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps({"machine": facts, "rows": rows}) + "\n")
    elif args.all_rows:
        print(f"written to {os.path.relpath(write_results(name, facts, rows))}")


# ---- On a CPU ----


def cpu_rows(args: argparse.Namespace, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Writes the rows so far to --out as they come."""
    rows = []
    for name in args.models.split(","):
        if args.calibrate:
            print(child("calibrate", args, models=name)["text"], flush=True)
        for budget in args.budgets.split(","):
            print(f"{name} at {budget}: {args.rounds} steps of each way ...", flush=True)
            for way in args.ways.split(","):
                given = {"models": name, "budgets": budget, "ways": way}
                try:
                    row = cpu.summary(name, way, budget, child("measure", args, **given))
                    if not args.no_bits and row["status"] == "rewritten":
                        row["identity"] = child("identity", args, **given)
                    print(cpu.progress(row), flush=True)
                except subprocess.SubprocessError as error:
                    row = {"model": name, "way": way, "budget": budget, "error": why_not(error)}
                    print(f"  {way}: {row['error']}", flush=True)
                rows.append(row)
                if args.out:
                    finish("", args, machine(), cpu_results(args, figures, rows))
    return rows


def cpu_results(
    args: argparse.Namespace, figures: dict[str, Any], rows: list[dict[str, Any]]
) -> dict[str, Any]:
    return {"disk": figures, "bandwidth": args.rate, "rows": rows}


def main_cpu(args: argparse.Namespace) -> None:
    figures = child("disk", args)
    print(f"The disk by itself, {disk.in_words(figures)}", flush=True)
    rows = cpu_rows(args, figures)
    facts = machine()
    title = "Steps under a budget, lms / stock in turn"
    if args.rate:
        title += f", the disk slowed down to {args.rate / 1e6:g} MB/s each way"
    print_table(title, CPU_COLUMNS, [cpu_row(row) for row in rows], machine_line(facts))
    for line in cpu.disk_lines(rows, figures):
        print(line)
    name = "swap_throttled" if args.rate else "swap"
    finish(name, args, facts, cpu_results(args, figures, rows))
    failed = [row for row in rows if row.get("error")]
    if failed:
        raise SystemExit(f"{len(failed)} rows failed")


def main_throttled(args: argparse.Namespace) -> None:
    try:
        with throttle.throttled(args.directory, args.rate) as args.group:
            main_cpu(args)
    except throttle.NoThrottle as reason:
        print(f"The disk cannot be slowed down here ({reason}): only plans are shown.")
        main_speeds(args)


def main_speeds(args: argparse.Namespace) -> None:
    rows: list[dict[str, Any]] = []
    for name in args.models.split(","):
        print(f"{name}: planning for {len(cpu.SPEEDS)} speeds ...", flush=True)
        rows += child("speeds", args, models=name)
    facts = machine()
    columns, lines = speed_rows(rows)
    title = "Predicted added time by the speed of the disk, both ways over one lane; nothing ran"
    print_table(title, columns, lines, machine_line(facts))
    finish("swap_speeds", args, facts, rows)


# ---- For a GPU that is not there ----


def main_fake_gpu(args: argparse.Namespace) -> None:
    rows: list[dict[str, Any]] = []
    through: list[dict[str, Any]] = []
    reach = {}
    for model in args.models.split(","):
        print(f"{model}: planning for a GPU that is not there ...", flush=True)
        reach[model] = child("plan", args, models=model)
        rows += reach[model].pop("rows")
    for way in args.ways.split(","):
        given = {"models": args.models.split(",")[0], "ways": way, "memory": THROUGH_MEMORY}
        through.append(child("through", args, **given))
        print(fake_gpu.through_text(through[-1]), flush=True)
    facts = machine()
    title = f"Plans for a GPU with {args.memory / 2**30:g} GiB, {fake_gpu.DEVICE_TEXT}"
    caption = "NOTHING RAN ON A GPU: predictions of the planner, links and speeds are assumed"
    print_table(title, fake_gpu.COLUMNS, [fake_gpu.cells(row) for row in rows], caption)
    for model, found in reach.items():
        print(fake_gpu.reach_text(model, found))
    print("Published by others, as multiples of what fits without:")
    for line in published.lines(list(reach)):
        print(line)
    result = {"device": fake_gpu.DEVICE_TEXT, "memory": args.memory, "reach": reach}
    finish("swap_fake_gpu", args, facts, {**result, "rows": rows, "through": through})


def main() -> None:
    args = arguments()
    if args.child:
        run_child(args)
        return
    with tempfile.TemporaryDirectory() as directory:
        os.environ["LMS_PROFILE_DIR"] = directory
        if args.fake_gpu:
            main_fake_gpu(args)
        elif args.speeds:
            main_speeds(args)
        elif args.rate:
            main_throttled(args)
        else:
            main_cpu(args)


if __name__ == "__main__":
    main()
