"""Models at budgets that other tools reach too: activation peak, time and bits against stock.

./run bench models [--models resnet50,...] [--budgets 41,...] [--rounds 10] [--quick]
                   [--out FILE]

Each row is a share of stock's measured activation peak and the time that it may take. A budget is
picked by measuring: the share as a percentage with safety_margin=0, then corrected by what was
measured, until the peak of lms is at or just under the share. Where no plan is found the
budget is "min", and the row counts as not met.

A child process measures steps of stock TensorFlow and of lms in turn with TensorFlow's default
threads; a second one, with one thread of each kind, compares 3 losses and all weights bit for bit.
A run of all rows is written to benchmarks/results, a run of some of them only where --out says.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import lms
from _arguments import parsed, parser_for_models
from _measure import (
    bits_in_words,
    compare_bits,
    in_child,
    machine,
    machine_line,
    measured,
    measured_in_turn,
    one_thread_of_each_kind,
    ratios,
    spread,
    write_results,
)
from _models import FunctionTrainer, Subject, cifar_resnet, gpt, resnet50, trainer_of, unet
from _picks import pick_budget

IDENTITY_STEPS = 3
MOST_PICKS = 5  # of the budget, by measuring
PICK_STEPS = 3


@dataclasses.dataclass(frozen=True)
class Target:
    """Stock's peak is 100; `others` are measured figures of other ways to the same end."""

    share: float
    ratio: float
    others: str


@dataclasses.dataclass(frozen=True)
class Model(Subject):
    targets: tuple[Target, ...] = ()


MODELS = {
    "resnet50": Model(
        "ResNet-50, 224 px, batch 8, SGD",
        lambda: resnet50(8),
        targets=(
            Target(41, 1.12, "recompute_grad per block 40% at 1.36; PyTorch per block 42% at 1.17"),
            Target(29, 1.18, "PyTorch, optimizer in the backward pass, 29% at 1.29"),
            Target(20, 1.32, ""),
        ),
    ),
    "cifar": Model(
        "CIFAR ResNet of 3 x 19 blocks, batch 128, momentum SGD",
        lambda: cifar_resnet(128),
        targets=(
            Target(24, 1.12, "gradient-checkpointing 24% at 1.17; recompute_grad 24% at 1.32"),
        ),
    ),
    "gpt": Model(
        "GPT of 12 layers, width 384, length 256, batch 4, SGD, no remapping",
        lambda: gpt(4),
        targets=(Target(14, 1.12, "recompute_grad 14% at 1.23; with XLA 16% at 1.12"),),
        remapping=False,
    ),
    "unet": Model(
        "U-Net of 4 levels, 32 channels, 160 px, batch 8, SGD",
        lambda: unet(8),
        targets=(Target(67, 1.08, "PyTorch 67% at 1.15; recompute_grad 77% at 1.39"),),
    ),
}


# ---- Children: each writes one JSON value ----


def highest_peak(trainer: FunctionTrainer, with_lms: bool) -> int:
    """Over a few steps, after two that trace, plan and fill the allocator's pool."""
    trainer.step(with_lms)
    trainer.step(with_lms)
    return max(measured(lambda: trainer.step(with_lms)).peak for _ in range(PICK_STEPS))


def child_measure(model: Model, args: argparse.Namespace) -> dict[str, Any]:
    lms.memory.reset_peak()
    trainer = trainer_of(model, {})
    stock = highest_peak(trainer, False)
    picks = pick_budget(
        trainer,
        stock,
        float(args.budgets),
        2 if args.quick else MOST_PICKS,
        lambda: highest_peak(trainer, True),
    )
    reports = [json.loads(attempt.pop("report")) for attempt in picks]
    picked = next(i for i, attempt in enumerate(picks) if attempt["picked"])
    steps = measured_in_turn(trainer, args.rounds)
    # With two inter-op threads the peak differs from step to step: the highest of all counts.
    first = {"stock": stock, "lms": picks[picked]["peak"]}
    peaks = {way: max([first[way], *(s["peak"] for s in steps[way])]) for way in steps}
    return {
        "steps": steps,
        "peaks": peaks,
        "picks": picks,
        "options": trainer.options,
        "report": reports[picked],
    }


def child_identity(model: Model, args: argparse.Namespace) -> dict[str, Any]:
    one_thread_of_each_kind()
    return compare_bits(trainer_of(model, json.loads(args.options)), IDENTITY_STEPS)


CHILDREN: dict[str, Callable[[Model, argparse.Namespace], dict[str, Any]]] = {
    "measure": child_measure,
    "identity": child_identity,
}


# ---- The table ----


