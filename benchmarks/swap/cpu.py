"""Training on a CPU with spilling to a disk, beside stock TensorFlow. Children and rows."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from typing import Any

import lms
from _measure import (
    bits_in_words,
    compare_bits,
    largest_report,
    measured_in_turn,
    one_thread_of_each_kind,
    ratios,
)
from _models import FunctionTrainer, trainer_of
from planner import core

from swap import disk, plans
from swap.problems import SUBJECTS, options_of

IDENTITY_STEPS = 3
WARM_UPS = 2  # trace, plan, fill the allocator's pool and the spill file
REPEATS = 4  # of each operation, when they are timed
HUGE = "100000 GiB"  # a budget that every step fits
SPEEDS = (0.1, 0.3, 1.0, 3.0, 12.0)  # GB/s each way


def trainer(args: argparse.Namespace) -> FunctionTrainer:
    """For the first model, way and budget of the arguments."""
    options = options_of(args.ways, args.directory, args.rate)
    options.update(memory_budget=args.budgets, replan=False)
    return trainer_of(SUBJECTS[args.models], options)


# ---- Children: each returns what becomes one JSON value ----


def child_disk(args: argparse.Namespace) -> dict[str, Any]:
    return disk.measure(args.directory)


def child_calibrate(args: argparse.Namespace) -> dict[str, Any]:
    """Times the step's operations, for the processes that come after this one."""
    subject = trainer_of(SUBJECTS[args.models], {})
    made = lms.calibrate(subject.train, *subject.data, repeats=REPEATS)
    return {"text": str(made)}


def child_measure(args: argparse.Namespace) -> dict[str, Any]:
    lms.memory.reset_peak()
    subject = trainer(args)
    for with_lms in (False, True):
        for _ in range(WARM_UPS):
            subject.step(with_lms)
    report = largest_report()
    before = lms.swap_statistics()
    steps = measured_in_turn(subject, args.rounds)
    after = lms.swap_statistics()
    moved = {
        name: (getattr(after, name) - getattr(before, name)) / args.rounds
        for name in ("written_bytes", "read_bytes", "write_seconds", "read_seconds")
    }
    return {
        "steps": steps,
        "options": subject.options,
        "report": json.loads(report.to_json()),
        "moved": moved,
        "peak_stored_bytes": after.peak_stored_bytes,
    }


def child_identity(args: argparse.Namespace) -> dict[str, Any]:
    one_thread_of_each_kind()
    return compare_bits(trainer(args), IDENTITY_STEPS)


def child_speeds(args: argparse.Namespace) -> list[dict[str, Any]]:
    """What the planner would do with disks of other speeds: a row for each budget, speed, way."""
    subject = trainer_of(SUBJECTS[args.models], {"memory_budget": HUGE, "replan": False})
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        subject.options["dump_graphs"] = directory
        subject.step(True)
        graph = core.largest_dump(directory)
        facts = plans.facts(graph)
        for budget in args.budgets.split(","):
            bytes_ = plans.percent_of(facts, float(budget.rstrip("%")))
            limit = plans.limit_for(facts, bytes_)
            for way, speed in _ways_and_speeds():
                figures = plans.planned(graph, limit, way, f"{speed:g},{speed:g}/shared")
                rows.append({**figures, "model": args.models, "budget": budget, "speed": speed})
    return rows


def _ways_and_speeds() -> list[tuple[str, float]]:
    pairs = [("recompute", SPEEDS[-1])]  # the same whatever the speed
    return pairs + [(way, speed) for speed in SPEEDS for way in ("swap", "mix")]


CHILDREN = {
    "disk": child_disk,
    "calibrate": child_calibrate,
    "measure": child_measure,
    "identity": child_identity,
    "speeds": child_speeds,
}


# ---- A row ----


