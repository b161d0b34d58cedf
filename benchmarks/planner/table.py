"""The planner on generated graphs, beside the oracle: time added, peak, seconds, memory.

./run bench planner [--scale small,medium,large] [--families F,...] [--graphs NAME|FILE,...]
                    [--budgets 90,70,50,30] [--oracle-seconds S] [--seconds S] [--remember]

Without options: the small graphs, at four budgets (percent of the activation peak, with what is
resident on top), beside oracle results that are known already; --oracle-seconds has the others
solved (or those that were cut off), for so long each, with HiGHS. --remember writes what the
oracle found into benchmarks/results/planner_oracle.json. A graph may be a file, such as one that
the option `dump_graphs` or `python -m planner.dump` wrote.

The gap is lms's added time less the oracle's best, in percent of the step. An oracle's "optimal"
is marked with 1 where it is proved only for plans whose moves pass no reader (see model.py).
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import importlib.metadata
import json
import math
import pathlib
import statistics
import time
from collections.abc import Sequence
from typing import Any

from _machine import machine_facts, processor_text
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from planner import chain, core, graphs, plain, store, textio
from planner.memgraph import Graph, simulate
from planner.oracle import DEPTHS, Result

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "results"
COLUMNS = (
    "graph", "ops", "peak", "budget", "added %", "met", "seconds", "memory", "bound %",
    "oracle %", "status", "gap",
)  # fmt: skip


@dataclasses.dataclass
class Row:
    graph: str
    family: str
    ops: int
    percent: float
    resident_bytes: int
    peak_before_bytes: int
    budget_bytes: int
    peak_bytes: int
    met: bool
    added_percent: float | None
    bound_percent: float | None
    seconds: float  # of the planner
    process_seconds: float
    max_rss_bytes: int
    oracle_percent: float | None = None
    oracle_bound_percent: float | None = None
    oracle_status: str = ""
    gap: float | None = None  # percentage points

    def cells(self) -> tuple[str, ...]:
        def number(value: float | None, digits: int = 2) -> str:
            return "-" if value is None else f"{value:.{digits}f}"

        status = self.oracle_status
        if status == "feasible":
            status = f"≥ {number(self.oracle_bound_percent)}"
        return (
            self.graph,
            f"{self.ops:,}",
            f"{self.peak_before_bytes / 2**20:.1f} MiB",
            f"{self.percent:g}%",
            number(self.added_percent),
            "yes" if self.met else "no",
            number(self.seconds, 3),
            f"{self.max_rss_bytes / 2**20:.0f} MiB",
            number(self.bound_percent),
            number(self.oracle_percent),
            status,
            number(self.gap),
        )


def machine() -> dict[str, Any]:
    try:
        highs = importlib.metadata.version("highspy")
    except importlib.metadata.PackageNotFoundError:
        highs = "none"
    return machine_facts(highs=highs)


def chain_optimum(name: str, graph: Graph, limit: int) -> Result | None:
    """Homogeneous chains of any length have a closed form."""
    if not name.startswith("chain-"):
        return None
    n = len(graph.ops) // 2
    runs = chain.added_runs(n, (limit - graph.resident_bytes()) // plain.MIB)
    if runs is None:
        return Result("infeasible", None, None, None, 0.0, DEPTHS[-1])
    return Result("optimal", float(runs), float(runs), limit, 0.0, DEPTHS[-1])


def check(graph: Graph, limit: int, result: Result) -> None:
    """The oracle's plan must be to lms-core what it is to the oracle."""
    theirs = core.simulate(graph, result.plan or [])
    same = theirs["peak_bytes"] == result.peak and math.isclose(
        theirs["added_us"], result.cost or 0.0, rel_tol=1e-9, abs_tol=1e-6
    )
    if not same or theirs["peak_bytes"] > limit:
        raise RuntimeError(f"lms-core sees the oracle's plan differently: {theirs}")


def row_of(
    name: str, family: str, graph: Graph, percent: float, options: argparse.Namespace
) -> tuple[Row, Result | None]:
    limit = graph.budget(percent)
    total = graph.total_cost()
    solving = options.oracle_seconds > 0 and len(graph.ops) <= options.oracle_ops
    begun = time.perf_counter()
    planned = core.plan(graph, limit, options.seconds, read=solving)
    spent = time.perf_counter() - begun
    figures = planned.figures

    def share(cost: float | None) -> float | None:
        return None if cost is None or not total else 100 * cost / total

    result = chain_optimum(name, graph, limit)
    if result is None and solving:
        result = store.solved(graph, limit, options.oracle_seconds, planned.plan)
    elif result is None:
        result = store.load(graph, limit)
    if result is not None and result.plan is not None:
        check(graph, limit, result)
    met = bool(figures["feasible"])
    row = Row(
        graph=name,
        family=family,
        ops=len(graph.ops),
        percent=percent,
        resident_bytes=figures["resident_bytes"],
        peak_before_bytes=figures["peak_before_bytes"],
        budget_bytes=limit,
        peak_bytes=figures["peak_after_bytes"],
        met=met,
        added_percent=share(figures["added_us"]) if met else None,
        bound_percent=share(figures.get("bound_us")),
        seconds=figures["planner_seconds"],
        process_seconds=spent,
        max_rss_bytes=figures["max_rss_bytes"],
    )
    if result is not None:
        near = result.status in ("optimal", "infeasible") and result.depth == DEPTHS[0]
        row.oracle_status = result.status + ("¹" if near else "")
        row.oracle_percent = share(result.cost)
        row.oracle_bound_percent = share(result.bound)
        if row.oracle_percent is not None and row.added_percent is not None:
            row.gap = row.added_percent - row.oracle_percent
    return row, result


