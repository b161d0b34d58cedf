"""What lms does on a GPU, in one command.

./run gpu [--minutes 20] [--parts sanity,kernels,tests,peaks,reach] [--models resnet50,...]
          [--ways swap,...] [--memory 16GiB] [--largest resnet50=180,...] [--rounds 5] [--quick]
          [--small] [--out DIR] [--to-scale pcie3|nvlink2]

Runs on the first GPU that TensorFlow sees, or, with small sizes, on the stand-in for one
(tests/standin) where it sees none: a device of type "GPU" with the kernels of the CPU, on which
bytes and bits mean something and seconds do not. Needs no network, only Python with TensorFlow 2.21
and lms. Parts:

  sanity  a few programs against the CPU; how fast it computes and copies
  kernels what convolutions allocate for themselves, and what the ops of a step of ResNet-50 take,
          beside what lms predicts
  tests   tests/python/gpu (with pytest)
  peaks   10 models at "60%", "min" and "auto": predicted and measured peaks, bits (./run zoo --gpu)
  sizes   11 programs of a card's size at "auto" and "min": predicted and measured peaks. It runs
          only where --parts names it. On the stand-in nothing is computed there
  reach   the largest size that stock trains within --memory, and multiples of it by recomputation
          (recompute), swapping (swap) and both (mix): seconds a step, share of transfers hidden

--largest: what stock trains at most, where that is known; it is not looked for then.
--to-scale: the stand-in's link is as slow beside its arithmetic as a V100's (gpu/scale.py): ratios
of times mean something then. Its parts are sanity and reach.

Where a part fails the others go on. When --minutes are over no further row is begun. Writes
gpu.json and gpu.md to --out (default: benchmarks/results, with the date).
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from _measure import RESULTS, in_child, why_not
from swap.__main__ import size_of
from swap.table import print_table

from gpu import reach, scale
from gpu.problems import REACHES

MAIN = str(pathlib.Path(__file__))
ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("sanity", "kernels", "tests", "peaks", "reach")
ASKED_FOR = ("sizes",)  # parts that run only where they are named
PEAKS = (
    "^(residual|decoder|vit|segmentation|volumes|seq2seq|MobileNet|ResNet50|DenseNet121|"
    "EfficientNetB0)$"
)
QUICK_PEAKS = "^residual$"
CHILD_SECONDS = 900
LIBRARIES = 2 << 30  # bytes of a card that CUDA's libraries may take for a process
ALL_MODELS = ",".join(name for name in REACHES if name != "cifar")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./run gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--models", default="", help=f"of reach: {', '.join(REACHES)}")
    parser.add_argument("--ways", type=reach.ways_of, default="recompute,swap,mix")
    parser.add_argument("--memory", type=size_of, default=0, help="of the device, for reach")
    parser.add_argument("--largest", type=reach.largest_of, default={}, metavar="MODEL=SIZE,...")
    parser.add_argument("--rounds", type=int, default=5, help="steps that are timed")
    parser.add_argument("--quick", action="store_true", help="least of each part: some minutes")
    parser.add_argument("--small", action="store_true", help="small sizes on a card, too")
    parser.add_argument("--to-scale", choices=tuple(scale.LINKS), default="")
    parser.add_argument("--out", type=pathlib.Path, default=None)
    for name, kind in (("child", str), ("model", str), ("way", str), ("size", int)):
        parser.add_argument(f"--{name}", type=kind, default=kind(), help=argparse.SUPPRESS)
    args = parser.parse_args()
    unknown = set(args.parts.split(",")) - {*PARTS, *ASKED_FOR}
    unknown |= set(filter(None, args.models.split(","))) - set(REACHES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if not args.models:
        args.models = "cifar" if args.quick else ALL_MODELS
    if args.to_scale and args.parts == ",".join(PARTS):
        args.parts = "sanity,reach"
    if args.quick:
        args.rounds, args.ways = 2, "mix"
    return args


# ---- Children ----


def run_child(args: argparse.Namespace) -> None:
    import _gpu

    _gpu.prepare(args.memory)
    if args.child == "sanity":
        from gpu import sanity

        found = {**sanity.measure(), "machine": _machine()}
    elif args.child == "kernels":
        from gpu import kernels

        found = kernels.measure(args.small, args.quick)
    elif args.child == "sizes":
        from gpu import sizes

        found = sizes.child_program(args)
    else:
        found = reach.child_trial(args)
    assert args.out is not None
    args.out.write_text(json.dumps(found))


def _machine() -> dict[str, Any]:
    from _measure import machine

    return machine()


def child(part: str, seconds: float, **values: Any) -> dict[str, Any]:
    words = ["--child", part]
    for name, value in values.items():
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)] if value else []
    return in_child(MAIN, words, seconds)


# ---- Parts: each returns figures, and adds lines and tables to the page ----


class Run:
    """What all parts share. left(): seconds until no further row is begun."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.ends = time.monotonic() + 60 * args.minutes
        self.page: list[str] = []
        self.faults: list[str] = []

    def left(self) -> float:
        return self.ends - time.monotonic()

    def say(self, line: str) -> None:
        print(line, flush=True)

    def write(self, line: str) -> None:
        """Here, and on the page."""
        self.say(line)
        self.page.append(line)

    def table(self, title: str, columns: list[str], rows: list[list[str]]) -> None:
        print_table(title, columns, rows)
        self.page += [
            "",
            f"## {title}",
            "",
            f"| {' | '.join(columns)} |",
            "|---" * len(columns) + "|",
        ]
        self.page += [f"| {' | '.join(row)} |" for row in rows] + [""]


