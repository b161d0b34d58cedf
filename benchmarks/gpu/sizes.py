"""Programs of a card's size: what they are predicted to take, and what they take.

On the stand-in for a GPU nothing is computed here (STANDIN_COMPUTE=0): kernels take their memory,
and do nothing. So bytes are those of a card that TensorFlow's allocator serves, but for what cuDNN
takes for itself. Times and values mean nothing then.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

from _models import Problem, application, gpt, transformer, unet3d

# The first makes the plan, and what it keeps counts as resident later: it is not compared.
STEPS = 6
BUDGETS = ("stock", "auto", "min")
# By name: GiB of the device, and the program.
PROGRAMS: dict[str, tuple[int, Callable[[], Problem]]] = {
    "ResNet50, 394": (8, lambda: application("ResNet50", 394, 224)),
    "ResNet50, 788": (16, lambda: application("ResNet50", 788, 224)),
    "ResNet152, 320": (16, lambda: application("ResNet152", 320, 224)),
    "DenseNet121, 256": (16, lambda: application("DenseNet121", 256, 224)),
    "EfficientNetB0, 384": (16, lambda: application("EfficientNetB0", 384, 224)),
    "Xception, 192": (16, lambda: application("Xception", 192, 299)),
    "MobileNetV2, 512": (12, lambda: application("MobileNetV2", 512, 224)),
    "InceptionV3, 320": (12, lambda: application("InceptionV3", 320, 299)),
    "decoder of 10 layers, 64": (12, lambda: transformer(64)),
    "decoder of 12 layers, width 1024, 16": (
        16,
        lambda: gpt(16, depth=12, width=1024, heads=16, length=1024),
    ),
    "3D U-Net, 192^3": (8, lambda: unet3d(192)),
}
COLUMNS = ["program", "GiB", "budget", "status", "step before, GB", "predicted, GB"]
COLUMNS += ["measured, GB", "measured / predicted", "added time", "planning, s"]


def child_program(args: argparse.Namespace) -> dict[str, Any]:
    """One program (--model) with one budget (--way)."""
    import tensorflow as tf
    from _measure import largest_report, measured
    from _models import FunctionTrainer

    from gpu.reach import out_of_memory, what_was_asked

    stock = args.way == "stock"
    found: dict[str, Any] = {"peaks": [], "reason": ""}
    try:
        problem = PROGRAMS[args.model][1]()
        subject = FunctionTrainer(problem, {"memory_budget": "auto" if stock else args.way})
        step = functools.partial(subject.step, not stock)
        for _ in range(STEPS):
            found["peaks"].append(measured(step).peak)
    except (tf.errors.OpError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        call = len(found["peaks"]) + 1
        found["reason"] = f"out of memory in call {call}: {what_was_asked(error)}"
    if not stock:
        report = largest_report()
        found.update(status=report.status, planned=report.reason, warnings=list(report.warnings))
        found["before"] = report.peak_before_bytes - report.resident_bytes
        found["predicted"] = report.peak_after_bytes - report.resident_bytes
        found["added"] = report.predicted_time_overhead
        found["planning_seconds"] = report.optimizer_seconds
    return found


def peak(row: dict[str, Any]) -> int:
    return max(row["peaks"][1:])


def cells(row: dict[str, Any]) -> list[str]:
    first = [row["program"], str(row["gib"]), row["budget"], row.get("status", "")]
    measured = row["reason"].split(" in call")[0] or f"{peak(row) / 1e9:.2f}"
    if "predicted" not in row:
        return [*first, "", "", measured, "", "", ""]
    ratio = "" if row["reason"] else f"{peak(row) / row['predicted']:.3f}"
    return [
        *first,
        f"{row['before'] / 1e9:.2f}",
        f"{row['predicted'] / 1e9:.2f}",
        measured,
        ratio,
        f"{100 * row['added']:+.1f}%",
        f"{row['planning_seconds']:.1f}",
    ]


def summary(rows: list[dict[str, Any]]) -> str:
    """Of what lms predicted: how much of it trains, and how near it was."""
    ours = [row for row in rows if row["budget"] != "stock"]
    ratios = [peak(row) / row["predicted"] for row in ours if not row["reason"]]
    trained = sum(not row["reason"] for row in ours)
    near = sum(0.95 <= 1 / ratio <= 1.08 for ratio in ratios)
    return f"{trained} of {len(ours)} train; predicted within 0.95 to 1.08 of measured: {near}"