def exponent(rows: Sequence[Row]) -> dict[str, float]:
    """Per family and budget: e of seconds ~ ops**e, where there are graphs of 10,000 ops up."""
    found = {}
    for family, percent in sorted({(row.family, row.percent) for row in rows}):
        points = [
            (math.log(row.ops), math.log(max(row.process_seconds, 1e-3)))
            for row in rows
            if (row.family, row.percent) == (family, percent) and row.ops >= 10_000
        ]
        if len({x for x, _ in points}) > 1:
            x, y = (statistics.mean(values) for values in zip(*points))
            slope = sum((p - x) * (q - y) for p, q in points) / sum((p - x) ** 2 for p, _ in points)
            found[f"{family} at {percent:g}%"] = round(slope, 2)
    return found


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    proved = [row for row in rows if row.oracle_status.startswith("optimal")]
    gaps = [row.gap for row in proved if row.gap is not None]
    missed = [row for row in rows if not row.met and row.oracle_percent is not None]
    bounded = [
        row.added_percent - row.bound_percent
        for row in rows
        if row.added_percent is not None and row.bound_percent is not None
    ]
    return {
        "rows": len(rows),
        "oracle proved": len(proved),
        "oracle proved infeasible": sum(r.oracle_status.startswith("infeasible") for r in rows),
        "oracle not finished": sum(row.oracle_status in ("feasible", "unknown") for row in rows),
        "mean gap to the proved optimum, points": round(statistics.mean(gaps), 3) if gaps else None,
        "worst gap to the proved optimum, points": round(max(gaps), 3) if gaps else None,
        "more than 1 point off": sum(gap > 1 for gap in gaps),
        "budgets missed that the oracle meets": [f"{r.graph} at {r.percent:g}%" for r in missed],
        "bounds above what the oracle attains (wrong)": [
            f"{row.graph} at {row.percent:g}%"
            for row in rows
            if row.oracle_percent is not None
            and (row.bound_percent or 0) > row.oracle_percent + 1e-6
        ],
        "mean distance to the planner's own bound, points": (
            round(statistics.mean(bounded), 3) if bounded else None
        ),
        "seconds grow with ops to the power of": exponent(rows),
    }


def chosen(options: argparse.Namespace) -> list[tuple[str, str, graphs.Member | pathlib.Path]]:
    if options.graphs:
        result: list[tuple[str, str, graphs.Member | pathlib.Path]] = []
        for name in options.graphs.split(","):
            member = graphs.MEMBERS.get(name)
            path = pathlib.Path(name)
            if member is None and not path.exists():
                raise SystemExit(f"{name}: neither a graph of this benchmark nor a file")
            result.append((name, member.family, member) if member else (path.stem, "file", path))
        return result
    scales = options.scale.split(",")
    families = options.families.split(",") if options.families else None
    return [
        (member.name, member.family, member)
        for member in graphs.MEMBERS.values()
        if member.scale in scales and (families is None or member.family in families)
    ]


def write(facts: dict[str, Any], rows: Sequence[Row], totals: dict[str, Any], label: str) -> None:
    RESULTS.mkdir(exist_ok=True)
    stem = RESULTS / f"{facts['date']}_planner{label}"
    kept = {"machine": facts, "summary": totals, "rows": [dataclasses.asdict(r) for r in rows]}
    stem.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n")
    with stem.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in dataclasses.fields(Row)])
        writer.writeheader()
        writer.writerows(dataclasses.asdict(row) for row in rows)
    lines = [
        f"{facts['cores']} cores of {processor_text(facts)}, {facts['memory_gib']} GiB, HiGHS "
        f"{facts['highs']}, {facts['date']}",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---|" + "---:|" * (len(COLUMNS) - 1),
        *("| " + " | ".join(row.cells()) + " |" for row in rows),
        "",
        *(f"- {name}: {value}" for name, value in totals.items()),
    ]
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n")
    print(f"Written: {stem}.json, .csv, .md")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="./run bench planner",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--scale", default="small", help="small, medium, large")
    parser.add_argument("--families", default="", help="only these")
    parser.add_argument("--graphs", default="", help="only these: names or .lmsgraph files")
    parser.add_argument("--budgets", default="90,70,50,30", help="percent of the activation peak")
    parser.add_argument("--seconds", type=float, default=None, help="the planner's own limit")
    parser.add_argument("--oracle-seconds", type=float, default=0, help="per graph and budget")
    parser.add_argument("--oracle-ops", type=int, default=150, help="solve no larger graphs")
    parser.add_argument("--remember", action="store_true", help="keep oracle results for git")
    parser.add_argument("--label", default="", help="a suffix of the files' names")
    options = parser.parse_args(arguments)
    members = chosen(options)
    budgets = [float(word) for word in options.budgets.split(",")]
    rows: list[Row] = []
    known: list[tuple[str, float, Graph, int, Result]] = []
    table = Table(*COLUMNS)
    console = Console()
    if not console.is_terminal:
        console.width = 140
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("planning", total=len(members) * len(budgets))
        for name, family, source in members:
            graph = (
                textio.load_graph(source) if isinstance(source, pathlib.Path) else source.build()
            )
            if simulate(graph, []) <= graph.resident_bytes():
                continue
            for percent in budgets:
                progress.update(task, description=f"{name} at {percent:g}%")
                row, result = row_of(name, family, graph, percent, options)
                rows.append(row)
                table.add_row(*row.cells())
                if result is not None and isinstance(source, graphs.Member):
                    known.append((name, percent, graph, row.budget_bytes, result))
                progress.advance(task)
    console.print(table)
    totals = summary(rows)
    for name, value in totals.items():
        console.print(f"{name}: {value}")
    write(machine(), rows, totals, f"_{options.label}" if options.label else "")
    if options.remember:
        store.remember(known)
