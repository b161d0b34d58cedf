"""The picture of the page: memory cut and added time of each model, published and with lms."""

from __future__ import annotations

import pathlib
from typing import Any

from _pictures import BLUE, GREY, RED, pyplot_for, saved

from published.verdict import Rows


def draw(judge: Any, rows: Rows, path: pathlib.Path) -> bool:
    """From the rows of the table of models; whether there is any to draw."""
    names = [name for name in judge.ROWS if rows.get((judge.NAME, name), {}).get("measured")]
    if not names:
        return False
    pyplot = pyplot_for()
    figure, axes = pyplot.subplots(figsize=(8, 5))
    axes.patch.set_visible(False)
    for name in names:
        published = judge.PUBLISHED_ROWS[name]
        measured = rows[judge.NAME, name]["measured"]
        theirs = (100 * published["memory_cut"], 100 * published["time_overhead"])
        points = [measured["at_cut"], *measured["tried"]]
        points = [point for point in points if point["status"] == "rewritten"] or points[:1]
        ours = sorted((100 * point["cut"], 100 * point["added"]) for point in points)
        at_cut = (100 * points[0]["cut"], 100 * points[0]["added"])
        first = name is names[0]
        axes.plot(*zip(theirs, at_cut), color=GREY, alpha=0.4, linewidth=0.8, zorder=0)
        axes.plot(
            *zip(*ours), color=BLUE, marker="o", markersize=4, linewidth=0.8,
            label="lms, measured" if first else None,
        )  # fmt: skip
        axes.plot(*theirs, "x", color=RED, label="published" if first else None)
        axes.annotate(name, theirs, (3, 3), textcoords="offset points", fontsize=6)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xlabel("activation memory saved, percent of stock's peak")
    axes.set_ylabel("added time, percent of stock's step")
    axes.legend(framealpha=0)
    saved(figure, path)
    return True
