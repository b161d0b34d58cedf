"""The page's picture: the share of stock's peak and the time, of each way and of lms, by model."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from _pictures import BLUE, GREEN, GREY, RED, pyplot_for, saved

from peers.table import LEAST_CUT, MODELS, TORCH, WAYS

MARKS = "xov^<>sPD*hXd"


def draw(rows: Mapping[tuple[str, str], Mapping[str, Any]], path: pathlib.Path) -> bool:
    """Whether there is anything to draw."""
    names = [name for name in MODELS if any("peer" in rows.get((name, way), {}) for way in WAYS)]
    if not names:
        return False
    pyplot = pyplot_for()
    figure, found = pyplot.subplots(2, 2, figsize=(10, 9))
    for axes, name in zip(found.flat, names):
        axes.patch.set_visible(False)
        for mark, way in zip(MARKS, WAYS):
            peer = rows.get((name, way), {}).get("peer")
            if peer and peer["cut"] >= LEAST_CUT:
                color = GREEN if way in TORCH else RED
                label = WAYS[way].replace("`", "")
                axes.plot(*point(peer), mark, color=color, markersize=6, label=label)
        ours = [rows[key]["lms"] for key in rows if key[0] == name and "lms" in rows[key]]
        ours = sorted(point(taken) for taken in ours)
        axes.plot(*zip(*ours), ".", color=BLUE, markersize=7, label="lms")
        axes.axhline(1, color=GREY, linewidth=0.8)
        axes.set_title(MODELS[name], fontsize=9)
        axes.set_xlabel("peak, percent of its stock's", fontsize=8)
        axes.set_ylabel("CPU time, its stock's is 1", fontsize=8)
        axes.legend(framealpha=0, fontsize=6)
    for axes in found.flat[len(names) :]:
        axes.set_visible(False)
    saved(figure, path)
    return True


def point(taken: Mapping[str, Any]) -> tuple[float, float]:
    return 100 * (1 - taken["cut"]), 1 + taken["added"]
