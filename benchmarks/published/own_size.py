"""A published row at its own size, planned for a card: nothing runs, nothing is allocated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lms
from _models import Problem
from lms._planning import plan as _plan
from lms._tf import plan as _tf_plan

GIB = 2**30
# Pascal, as most of the published figures were taken on: NVIDIA's data sheet of the P100 (SXM2).
# Usable is what the other cards of lms.devices() with 16 GB leave, NVLink what the sheet says of
# the four links together, each way.
P100 = lms.Device(
    "P100-16GB",
    16 * GIB,
    usable_bytes=int(14.3 * GIB),
    fp32_flops=10.6e12,
    memory_bandwidth=732e9,
    host_bandwidth=80e9 / 2,
    capability="6.0",
    source="NVIDIA Tesla P100 data sheet, SXM2",
)
TRIES = 4  # of budgets, until the added time is the published one


def compiled(problem: Callable[[], Problem]) -> Callable[[], Any]:
    """A function that makes the model as fit() takes it."""

    def make() -> Any:
        made = problem()
        made.model.compile(made.optimizer, made.loss)
        return made.model

    return make


class Planned:
    """One step traced for a batch, planned for any budget, by recomputation and moves alone."""

    def __init__(self, problem: Callable[[], Problem], batch: int, device: lms.Device = P100):
        self.device = device
        with _tf_plan.uncollected():
            traced, _ = _plan.Source(compiled(problem)).trace((batch,))
            self.prepared = _tf_plan.prepare(traced, device)

    def at(self, budget: str, **more: Any) -> dict[str, Any]:
        options = _plan.gathered(budget, {"swap": False, "safety_margin": 0.0, **more})
        with _tf_plan.uncollected():
            report = _plan.planned_from(self.prepared, self.device, options)
        resident = report.resident_bytes
        before = report.peak_before_bytes - resident
        return {
            "budget": budget,
            "status": report.status,
            "reason": report.reason,
            "resident": resident,
            "stock_peak": before,
            "lms_peak": report.peak_after_bytes - resident,
            "cut": 1 - (report.peak_after_bytes - resident) / before,
            "added": report.predicted_time_overhead,
            "bound_added": report.time_overhead_bound,
            "nodes": report.nodes_before,
            "planning_s": sum(report.stage_seconds.values()),
        }


def plans(problem: Callable[[], Problem], batch: int, cut: float, added: float) -> dict[str, Any]:
    """At the published cut, and the largest cut that is found within the published added time."""
    step = Planned(problem, batch)
    at_cut, low = step.at(f"{100 * (1 - cut):g}%"), step.at("min")
    if at_cut["status"] == "infeasible" and low["cut"] >= cut:
        at_cut = low  # the planner finds more when it is asked for the least
    high = at_cut
    best = next((plan for plan in (low, high) if plan["added"] <= added), None)
    for _ in range(TRIES if best is not low else 0):
        share = 100 * (1 - (low["cut"] + high["cut"]) / 2)
        tried = step.at(f"{share:.4g}%")
        if tried["status"] == "rewritten" and tried["added"] <= added:
            best = high = tried
        else:
            low = {**tried, "cut": 1 - share / 100}
    return {"device": step.device.name, "batch": batch, "at_cut": at_cut, "at_added": best}
