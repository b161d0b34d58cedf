"""Optimal Gradient Checkpoint Search: its 18 models, at its memory cut and at its added time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from _pairs import Paired, report_figures

from published import own_size, source
from published.networks import NETWORKS, SIZES
from published.verdict import Row, Rows, judge_cut

NAME = "search"
PUBLISHED = source.read("optimal_gradient_checkpointing")
PUBLISHED_ROWS = {row["model"]: row for row in PUBLISHED["rows"]}
ROWS = tuple(PUBLISHED_ROWS)
PICKS = 2
ROUNDS = 3
ROUNDS_OF_TRIES = 1
MORE = 0  # budgets tried between the published cut and the least, for the cut at the added time


def at_cut(paired: Paired, cut: float, rounds: int, picks: int) -> dict[str, Any]:
    picked = paired.picked(100 * (1 - cut), picks)
    turns = paired.turns(rounds)
    return {**turns, **report_figures(picked["report"]), "budget": picked["options"]}


def at_added(
    paired: Paired, added: float, cut: Mapping[str, Any], rounds: int, tries: int
) -> list[dict[str, Any]]:
    """All that was tried to reach the largest cut within the added time, the least budget first."""
    tried: list[dict[str, Any]] = []
    if cut["budget"]["memory_budget"] == "min":
        return tried  # the least is what the published cut took already
    loose, tight = (1 - cut["cut"], cut["added"]), (0.0, 0.0)
    budget = "min"
    while True:
        paired.budget(budget)
        found = {**paired.turns(rounds), **report_figures(), "budget": paired.trainer.options}
        tried.append(found)
        point = (1 - found["cut"], found["added"])
        if budget == "min" or found["added"] > added:
            tight = point
        else:
            loose = point
        if (budget == "min" and found["added"] <= added) or len(tried) > tries:
            return tried
        if cut["added"] >= added or tight[1] <= loose[1]:
            return tried  # the added time is spent at the published cut already
        # Between the two points added time is about linear in the share.
        part = (0.9 * added - loose[1]) / (tight[1] - loose[1])
        share = loose[0] + max(0.1, min(0.9, part)) * (tight[0] - loose[0])
        budget = f"{100 * share:.4g}%"


def measure(name: str, quick: bool) -> dict[str, Any]:
    """In a process of its own."""
    published = PUBLISHED_ROWS[name]
    batch, side = SIZES[name]
    paired = Paired(lambda: NETWORKS[name](batch, side))
    rounds = 1 if quick else ROUNDS
    cut = at_cut(paired, published["memory_cut"], rounds, 1 if quick else PICKS)
    tried = at_added(
        paired, published["time_overhead"], cut, min(rounds, ROUNDS_OF_TRIES), 0 if quick else MORE
    )
    return {"batch": batch, "side": side, "at_cut": cut, "tried": tried}


def plan(name: str, quick: bool) -> dict[str, Any]:
    published = PUBLISHED_ROWS[name]
    batch, _, side, _ = published["input"]
    return own_size.plans(
        lambda: NETWORKS[name](1, side),
        batch,
        published["memory_cut"],
        published["time_overhead"],
    )


PARTS = {"measured": measure, "planned": plan}


def judge(row: Row, rows: Rows) -> tuple[str, str]:
    published = PUBLISHED_ROWS[row["row"]]
    measured = row.get("measured", {}).get("at_cut")
    if not measured:
        return "not measured", row.get("why", "")
    return judge_cut(measured, published["memory_cut"], published["time_overhead"])


def reached(row: Row) -> dict[str, Any] | None:
    """The measured point with the largest cut within the published added time."""
    measured = row["measured"]
    most = PUBLISHED_ROWS[row["row"]]["time_overhead"]
    points = [p for p in (measured["at_cut"], *measured["tried"]) if p["added"] <= most]
    return max(points, key=lambda point: point["cut"], default=None)
