"""A budget picked by measuring: the share of stock's activation peak that a row is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lms
from _measure import largest_report
from _models import KerasTrainer

CLOSE_ENOUGH = 0.01  # below the target, relative


def pick_budget(
    trainer: KerasTrainer,
    stock: int,
    target: float,
    picks: int,
    peak: Callable[[], int],
    closeness: float = CLOSE_ENOUGH,
    **options: Any,
) -> list[dict[str, Any]]:
    """Sets the trainer's options to the best budget found, and returns all that was tried.

    stock: stock's peak. target: in percent of it. peak: measures that of steps with lms.
    options: of lms.enabled(), beside the budget.
    """
    aim = target * (1 - closeness / 2)
    tried: list[dict[str, Any]] = []
    percent = aim
    while len(tried) < picks:
        budget = "min" if percent == 0 else f"{percent:.4g}%"
        if any(attempt["options"]["memory_budget"] == budget for attempt in tried):
            break  # plans come in steps: there is none closer, and TensorFlow keeps this one
        trainer.options = {"memory_budget": budget, "safety_margin": 0.0, **options}
        lms.clear_reports()
        measured = peak()
        report = largest_report()
        share = 100 * measured / stock
        found = {"options": trainer.options, "share": share, "report": report.to_json()}
        found["peak"] = measured
        tried.append({**found, "status": report.status, "reason": report.reason})
        if budget == "min" or target * (1 - closeness) <= share <= target:
            break
        percent = 0 if report.status == "infeasible" else percent * aim / share
    under = [attempt for attempt in tried if attempt["share"] <= target]
    best = max(under, key=lambda a: a["share"]) if under else tried[-1]
    trainer.options = best["options"]
    for attempt in tried:
        attempt["picked"] = attempt is best
    return tried
