"""Are plans what they were? Records all plans for the zoo's models, or compares with a record.

python -m zoo.plans FILE [REGEX] [--dump DIR], in tests/ as ./run plans does it: each model's step
is planned (not run) at 70% and "min" for two devices; the graph as lms read it and the plan that it
made, as dump_graphs writes them, go into the record as digests, beside the predicted peak and added
time. --dump keeps the graphs themselves.

python -m zoo.plans FILE [REGEX] --graphs DIR [--core PROGRAM]: the same for the graphs in DIR, by
the program lms-core, under more budgets, with a link and without, with only some kinds of changes.

Where FILE is there, it is compared with, and what differs is printed; where not, it is written.
For changes that are to leave plans as they are: record before, compare after. Exit status 1:
something differs. --judge, with --graphs: for changes to the planner. Counts plans that are better
and worse than the recorded ones, in place of a line for each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

BUDGETS = ("70%", "min")
DEVICES = (None, "V100-16GB")

CORE = pathlib.Path(__file__).parents[2] / "build/dev/lms-core"
CORE_BUDGETS = ("40%", "min")
CORE_WAYS: tuple[tuple[str, ...], ...] = (
    (),
    ("--link", "12,12"),
    ("--link", "2,2/shared", "--no-recompute"),
    ("--no-moves",),
    ("--single-start",),
)


def digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


def of_model(name: str, dump: pathlib.Path | None) -> dict[str, Any]:
    """By budget and device: what was planned for one model."""
    import lms

    from zoo import catalogue

    case = catalogue.make(name)
    found = {}
    for device in DEVICES:
        for budget in BUDGETS:
            with tempfile.TemporaryDirectory() as directory:
                report = lms.plan(
                    case.step,
                    *case.arguments,
                    memory_budget=budget,
                    device=device,
                    dump_graphs=directory,
                )
                files = sorted(pathlib.Path(directory).rglob("*"))
                texts = [path.read_bytes() for path in files if path.is_file()]
                if dump is not None:
                    keep(name, [path for path in files if path.suffix == ".lmsgraph"], dump)
            found[f"{device or 'CPU'} {budget}"] = {
                "status": report.status,
                "peak_bytes": report.peak_after_bytes,
                "time_overhead": report.predicted_time_overhead,
                "digests": [digest(text) for text in texts],
            }
    return found


def keep(name: str, graphs: list[pathlib.Path], directory: pathlib.Path) -> None:
    """Copies graphs that are not there yet."""
    directory.mkdir(parents=True, exist_ok=True)
    for path in graphs:
        shutil.copy(path, directory / f"{name}-{digest(path.read_bytes())}.lmsgraph")


def of_graph(path: pathlib.Path, core: pathlib.Path) -> dict[str, Any]:
    """By budget and options: what lms-core plans for one graph."""
    found = {}
    for budget in CORE_BUDGETS:
        for way in CORE_WAYS:
            with tempfile.TemporaryDirectory() as directory:
                plan = pathlib.Path(directory) / "plan"
                command = [core, "plan", path, "--budget", budget, *way, "--json", "--out", plan]
                begun = _children_seconds()
                done = subprocess.run(command, capture_output=True, check=False)
                text = plan.read_bytes() if plan.exists() else b""
            told = json.loads(done.stdout) if done.stdout else {}
            found[" ".join([budget, *way])] = {
                "status": done.returncode,
                "plan": digest(text),
                "seconds": _children_seconds() - begun,
                **{
                    key: told.get(key)
                    for key in ("peak_after_bytes", "budget_bytes", "added_us", "bound_us", "work")
                },
            }
    return found


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(name: str, before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What differs, a line each."""
    lines = []
    for key in sorted({*before, *now}):
        then, made = before.get(key), now.get(key)
        if isinstance(then, dict) and isinstance(made, dict):
            then, made = ({**plan, "seconds": None} for plan in (then, made))
        if then != made:
            lines.append(f"{name} {key}: {then} -> {made}")
    return lines


# Sums of the same times in another order, or what is too little to be measured.
ALIKE = 1.001


