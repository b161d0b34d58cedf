"""What the planner says of a graph, way and link: lms-core alone, nothing runs."""

from __future__ import annotations

import pathlib
from typing import Any

from planner import core

SECONDS = 2.0  # for the planner, of each plan
MARGIN = 0.05  # of the activations' budget, that lms leaves unused by default


def facts(graph: pathlib.Path) -> dict[str, Any]:
    """peak_bytes, resident_bytes, step_us, …"""
    return core.call("show", graph, "--json")


def limit_for(graph: dict[str, Any], budget_bytes: int) -> int:
    """What lms aims at under a budget that holds what is resident, too."""
    resident = graph["resident_bytes"]
    return resident + int((budget_bytes - resident) * (1 - MARGIN))


def percent_of(graph: dict[str, Any], percent: float) -> int:
    resident = graph["resident_bytes"]
    return resident + int((graph["peak_bytes"] - resident) * percent / 100)


def planned(graph: pathlib.Path, limit: int, way: str, link: str) -> dict[str, Any]:
    """`link`: "OUT,IN" in GB/s, perhaps with "/shared". What lms-core plan --json says."""
    words: list[object] = ["plan", graph, "--budget", limit, "--json", "--seconds", SECONDS]
    if way != "recompute":
        words += ["--link", link]
    if way == "swap":
        words += ["--no-recompute"]
    figures = core.call(*words)
    figures["way"], figures["link"] = way, link if way != "recompute" else ""
    busy = figures["transfer_us"]
    figures["hidden"] = 1 - figures["stall_us"] / busy if busy else None
    return figures


def added_text(figures: dict[str, Any]) -> str:
    return f"{figures['added_share']:+.1%}" if figures["feasible"] else "not possible"
