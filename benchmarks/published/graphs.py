"""The planner as a program, beside an exact solver and a bound: no TensorFlow in the planning.

Checkmate showed that an integer program finds the best plan, in minutes to a day. Here the same
question is asked of generated graphs with recorded costs: lms-core plans them, and beside it stand
what an exact solver found (HiGHS, kept in benchmarks/results/planner_oracle.json) and the planner's
own bound. Small graphs are those that the solver finished; networks have their own size, for which
there is the bound alone.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from planner import graphs as _graphs
from planner import table as _table
from planner.memgraph import Graph, simulate

from published.verdict import AHEAD, BEHIND, LEVEL, NOT_MEASURED, OPEN, Row, Rows

NAME = "graphs"
BUDGETS = (70.0, 50.0, 30.0)
SMALL = (
    "mlp-8", "mixed-chain-40", "resnet-3", "block-resnet-18", "bottleneck-1-1", "unet-2x1",
    "mobilenet-2", "densenet-4", "inception-1", "coarse-transformer-4", "transformer-1", "lstm-6",
)  # fmt: skip
NETWORKS = (
    "vgg-16-224", "mobilenet-17", "resnet50-224", "resnet152-224", "unet-4x2", "densenet-121",
    "transformer-12",
)  # fmt: skip
ROWS = (*SMALL, *NETWORKS)
POINTS = 0.05  # of added time: less is the same
TIMES_FASTER = 10  # than the solver
OF_BOUND = 1.0  # points above the bound that count as level, where nobody solved the graph


def plan(name: str, quick: bool) -> dict[str, Any]:
    """lms-core at each budget; nothing is solved anew."""
    member = _graphs.MEMBERS[name]
    graph: Graph = member.build()
    options = argparse.Namespace(seconds=None, oracle_seconds=0, oracle_ops=0)
    found = []
    for percent in BUDGETS[: 1 if quick else None]:
        row, result = _table.row_of(name, member.family, graph, percent, options)
        solved = result.seconds if result is not None else None
        found.append({**dataclasses.asdict(row), "oracle_seconds": solved})
    return {"ops": len(graph.ops), "peak": simulate(graph, []), "budgets": found}


PARTS = {"planned": plan}


def proved_impossible(found: Row) -> bool:
    return found["oracle_status"].startswith("infeasible") and found["added_percent"] is None


def judge_budget(found: Row) -> tuple[str, str]:
    """One budget: beside the solver where it ended, else beside the bound."""
    label = f"at {found['percent']:g}%"
    ours, theirs, bound = (found[f"{name}_percent"] for name in ("added", "oracle", "bound"))
    if proved_impossible(found):
        return LEVEL, f"{label} no plan exists"
    if ours is None:
        return (BEHIND, f"{label} no plan was found") if theirs is not None else (
            LEVEL, f"{label} no plan was found, and none is known"
        )  # fmt: skip
    if theirs is not None:
        if ours > theirs + POINTS:
            return BEHIND, f"{label} {ours:.2f}% are added, the solver adds {theirs:.2f}%"
        seconds = found["oracle_seconds"] or 0.0
        if ours < theirs - POINTS or seconds >= TIMES_FASTER * found["seconds"]:
            return AHEAD, ""
        return LEVEL, f"{label} the solver takes {seconds:.1f} s, lms {found['seconds']:.1f} s"
    near = bound is not None and ours <= bound + OF_BOUND
    why = f"{label} {ours:.2f}% are added, the bound is {bound or 0:.2f}%, and no solver ended"
    return (LEVEL if near else OPEN), why


def judge(row: Row, rows: Rows) -> tuple[str, str]:
    """The worst of the budgets for which there can be a plan."""
    if not row.get("planned"):
        return NOT_MEASURED, row.get("why", "")
    budgets = row["planned"]["budgets"]
    possible = [found for found in budgets if not proved_impossible(found)]
    verdicts = [judge_budget(found) for found in possible or budgets]
    for word in (BEHIND, OPEN, LEVEL):
        whys = [why for verdict, why in verdicts if verdict == word]
        if whys:
            return word, "; ".join(whys)
    return AHEAD, ""