def sanity(run: Run) -> dict[str, Any]:
    from gpu.sanity import in_words

    found = child("sanity", CHILD_SECONDS)
    run.write(in_words(found))
    run.faults += [f"sanity: {name} is not as on the CPU" for name in found["wrong"]]
    if link := run.args.to_scale:
        os.environ.update(scale.settings(link, found["operations_per_second"]))
        run.write(scale.in_words(link, found["operations_per_second"]))
    return found


def measure_kernels(run: Run) -> dict[str, Any]:
    from gpu import kernels

    found = child("kernels", CHILD_SECONDS, small=run.args.small, quick=run.args.quick)
    for line in kernels.in_words(found):
        run.write(line)
    run.table("What convolutions allocate", kernels.BYTES, kernels.byte_rows(found))
    if found["step"]["profiled"]:
        run.table("What ops take", kernels.TIMES, kernels.time_rows(found))
    return found


def tests(run: Run) -> dict[str, Any]:
    folder = ROOT / "tests" / "python" / "gpu"
    files = sorted(str(file) for file in folder.glob("test*gpu*.py"))
    if run.args.quick:
        files = [file for file in files if file.endswith("test_gpu.py")]
    try:
        import pytest  # noqa: F401
    except ImportError:
        run.write("tests: not run, as there is no pytest")
        return {}
    at_once = 0 if run.args.standin else _beside_each_other()
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(at_once), "-p", "no:cacheprovider"]
    command += files
    card = {} if run.args.standin else {"LMS_TEST_CARD": "1"}
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **card},
        capture_output=True,
        text=True,
        timeout=CHILD_SECONDS,
        check=False,
    )
    last = (ended.stdout.strip().splitlines() or ["nothing"])[-1]
    run.write(f"tests: {last}")
    failed = [line for line in ended.stdout.splitlines() if line.startswith("FAILED")]
    run.faults += failed or ([f"tests: {last}"] if ended.returncode else [])
    return {"last": last, "failed": failed}


def peaks(run: Run) -> dict[str, Any]:
    """By the zoo: the rows that it adds."""
    from zoo import kinds, table, verdict

    # Where results go, rows can be written: not everybody may write in build.
    place = run.args.out / "zoo-gpu" if run.args.out else kinds.GPU.place
    rows = dataclasses.replace(kinds.GPU, place=place).rows
    before = _lines(rows)
    regex = QUICK_PEAKS if run.args.quick else PEAKS
    command = [sys.executable, "-m", "zoo", "--gpu", "--models", regex, "--seconds", "300"]
    command += ["--place", str(place)]
    if not run.args.standin:
        command += ["--jobs", str(_beside_each_other())]
    try:
        subprocess.run(command, cwd=ROOT, timeout=max(60, run.left()), check=False)
    except subprocess.TimeoutExpired:
        run.write("peaks: cut short, as the time was over")
    found = [json.loads(line) for line in _lines(rows)[len(before) :]]
    lines = [line for row in found for line in table.lines_of(row)]
    run.table("Predicted and measured peaks", list(table.COLUMNS), lines)
    for line in verdict.summary(found):
        run.write(f"- {line}")
    run.faults += [line for row in found for line in verdict.faults(row)]
    return {"rows": found}


