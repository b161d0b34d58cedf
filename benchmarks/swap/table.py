"""The rows as tables. Pure: rows in, text out."""

from __future__ import annotations

from typing import Any

WIDTH = 220


def print_table(title: str, columns: list[str], rows: list[list[str]], caption: str = "") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, caption=caption)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=WIDTH).print(table)


def percent(value: float | None, sign: bool = False) -> str:
    return "" if value is None else f"{value:+.1%}" if sign else f"{value:.0%}"


CPU_COLUMNS = [
    "model", "budget", "way", "status", "peak MB", "share", "predicted", "wall ratio", "CPU ratio",
    "predicted ratio", "MB out, in", "busy s out, in", "hidden", "predicted hidden", "equal",
]  # fmt: skip


def cpu_row(row: dict[str, Any]) -> list[str]:
    from _measure import bits_in_words, spread

    if row.get("error"):
        return [row["model"], row["budget"], row["way"], "ERROR", row["error"][:40]] + [""] * 10
    moves = bool(row["out_bytes"])
    planned = row["status"] == "rewritten"
    return [
        row["model"],
        row["budget"],
        row["way"],
        row["status"],
        f"{row['stock_peak'] / 1e6:.0f} to {row['lms_peak'] / 1e6:.0f}",
        f"{row['share']:.1%}",
        f"{row['predicted_peak'] / row['predicted_stock_peak']:.1%}" if planned else "",
        spread(row["wall"]),
        spread(row["cpu"]),
        f"{1 + row['predicted_added']:.3f}" if planned else "",
        f"{row['out_bytes'] / 1e6:.0f}, {row['in_bytes'] / 1e6:.0f}" if moves else "",
        f"{row['out_seconds']:.2f}, {row['in_seconds']:.2f}" if moves else "",
        percent(row["hidden"]),
        f"{percent(row['predicted_hidden'])} ({row['predicted_stall']:.2f} s)" if moves else "",
        bits_in_words(row["identity"]) if row.get("identity") else "not compared",
    ]


def speed_rows(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """A line per model and budget: added time by recomputation, and by each speed and way."""
    from swap.plans import added_text

    speeds = sorted({row["speed"] for row in rows if row["way"] != "recompute"})
    columns = ["model", "budget", "recompute"]
    columns += [f"{way} {speed:g} GB/s" for speed in speeds for way in ("swap", "mix")]
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        line = cells.setdefault((row["model"], row["budget"]), {})
        name = row["way"] if row["way"] == "recompute" else f"{row['way']} {row['speed']:g} GB/s"
        line[name] = added_text(row)
    return columns, [[*key, *(line.get(c, "") for c in columns[2:])] for key, line in cells.items()]
