"""The rows as a table, for a terminal and for the page of a zoo."""

from __future__ import annotations

import re
from typing import Any

from zoo import verdict

COLUMNS = ("model", "nodes", "predicted MB", "stock MB", "budget", "status", "MB")
COLUMNS += ("measured/budget", "first step", "measured/predicted", "bits", "warned", "planning s")
_LEFT = ("model", "budget", "status", "bits")


def lines_of(row: dict[str, Any]) -> list[list[str]]:
    """A line of the table for each budget."""
    if "error" in row:
        return [[row["model"], "", "", "", "", "CRASHED", *[""] * 7]]
    lines = []
    for number, (budget, at) in enumerate(row["budgets"].items()):
        last = verdict.final(at)
        replanned = len(at["rounds"]) - 1
        allowed = last.get("budget_bytes", 0) - last.get("resident_bytes", 0)
        lines.append(
            [
                row["model"] if number == 0 else "",
                f"{last.get('nodes_before', 0):,}" if number == 0 else "",
                f"{verdict.predicted_stock(row) / 1e6:.1f}" if number == 0 else "",
                f"{verdict.stock(row) / 1e6:.1f}" if number == 0 else "",
                budget,
                last["status"] + (f", planned {1 + replanned} times" if replanned else ""),
                f"{allowed / 1e6:.1f}",
                _ratio(verdict.ratio(at)) + ("" if _fine(at) else " (!)"),
                _ratio(verdict.first_ratio(at)),
                _ratio(verdict.of_predicted(last)),
                verdict.bits(at),
                "yes" if verdict.warned(last) else "",
                f"{last.get('optimizer_seconds', 0):.1f}",
            ]
        )
    return lines


def _fine(at: dict[str, Any]) -> bool:
    return verdict.met(at) or not verdict.claimed(at)


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def machine_line(facts: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    versions = {name: v for row in rows for name, v in row.get("versions", {}).items()}
    used = ", ".join(f"{name} {version}" for name, version in versions.items())
    devices = sorted({row["device"] for row in rows if "device" in row})
    dates = sorted({row["date"] for row in rows if "date" in row}) or [facts["date"]]
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return (
        f"{facts['cores']} cores of {facts['cpu']}, {facts['memory_gib']} GiB, Python "
        f"{facts['python']}, {used}; {', '.join([*devices, when])}"
    )


def show(title: str, rows: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, caption=machine_line(facts, rows))
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in _LEFT else "right")
    for row in rows:
        lines = lines_of(row)
        for line in lines:
            table.add_row(*line, end_section=line is lines[-1])
    Console(width=170).print(table)


def notes(rows: list[dict[str, Any]]) -> list[str]:
    """Why some rows are not rewritten, or whose bits are not compared with one stock."""
    found = []
    for row in rows:
        for budget, at in row.get("budgets", {}).items():
            last = verdict.final(at)
            title = f"{row['model']} at {budget}"
            if last["status"] not in verdict.CLAIMED:
                reason = re.sub(r" \(\d+ bytes\)", "", last["reason"])
                found.append(f"{title}: {last['status']}: {reason}")
            if verdict.bits(at) == "stock differs":
                found.append(
                    f"{title}: {at['differing']} of {row['compared']} values differ; stock, "
                    f"optimised anew, differs from itself in {at['stock_differs_in']}"
                )
    return found


def markdown(
    title: str, rows: list[dict[str, Any]], missing: list[str], facts: dict[str, Any], about: str
) -> str:
    """The page of a zoo. `about` is its introduction, `missing` have no row."""
    lines = [f"# {title}", "", about.strip(), "", machine_line(facts, rows), ""]
    lines += [f"- {line}" for line in verdict.summary(rows)]
    if missing:
        why = "--memory was too little, or the run was cut short"
        lines.append(f"- not measured ({why}): {', '.join(missing)}")
    lines += ["", "| " + " | ".join(COLUMNS) + " |"]
    lines.append("|" + "|".join("---" if c in _LEFT else "---:" for c in COLUMNS) + "|")
    lines += ["| " + " | ".join(line) + " |" for row in rows for line in lines_of(row)]
    for part, texts in (
        ("What is not as it should be", [text for row in rows for text in verdict.faults(row)]),
        ("Notes", notes(rows)),
    ):
        if texts:
            lines += ["", f"## {part}", "", *(f"- {text}" for text in texts)]
    return "\n".join(lines) + "\n"