def judge(before: dict[str, Any], now: dict[str, Any]) -> dict[str, int | float]:
    """Counts of plans: of `found` and `lost` ones, of those with a `lower` or `higher` least peak,
    and, at the same peak or budget, with `less` or `more` added time; `before_us` and `now_us` are
    the times that these add all together, `mean` is the geometric mean of their ratios;
    `before_s` and `now_s`: processor seconds that planning took."""
    counts = dict.fromkeys(("plans", "found", "lost", "lower", "higher", "same", "less", "more"), 0)
    times, ratios, seconds = [0.0, 0.0], [0.0], [0.0, 0.0]
    for then, made in _plans_of_both(before, now):
        counts["plans"] += 1
        if then is None or made is None:
            counts["lost" if made is None else "found"] += 1
            continue
        seconds = [total + plan["seconds"] for total, plan in zip(seconds, (then, made))]
        if (then["status"] == 0) != (made["status"] == 0):
            counts["found" if made["status"] == 0 else "lost"] += 1
            continue
        # What takes more than its budget is the least that was found.
        peaks = [max(plan["peak_after_bytes"], plan["budget_bytes"]) for plan in (then, made)]
        if peaks[0] != peaks[1]:
            counts["lower" if peaks[1] < peaks[0] else "higher"] += 1
            continue
        added = [plan["added_us"] for plan in (then, made)]
        times = [sum(pair) for pair in zip(times, added)]
        ratio = (added[1] + 1) / (added[0] + 1)  # a microsecond more than none is none
        ratios.append(math.log(ratio))
        key = "more" if ratio > ALIKE else "less" if ratio < 1 / ALIKE else "same"
        counts[key] += 1
    mean = math.exp(sum(ratios) / max(1, len(ratios) - 1))
    figures = {"before_us": times[0], "now_us": times[1], "mean": mean}
    return {**counts, **figures, "before_s": seconds[0], "now_s": seconds[1]}


def _plans_of_both(
    before: dict[str, Any], now: dict[str, Any]
) -> Iterator[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """Pairs of plans for the same graph, budget and options. None: the program ended without one,
    as where it does not read the graph."""
    for name in sorted({*before, *now}):
        then, made = before.get(name, {}), now.get(name, {})
        for key in sorted({*then, *made} - {"problem"}):
            pair = _plan(then, key), _plan(made, key)
            if pair != (None, None):
                yield pair


def _plan(made: dict[str, Any], key: str) -> dict[str, Any] | None:
    plan = made.get(key)
    return plan if plan is not None and plan["peak_after_bytes"] is not None else None


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run plans", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", type=pathlib.Path, help="the record")
    parser.add_argument("regex", nargs="?", default="", help="models, or graphs, with such names")
    parser.add_argument("--dump", type=pathlib.Path, metavar="DIR", help="keep the graphs there")
    parser.add_argument("--graphs", type=pathlib.Path, metavar="DIR", help="plan for these")
    parser.add_argument("--core", type=pathlib.Path, default=CORE, help="the program lms-core")
    parser.add_argument("--judge", action="store_true", help="count better and worse plans")
    args = parser.parse_intermixed_args()
    if args.judge and (args.graphs is None or not args.file.exists()):
        parser.error("--judge takes --graphs and a record")
    known = json.loads(args.file.read_text()) if args.file.exists() else None
    if args.graphs is not None:
        names = sorted(path.name for path in args.graphs.glob("*.lmsgraph"))
        each = len(CORE_BUDGETS) * len(CORE_WAYS)
    else:
        from zoo import catalogue

        names = list(catalogue.NAMES)
        each = len(BUDGETS) * len(DEVICES)
    names = [name for name in names if re.search(args.regex, name)]
    record: dict[str, Any] = {}
    different = 0
    for number, name in enumerate(names, 1):
        try:
            if args.graphs is not None:
                record[name] = of_graph(args.graphs / name, args.core)
            else:
                record[name] = of_model(name, args.dump)
        except ValueError as error:  # what cannot be planned is as it was, too
            record[name] = {"problem": str(error)}
        if args.judge:
            lines = []
        elif known is None or name not in known:
            lines = [] if known is None else [f"{name}: not in the record"]
        else:
            lines = compare(name, known[name], record[name])
        different += len(lines)
        print("\n".join([f"[{number}/{len(names)}] {name}", *lines]), flush=True)
    if args.judge:
        found = judge({name: known[name] for name in names if name in known}, record)
        print(json.dumps(found, indent=1))
        return min(1, found["lost"] + found["higher"])
    if known is None:
        args.file.write_text(json.dumps(record, indent=1) + "\n")
        print(f"recorded {len(record)} in {args.file}")
    else:
        print(f"{different} of {len(names) * each} plans differ")
    return min(1, different)


if __name__ == "__main__":
    raise SystemExit(main())
