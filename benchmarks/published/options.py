"""Grappler's memory options: the MNIST CNN under each, and lms, in one hard limit: largest batches.

The published comparison counts batches that train on a card and batches that end out of memory.
Here the limit is what TensorFlow's allocator may take, found by real runs of three steps each.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from swap.search import largest

from published import mnist, source
from published.verdict import AHEAD, BEHIND, LEVEL, NOT_MEASURED, Row, Rows

NAME = "options"
PUBLISHED = source.read("grappler_memory_options")
PUBLISHED_ROWS = {row["option"]: row for row in PUBLISHED["tf_1_8"]}
GRAPPLER = tuple(name for name in PUBLISHED_ROWS if re.fullmatch(r"[A-Z_]+", name))
GONE = tuple(name for name in PUBLISHED_ROWS if name not in GRAPPLER)
ROWS = (*PUBLISHED_ROWS, mnist.OURS)
LIMIT = 512 << 20
START = 680  # where the search begins
CLOSENESS = 0.05
# Budgets of lms that are tried: "auto", which is planned for the allocator's blocks and holes, and
# shares of the limit.
BUDGETS = ("auto", "0.95", "0.88")
SECONDS = 300  # a process that takes longer has failed
TIMES_THEIRS = 2  # what lms is to reach
# What the gradient of the pooling reads and writes for one image, whatever is computed again: the
# pooling's input and its gradient, 64 channels of 28 x 28, and its result and that one's gradient.
LEAST_OF_AN_IMAGE = 2 * 4 * 64 * (28 * 28 + 14 * 14)
MOST_POSSIBLE = LIMIT // LEAST_OF_AN_IMAGE


def trains(option: str, batch: int, limit: int = LIMIT, out: str = "") -> bool:
    """Whether three steps run in the limit. Raises RuntimeError where the process fails."""
    environment = {
        **os.environ,
        # The limit is that of oneDNN's allocator: it is chosen for every option alike.
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_MKL_ALLOC_MAX_BYTES": str(limit),
    }
    words = [sys.executable, "-m", "published.mnist", option, str(batch)]
    if out:
        words += ["--steps", out]
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode == -signal.SIGSEGV:
        last = "oom"  # oneDNN's gradient of a pooling reads what the allocator could not give
    if last not in ("ok", "oom"):
        error = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"{option} at {batch}: {error[:200]}")
    print(f"  {option} at batch {batch}: {last}", flush=True)
    return last == "ok"


def steps_of(option: str, batch: int, limit: int = LIMIT) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "steps.json")
        return json.loads(out.read_text()) if trains(option, batch, limit, str(out)) else []


def measure(name: str, quick: bool) -> dict[str, Any]:
    if name in GONE:
        return {"gone": True}
    # Where blocks lie differs from run to run, and so what fits: each has as many tries.
    ours = name == mnist.OURS
    options = [f"{name} {budget}" for budget in BUDGETS] if ours else [name] * len(BUDGETS)
    trained: dict[int, str] = {}

    def fits(batch: int) -> bool:
        for option in options:
            if trains(option, batch):
                trained[batch] = option
                return True
        return False

    found = largest(fits, START, 0.3 if quick else CLOSENESS, step=0.1)
    result: dict[str, Any] = {"limit": LIMIT, "batch": found}
    if ours and found:
        result["option"] = trained[found]
        result["beside"] = beside_stock(found, trained[found])
    return result


def beside_stock(batch: int, option: str) -> dict[str, Any]:
    """At the largest batch: stock without a limit that matters, and lms in it."""
    ours = steps_of(option, batch)
    stock = steps_of("NO_MEM_OPT", batch, 2 * LIMIT)
    # The first step plans, and fills the allocator's pool.
    ratios = [a["cpu"] / b["cpu"] for a, b in zip(ours[1:-1], stock[1:-1])]
    return {
        "stock_peak": max(step["peak"] for step in stock[:-1]),
        "lms_peak": max(step["peak"] for step in ours[:-1]),
        "added": statistics.median(ratios) - 1,
        "losses_equal": [s["loss"] for s in ours[:-1]] == [s["loss"] for s in stock[:-1]],
        "weights_equal": ours[-1] == stock[-1],
    }


PARTS = {"measured": measure}


def judge(row: Row, rows: Rows) -> tuple[str, str]:
    """An option beside lms, by the largest batch of each."""
    measured = row.get("measured")
    if measured and measured.get("gone"):
        return NOT_MEASURED, "it does not run on this TensorFlow"
    ours = rows.get((NAME, mnist.OURS), {}).get("measured")
    if not measured or not ours:
        return NOT_MEASURED, row.get("why", "")
    if not (ours["beside"]["losses_equal"] and ours["beside"]["weights_equal"]):
        return BEHIND, "the steps of lms had other bits than stock's"
    if row["row"] == mnist.OURS:
        theirs = [rows.get((NAME, name), {}).get("measured") for name in GRAPPLER]
        most = max((other["batch"] for other in theirs if other), default=0)
        if not most:
            return NOT_MEASURED, "no option is there to compare with"
    else:
        most = measured["batch"]
    if ours["batch"] >= TIMES_THEIRS * most:
        return AHEAD, ""
    why = f"{ours['batch']} is {ours['batch'] / most:.2f} times {most}, not {TIMES_THEIRS}"
    if TIMES_THEIRS * most > MOST_POSSIBLE:
        why += f"; for {MOST_POSSIBLE} one operation, the pooling's gradient, fills the limit alone"
    return (LEVEL if ours["batch"] >= most else BEHIND), why