def _lines(file: pathlib.Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def far(run: Run) -> dict[str, Any]:
    reach.environment()
    args = run.args

    def one(model: str, way: str, size: int, rounds: int, memory: int) -> dict[str, Any]:
        if run.left() < 0:
            raise subprocess.TimeoutExpired("", 60 * args.minutes)
        given = {"model": model, "way": way, "size": size, "rounds": rounds, "memory": memory}
        return child("trial", CHILD_SECONDS, **given, small=args.small)

    models = args.models.split(",")
    most = max(reach.bytes_of(model, args) for model in models) + LIBRARIES
    run.say("The largest sizes that stock trains ...")
    unknown = [model for model in models if model not in args.largest]
    sizes = {
        **args.largest,
        **reach.sizes_of(one, unknown, args, _card_bytes() // most, run.say),
    }
    rows: list[dict[str, Any]] = []
    for model in models:
        if run.left() < 0:
            run.write(f"reach: {model} was not begun, as the time was over")
            continue
        run.say(f"{model} within {reach.bytes_of(model, args) / 2**30:.3g} GiB ...")
        rows += reach.rows_of(one, model, sizes[model], args, run.say)
    lines = [reach.cells(row, args.small) for row in rows]
    run.table("Beyond what stock TensorFlow trains", reach.COLUMNS, lines)
    return {"rows": rows}


def measure_sizes(run: Run) -> dict[str, Any]:
    from gpu import sizes

    if run.args.standin:
        os.environ["STANDIN_COMPUTE"] = "0"
    rows: list[dict[str, Any]] = []
    try:
        for program, (gib, _) in sizes.PROGRAMS.items():
            for budget in sizes.BUDGETS:
                if run.left() < 0:
                    run.write(f"sizes: {program} at {budget} was not begun, as the time was over")
                    continue
                values = {"model": program, "way": budget, "memory": gib << 30}
                row = {"program": program, "gib": gib, "budget": budget}
                try:
                    row.update(child("sizes", CHILD_SECONDS, **values))
                except subprocess.SubprocessError as error:
                    row.update(peaks=[], reason=why_not(error))
                run.say("  " + ", ".join(filter(None, sizes.cells(row))))
                rows.append(row)
    finally:
        os.environ.pop("STANDIN_COMPUTE", None)
    run.table("Programs of a card's size", sizes.COLUMNS, [sizes.cells(row) for row in rows])
    run.write(sizes.summary(rows))
    return {"rows": rows}


RUN: dict[str, Callable[[Run], dict[str, Any]]] = {
    "sanity": sanity, "kernels": measure_kernels, "tests": tests, "peaks": peaks, "reach": far,
    "sizes": measure_sizes,
}  # fmt: skip


def _card_bytes() -> int:
    """What the card has, as its driver says; 0 where there is none."""
    asked = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        ended = subprocess.run(asked, capture_output=True, text=True, check=True)
        return int(ended.stdout.split()[0]) << 20
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
        return 0


def _beside_each_other() -> int:
    """Processes that find room on the card and on the processor; nothing of theirs is timed."""
    import _gpu

    room = _card_bytes() // (_gpu.DEFAULT_BYTES + LIBRARIES)
    return max(1, min(room, (os.cpu_count() or 1) // 2))


def has_card() -> bool:
    """Asked in a process of its own: this one is to leave the device alone."""
    code = "import tensorflow as tf; print(len(tf.config.list_physical_devices('GPU')))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(ended.stdout.split()[-1]) > 0


def main() -> int:
    args = arguments()
    if args.child:
        run_child(args)
        return 0
    args.standin = not has_card()
    args.small = args.small or args.standin
    run = Run(args)
    found: dict[str, Any] = {"command": sys.argv[1:], "small": args.small}
    with tempfile.TemporaryDirectory() as directory:
        os.environ["LMS_PROFILE_DIR"] = directory
        for part in args.parts.split(","):
            began = time.monotonic()
            try:
                found[part] = RUN[part](run)
            except (Exception, KeyboardInterrupt) as error:
                if not isinstance(error, subprocess.SubprocessError):
                    traceback.print_exc()
                why = (
                    why_not(error) if isinstance(error, subprocess.SubprocessError) else repr(error)
                )
                run.faults.append(f"{part}: {why}")
                run.write(f"{part} failed: {why}")
                if isinstance(error, KeyboardInterrupt):
                    break
            run.say(f"{part}: {time.monotonic() - began:.0f} s")
            _write(args, run, found)
    for line in run.faults:
        print(line)
    return 1 if run.faults else 0


def _write(args: argparse.Namespace, run: Run, found: dict[str, Any]) -> None:
    whole = args.parts == ",".join(PARTS) or args.to_scale
    if args.out is None and (args.quick or not whole or args.models != ALL_MODELS):
        return  # nothing to keep
    today = datetime.date.today().isoformat()
    kind = f"gpu_{args.to_scale}" if args.to_scale else "gpu"
    folder, name = args.out or RESULTS, "gpu" if args.out else f"{today}_{kind}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(
        json.dumps({**found, "faults": run.faults}, indent=1) + "\n"
    )
    faults = ["", "## What is not as it should be", "", *(f"- {line}" for line in run.faults)]
    page = ["# lms on a GPU", "", f"`./run gpu {' '.join(sys.argv[1:])}`, {today}", "", *run.page]
    (folder / f"{name}.md").write_text("\n".join(page + (faults if run.faults else [])) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
