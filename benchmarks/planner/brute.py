"""All plans of a tiny graph, one by one: the oracle's oracle."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from planner.memgraph import Graph, Plan, Step, mark_moves, may_recompute, plan_cost, simulate


def choices(graph: Graph) -> list[list[Step | None]]:
    """Per place (before, op) where an op may run again: not at all, or with what it provides."""
    result: list[list[Step | None]] = []
    for p in range(len(graph.ops)):
        for q in range(p):
            if not may_recompute(graph, q, p):
                continue
            outputs = [b for b in graph.ops[q].outputs if graph.buffers[b].evictable]
            subsets = itertools.chain.from_iterable(
                itertools.combinations(outputs, size) for size in range(1, len(outputs) + 1)
            )
            result.append([None, *(Step(p, q, subset) for subset in subsets)])
    return result


def plans(graph: Graph) -> Iterator[Plan]:
    """Every well-formed plan, up to moves that are not made although they can be."""
    for picked in itertools.product(*choices(graph)):
        yield mark_moves(graph, [step for step in picked if step is not None])


def count(graph: Graph) -> int:
    total = 1
    for options in choices(graph):
        total *= len(options)
    return total


def least_cost_by_peak(graph: Graph) -> list[tuple[int, float]]:
    """The peaks that can be reached and the least added time at each, without dominated ones.

    Sorted by peak, falling in time: the exact trade of memory for time.
    """
    best: dict[int, float] = {}
    for plan in plans(graph):
        peak, cost = simulate(graph, plan), plan_cost(graph, plan)
        best[peak] = min(cost, best.get(peak, float("inf")))
    front: list[tuple[int, float]] = []
    for peak, cost in sorted(best.items()):
        if not front or cost < front[-1][1]:
            front.append((peak, cost))
    return front