def summary(name: str, target: Target, result: dict[str, Any]) -> dict[str, Any]:
    steps, peaks, report = result["steps"], result["peaks"], result["report"]
    resident = report["resident_bytes"]
    before = report["peak_before_bytes"] - resident
    bound = report.get("lower_bound_bytes", 0)
    share = 100 * peaks["lms"] / peaks["stock"]
    row = {
        "model": name,
        "title": MODELS[name].title,
        "target_share": target.share,
        "target_ratio": target.ratio,
        "others": target.others,
        "options": result["options"],
        "status": report["status"],
        "reason": report["reason"],
        "stock_peak": peaks["stock"],
        "lms_peak": peaks["lms"],
        "share": share,
        "predicted_stock_peak": before,
        "predicted_lms_peak": report["peak_after_bytes"] - resident,
        "least_feasible_share": 100 * (report["min_budget_bytes"] - resident) / before
        if report["min_budget_bytes"]
        else None,
        "lower_bound_share": 100 * (bound - resident) / before if bound else None,
        "predicted_ratio": 1 + report["predicted_time_overhead"],
        "planner_seconds": report["planner_seconds"],
        "optimizer_seconds": report["optimizer_seconds"],
        "nodes": report["nodes_before"],
        "decisions": len(report["decisions"]),
        "warnings": report["warnings"],
        "kept": report["kept"],
        "picks": result["picks"],
        "steps": steps,
        "load": os.getloadavg()[0],
    }
    for field in ("wall", "cpu"):
        row[field] = ratios(steps, field)
        row[f"{field}_ratio"] = statistics.median(row[field])
    fits = share <= target.share and report["status"] != "infeasible"
    wall, cpu = (fits and row[f"{field}_ratio"] <= target.ratio for field in ("wall", "cpu"))
    row["met"] = "yes" if wall and cpu else "wall only" if wall else "CPU only" if cpu else "NO"
    return row


def show(rows: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title="Activation peak and time of a training step, lms / stock, stock and lms in turn",
        caption=machine_line(facts),
        show_lines=True,
    )
    for column in ("model", "budget", "peak MB", "share", "wall ratio", "CPU ratio", "target"):
        table.add_column(column)
    for column in ("met", "predicted", "plan s", "equal", "others"):
        table.add_column(column)
    for row in rows:
        predicted = f"{row['predicted_lms_peak'] / row['predicted_stock_peak']:.1%}"
        predicted += f" at {row['predicted_ratio']:.3f}"
        if row["lower_bound_share"] is not None:
            predicted += f"; bound {row['lower_bound_share']:.1f}%"
        table.add_row(
            row["title"],
            f"{row['options']['memory_budget']} ({row['status']})",
            f"{row['stock_peak'] / 1e6:.0f} to {row['lms_peak'] / 1e6:.0f}",
            f"{row['share']:.1f}%",
            spread(row["wall"]),
            spread(row["cpu"]),
            f"{row['target_share']:g}% at {row['target_ratio']:g}",
            row["met"],
            predicted,
            f"{row['planner_seconds']:.2f}, {row['nodes']:,} nodes",
            bits_in_words(row["identity"]),
            row["others"],
        )
    Console(width=220).print(table)


def child(part: str, name: str, budget: float, args: argparse.Namespace, *more: str) -> Any:
    words = ["--child", part, "--models", name, "--budgets", f"{budget:g}", *more]
    words += ["--rounds", str(args.rounds)] + ["--quick"] * args.quick
    return in_child(__file__, words)


def main() -> None:
    parser = parser_for_models(__doc__, MODELS, rounds=10)
    parser.add_argument("--budgets", default="", help="only these rows, for example 41,24")
    parser.add_argument("--quick", action="store_true", help="3 rounds, a budget picked roughly")
    parser.add_argument("--child", choices=sorted(CHILDREN), help=argparse.SUPPRESS)
    parser.add_argument("--options", default="{}", help=argparse.SUPPRESS)
    args = parsed(parser, MODELS)
    if args.child:
        result = CHILDREN[args.child](MODELS[args.models], args)
        with open(args.out, "w") as out:
            json.dump(result, out)
        return
    if args.quick:
        args.rounds = min(args.rounds, 3)

    only = {float(budget.rstrip("%")) for budget in args.budgets.split(",") if budget}
    rows = []
    for name in args.models.split(","):
        for target in MODELS[name].targets:
            if only and target.share not in only:
                continue
            print(f"{name} at {target.share:g}%: measuring {args.rounds} steps ...", flush=True)
            row = summary(name, target, child("measure", name, target.share, args))
            print(
                f"  {row['options']['memory_budget']} gives {row['share']:.1f}%, wall "
                f"{row['wall_ratio']:.3f}, CPU {row['cpu_ratio']:.3f} times; comparing bits ...",
                flush=True,
            )
            options = ("--options", json.dumps(row["options"]))
            row["identity"] = child("identity", name, target.share, args, *options)
            rows.append(row)
    if not rows:
        parser.error("no such row: " + ", ".join(f"{share:g}%" for share in sorted(only)))
    facts = machine()
    show(rows, facts)
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps({"machine": facts, "rows": rows}) + "\n")
    elif not args.quick and len(rows) == sum(len(model.targets) for model in MODELS.values()):
        print(f"written to {os.path.relpath(write_results('models', facts, rows))}")


if __name__ == "__main__":
    main()
