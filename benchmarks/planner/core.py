"""The program lms-core, as the table and the tests call it."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import tempfile
from typing import Any

from planner import textio
from planner.memgraph import Graph, Plan

ROOT = pathlib.Path(__file__).resolve().parents[2]


def program() -> pathlib.Path:
    """The lms-core that was built last."""
    built = list(ROOT.glob("build/*/lms-core"))
    if not built:
        raise FileNotFoundError("no build/*/lms-core: ./run build makes it")
    return max(built, key=lambda path: path.stat().st_mtime)


@dataclasses.dataclass
class Planned:
    figures: dict[str, Any]  # what `lms-core plan --json` prints
    plan: Plan | None  # None: the budget is not met


def call(*words: object) -> dict[str, Any]:
    """What the program prints with --json; raises RuntimeError where it cannot do its work."""
    # A process's peak memory begins with that of the process it was forked from: a small one here.
    shell = ["/bin/sh", "-c", '"$@"; exit $?', "sh"]
    done = subprocess.run(
        [*shell, str(program()), *map(str, words)], capture_output=True, text=True, check=False
    )
    if done.returncode > 1 or not done.stdout:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def largest_dump(directory: str) -> pathlib.Path:
    """The graph with most in it of those that lms wrote there (dump_graphs)."""
    graphs = pathlib.Path(directory).glob("*.lmsgraph")
    return max(graphs, key=lambda path: path.stat().st_size)


def plan(graph: Graph, limit: int, seconds: float | None = None, read: bool = True) -> Planned:
    """Plans for `limit` bytes, resident included. `read`: the plan itself is wanted, too."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = pathlib.Path(folder, "graph"), pathlib.Path(folder, "plan")
        source.write_text(textio.write_graph(graph))
        words: list[object] = ["plan", source, "--budget", limit, "--json"]
        if read:
            words += ["--out", out]
        if seconds is not None:
            words += ["--seconds", seconds]
        figures = call(*words)
        there = read and figures["feasible"] and out.exists()
        return Planned(figures, textio.read_plan(graph, out.read_text()) if there else None)


def simulate(graph: Graph, plan: Plan) -> dict[str, Any]:
    """Validates and simulates with the C++ code: keys peak_bytes, added_us, …"""
    with tempfile.TemporaryDirectory() as folder:
        source, steps = pathlib.Path(folder, "graph"), pathlib.Path(folder, "plan")
        source.write_text(textio.write_graph(graph))
        steps.write_text(textio.write_plan(graph, plan))
        return call("simulate", source, steps, "--json")
