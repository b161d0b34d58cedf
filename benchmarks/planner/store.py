"""Oracle results on disk: they are expensive. Keyed by graph, limit and version of the model."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib

from planner import textio
from planner.memgraph import Graph, Plan
from planner.oracle import MODEL_VERSION, Result, solve

CACHE = pathlib.Path(__file__).resolve().parents[2] / ".cache" / "oracle"


def _path(graph: Graph, limit: int) -> pathlib.Path:
    text = f"{MODEL_VERSION}\n{limit}\n{textio.write_graph(graph)}"
    return CACHE / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def load(graph: Graph, limit: int) -> Result | None:
    path = _path(graph, limit)
    if not path.exists():
        return None
    kept = json.loads(path.read_text())
    plan = kept.pop("plan")
    return Result(**kept, plan=None if plan is None else textio.read_plan(graph, plan))


def save(graph: Graph, limit: int, result: Result) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    kept = {
        "status": result.status,
        "cost": result.cost,
        "bound": result.bound,
        "peak": result.peak,
        "seconds": round(result.seconds, 2),
        "plan": None if result.plan is None else textio.write_plan(graph, result.plan),
    }
    path = _path(graph, limit)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(kept) + "\n")
    part.replace(path)


def merged(old: Result, new: Result) -> Result:
    """The best of two runs on the same problem."""
    if "infeasible" in (old.status, new.status):
        return old if old.status == "infeasible" else new
    best = min((old, new), key=lambda r: float("inf") if r.cost is None else r.cost)
    bound = max(old.bound or 0.0, new.bound or 0.0)
    status = "optimal" if "optimal" in (old.status, new.status) else best.status
    return Result(status, best.cost, bound, best.peak, old.seconds + new.seconds, best.plan)


def solved(graph: Graph, limit: int, seconds: float, hint: Plan | None, threads: int = 1) -> Result:
    """The stored result, if it is final or took as long; otherwise a new one, which is stored."""
    old = load(graph, limit)
    if old is not None and (old.status in ("optimal", "infeasible") or old.seconds >= seconds):
        return old
    best = hint
    if old is not None and old.plan is not None:
        best = old.plan
    new = solve(graph, limit, seconds, best, threads=threads)
    result = new if old is None else merged(old, new)
    save(graph, limit, result)
    return result
