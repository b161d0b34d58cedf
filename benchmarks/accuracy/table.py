"""The rows as a table, and what they say together."""

from __future__ import annotations

from typing import Any

from _measure import machine_line

GOOD = (0.98, 1.08)  # predicted over measured peak: wanted on 95% of the rows
FAIR = (0.95, 1.15)  # and this on all
EXCESS = 1.02  # measured over budget: more is a broken promise
POINTS = 0.05  # added time, predicted against measured


def kept(row: dict[str, Any]) -> bool:
    """Was the budget declared met?"""
    return row["status"] in ("rewritten", "fits")


def verdict(rows: list[dict[str, Any]], times: bool = True) -> list[str]:
    """One line for each thing that is promised, with the rows that break it.

    times: of added time, too.
    """

    def line(text: str, good: list[Any], of: list[Any]) -> str:
        missing = [f"{r['model']} {r['budget']} {r['accuracy']:.3f}" for r in of if r not in good]
        share = len(good) / len(of) if of else 1.0
        return f"{text}: {len(good)} of {len(of)} ({share:.1%}); not: {', '.join(missing) or '-'}"

    within = {
        span: [row for row in rows if span[0] <= row["accuracy"] <= span[1]]
        for span in (GOOD, FAIR)
    }
    met = [row for row in rows if kept(row) and row["budget"] != "stock"]
    under = [row for row in met if max(row["measured_bytes"]) <= EXCESS * row["budget_bytes"]]
    rewritten = [row for row in rows if row["status"] == "rewritten"]
    lines = [
        line(f"peak predicted within {GOOD[0]} to {GOOD[1]}", within[GOOD], rows),
        line(f"peak predicted within {FAIR[0]} to {FAIR[1]}", within[FAIR], rows),
        line("budgets declared met and not exceeded by more than 2%", under, met),
    ]
    for field in ("wall", "cpu") if times else ():
        near = [
            row
            for row in rewritten
            if abs(row["predicted_added"] - row[f"measured_added_{field}"]) <= POINTS
        ]
        text = f"added time ({field}) within {POINTS * 100:g} points"
        lines.append(line(text, near, rewritten))
    return lines


def show(rows: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title="Activation peak and added time of a training step, predicted and measured",
        caption=machine_line(facts),
    )
    for column in ("model", "budget", "status"):
        table.add_column(column)
    for column in ("measured MB", "predicted/measured", "of the budget", "step s", "predicted s"):
        table.add_column(column, justify="right")
    for column in ("added wall", "added CPU", "predicted"):
        table.add_column(column, justify="right")
    for row in rows:
        peak = max(row["measured_bytes"])
        stock = row["budget"] == "stock"
        seconds = sorted(row["stock_seconds"])
        table.add_row(
            row["model"],
            row["budget"],
            row["status"],
            f"{min(row['measured_bytes']) / 1e6:.0f} to {peak / 1e6:.0f}",
            f"{row['accuracy']:.3f}",
            "" if stock else f"{peak / row['budget_bytes']:.3f}",
            f"{seconds[len(seconds) // 2]:.2f}",
            f"{row['predicted_step_seconds']:.2f}" if row["predicted_step_seconds"] else "",
            f"{row['measured_added_wall']:+.1%}",
            f"{row['measured_added_cpu']:+.1%}",
            f"{row['predicted_added']:+.1%}",
            end_section=row is rows[-1] or rows[rows.index(row) + 1]["budget"] == "stock",
        )
    Console(width=150).print(table)
