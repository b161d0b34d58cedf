"""Oracle results on disk: they are expensive. Keyed by graph, limit and version of the model.

Results with their plans lie in .cache/oracle; those of the generated graphs, without plans, are
kept with the sources in benchmarks/results/planner_oracle.json.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Collection
from typing import Any

from planner import textio
from planner.memgraph import Graph, Plan, plan_cost
from planner.oracle import MODEL_VERSION, Result, best

CACHE = pathlib.Path(__file__).resolve().parents[2] / ".cache" / "oracle"
KNOWN = pathlib.Path(__file__).resolve().parents[1] / "results" / "planner_oracle.json"

_FIGURES = ("status", "cost", "bound", "peak", "seconds", "depth")


def key(graph: Graph, limit: int) -> str:
    text = f"{MODEL_VERSION}\n{limit}\n{textio.write_graph(graph)}"
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _path(graph: Graph, limit: int) -> pathlib.Path:
    return CACHE / f"{key(graph, limit)}.json"


@functools.lru_cache(maxsize=1)
def _known() -> dict[str, dict[str, Any]]:
    return json.loads(KNOWN.read_text()) if KNOWN.exists() else {}


def load(graph: Graph, limit: int) -> Result | None:
    """What is stored; results that are only known by their figures come without a plan."""
    path = _path(graph, limit)
    if path.exists():
        kept = json.loads(path.read_text())
        plan = kept.pop("plan")
        return Result(**kept, plan=None if plan is None else textio.read_plan(graph, plan))
    figures = _known().get(key(graph, limit))
    if figures is None:
        return None
    return Result(**{name: figures[name] for name in _FIGURES})


def remember(results: Collection[tuple[str, float, Graph, int, Result]]) -> None:
    """Adds figures, of (graph's name, budget in percent, graph, limit, result), to KNOWN."""
    known = dict(_known())
    names = {(name, percent) for name, percent, *_ in results}
    known = {k: v for k, v in known.items() if (v["graph"], v["budget"]) not in names}
    for name, percent, graph, limit, result in results:
        figures = {figure: getattr(result, figure) for figure in _FIGURES}
        known[key(graph, limit)] = {"graph": name, "budget": percent, **figures}
    lines = [
        f"{json.dumps(k)}: {json.dumps(v)}"
        for k, v in sorted(known.items(), key=lambda item: (item[1]["graph"], item[1]["budget"]))
    ]
    KNOWN.parent.mkdir(exist_ok=True)
    KNOWN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    _known.cache_clear()


def save(graph: Graph, limit: int, result: Result) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    kept = {
        **{name: getattr(result, name) for name in _FIGURES},
        "plan": None if result.plan is None else textio.write_plan(graph, result.plan),
    }
    path = _path(graph, limit)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(kept) + "\n")
    part.replace(path)


def is_final(result: Result) -> bool:
    return result.status in ("optimal", "infeasible")


def solved(graph: Graph, limit: int, seconds: float, hint: Plan | None) -> Result:
    """The stored result, if it is final or took as long; otherwise a new one, which is stored."""
    old = load(graph, limit)
    if old is not None and (is_final(old) or old.seconds >= seconds / 2):
        return old
    plans = [plan for plan in (hint, old.plan if old else None) if plan is not None]
    plan = min(plans, key=lambda p: plan_cost(graph, p), default=None)
    result = best(graph, limit, seconds, plan)
    save(graph, limit, result)
    return result