def summary(name: str, way: str, budget: str, result: dict[str, Any]) -> dict[str, Any]:
    steps, report, moved = result["steps"], result["report"], result["moved"]
    resident = report["resident_bytes"]
    row = {
        "model": name,
        "title": SUBJECTS[name].title,
        "way": way,
        "budget": budget,
        "options": result["options"],
        "status": report["status"],
        "reason": report["reason"],
        "warnings": report["warnings"],
        "link": report.get("link", ""),
        "stock_peak": max(step["peak"] for step in steps["stock"]),
        "lms_peak": max(step["peak"] for step in steps["lms"]),
        "budget_bytes": report["budget_bytes"] - resident,
        "predicted_stock_peak": report["peak_before_bytes"] - resident,
        "predicted_peak": report["peak_after_bytes"] - resident,
        "predicted_step_seconds": report["step_time_us"] / 1e6,
        "profiled_share": report["profiled_share"],
        "step_seconds": statistics.median(step["wall"] for step in steps["stock"]),
        "out_bytes": moved["written_bytes"],
        "in_bytes": moved["read_bytes"],
        "out_seconds": moved["write_seconds"],
        "in_seconds": moved["read_seconds"],
        "peak_stored_bytes": result["peak_stored_bytes"],
        "predicted_out_bytes": report.get("swapped_bytes", 0),
        "predicted_added": report["predicted_time_overhead"],
        "predicted_stall": report.get("swap_stall", 0.0),
        "predicted_hidden": report.get("swap_hidden", 0.0),
        "decisions": _count(report["decisions"]),
        "planner_seconds": report["planner_seconds"],
        "optimizer_seconds": report["optimizer_seconds"],
        "nodes": report["nodes_before"],
        "steps": steps,
    }
    row["share"] = row["lms_peak"] / row["stock_peak"]
    pairs = list(zip(steps["stock"], steps["lms"]))
    for field in ("wall", "cpu"):
        row[field] = ratios(steps, field)
        row[f"{field}_ratio"] = statistics.median(row[field])
        row[f"added_{field}_seconds"] = statistics.median(b[field] - a[field] for a, b in pairs)
    row["hidden"] = hidden(row)
    return row


def hidden(row: dict[str, Any]) -> float | None:
    """The share of the transfers' time that the step does not notice; None where it is not known.

    Only where nothing but swapping adds time. Everything that it adds counts as not hidden: what
    waits for the disk, and the processor time that copies and checksums take from the operations.
    """
    busy = row["out_seconds"] + row["in_seconds"]
    if row["way"] != "swap" or row["status"] != "rewritten" or busy <= 0:
        return None
    return 1 - max(0.0, row["added_wall_seconds"]) / busy


def _count(decisions: list[dict[str, Any]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for decision in decisions:
        counts[decision["kind"]] = counts.get(decision["kind"], 0) + 1
    return counts


def progress(row: dict[str, Any]) -> str:
    if row["status"] != "rewritten":
        return f"  {row['way']}: {row['status']}: {row['reason']}"
    text = (
        f"  {row['way']}: peak {row['lms_peak'] / 1e6:.0f} of {row['stock_peak'] / 1e6:.0f} MB "
        f"({row['share']:.1%}), wall {row['wall_ratio']:.3f}, CPU {row['cpu_ratio']:.3f} times, "
        f"predicted {1 + row['predicted_added']:.3f}"
    )
    if row["out_bytes"]:
        text += f"; {row['out_bytes'] / 1e6:.0f} MB out, {row['in_bytes'] / 1e6:.0f} MB in"
    if row.get("identity"):
        text += f"; equal: {bits_in_words(row['identity'])}"
    return text


def disk_lines(rows: list[dict[str, Any]], figures: dict[str, Any]) -> list[str]:
    """For each budget: what must leave, and whether the disk by itself has the time for it."""
    lines, seen = [], set()
    for row in rows:
        key = row["model"], row["budget"]
        if row.get("error") or key in seen:
            continue
        seen.add(key)
        away = max(0, row["stock_peak"] - row["budget_bytes"])
        need = disk.allows(figures, away, row["step_seconds"])
        word = "has" if need["share"] <= 1 else "does NOT have"
        lines.append(
            f"{row['model']} at {row['budget']}: swapping alone, at least {away / 1e6:.0f} MB must "
            f"leave and come back: {need['out_seconds']:.2f} + {need['in_seconds']:.2f} s of the "
            f"disk in a step of {need['step_seconds']:.2f} s, {need['share']:.0%} of it: "
            f"the disk {word} the time"
        )
    return lines
