"""Runs a random program with stock TensorFlow and with lms: what is not as it should be?"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import re
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import lms
import numpy as np
import tensorflow as tf
from lms._settings.swap_options import grouped
from lms._tf import context as _tf_context
from program import Step

HERE = os.path.dirname(os.path.abspath(__file__))
STATUSES = {"rewritten", "fits", "infeasible", "skipped", "failed"}
MORE_STEPS = 4  # than the program has, at most, for one that makes no plan
# Of stock, before a difference counts: in what order its executor runs what is ready depends on
# times that it measures, so one run of many may have other last bits. (Seen: 1% of the runs in one
# process and 12% in the next, of the program whose bits lms always has.)
REPEATS = 400
FEW = 12  # in any case; more only while they take no longer than:
REPEATS_SECONDS = 90.0
TOLERANCE = 1.02  # measured peak over budget, and by more than these bytes:
WORKSPACE = 16 << 10  # kernels' own, which lms does not model
MOST_LEAKED = 4 << 10
# Causes outside of lms, or nothing that training sees.
APART = ("budget", "budget-warned", "leak", "details")
HARD = ("bits", "error", "failed", "claim", "status")  # findings that are wrong in any case


@dataclasses.dataclass
class Outcome:
    """Of one program under one set of options.

    `finding`: "" or one of HARD, or "budget" where the measured peak is above the budget
    ("budget-warned": the report says that something held is not predicted), or "leak", or
    "details" where those of a report do not add up.
    `status`: of the last report on the step, "unseen" where there is none, "invalid"
    where the program cannot be traced, "raises" where stock raises. `excess`: measured peak over
    budget.
    `unrepeatable`: it differs, and so does stock from itself. `kinds`: of the plan's decisions.
    """

    options: dict[str, Any]
    finding: str = ""
    status: str = "unseen"
    detail: str = ""
    excess: float = 0.0
    unrepeatable: bool = False
    finite: bool = True
    nodes: int = 0
    kinds: tuple[str, ...] = ()
    least: int = 0  # budget that the report calls feasible, where this one is not

    def found(self, kind: str, detail: str) -> None:
        if not self.finding or self.finding in APART:
            self.finding, self.detail = kind, detail


@dataclasses.dataclass
class Run:
    """What a run of some steps has computed, by name; what it raised; by how much the bytes in
    use rose in each step, and (`quiet`) in those after the first in which no plan was made."""

    values: dict[str, np.ndarray]
    error: str = ""
    message: str = ""
    rises: list[int] = dataclasses.field(default_factory=list)
    quiet: list[int] = dataclasses.field(default_factory=list)


def run(step: Step, start: list[Any], steps: int, more: int = 0) -> Run:
    """`more`: at most so many steps more, of which only the rise is looked at, until one makes no
    plan. (A new plan's constants are made in the step that plans.)"""
    for variable, value in zip(step.variables, start):
        # Not numpy's own storage, which TensorFlow takes over where it is aligned.
        variable.assign(tf.raw_ops.DeepCopy(x=value))
    # With the kernels gone, random operations with a seed start from it in each run.
    _tf_context.forget_optimized_functions()
    result = Run({})
    try:
        for index in range(steps):
            returned = _measured(step, index, result)
            for number, tensor in enumerate(returned):
                result.values[f"step {index} output {number}"] = tensor.numpy()
            del returned, tensor
    except tf.errors.OpError as error:
        result.error, result.message = type(error).__name__, str(error)
        return result
    for number, variable in enumerate(step.variables):
        result.values[f"variable {number} {variable.shape}"] = variable.numpy()
    with contextlib.suppress(tf.errors.OpError):
        for index in range(steps, steps + more):
            if result.quiet:
                break
            _measured(step, index, result)
    return result


def _measured(step: Step, index: int, result: Run) -> Any:
    arguments = step.arguments(index)
    plans = [report.sequence for report in lms.reports()]
    lms.memory.reset_peak()
    before = lms.memory.bytes_in_use()
    returned = step.function(*arguments)
    result.rises.append(lms.memory.peak_bytes() - before)
    if index > 0 and [report.sequence for report in lms.reports()] == plans:
        result.quiet.append(result.rises[-1])
    return returned


def different(a: Run, b: Run) -> list[str]:
    if a.error != b.error:
        return [f"raises {a.error or 'nothing'}, then {b.error or 'nothing'}"]
    return [name for name in a.values if not same_bits(a.values[name], b.values[name])]


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Any NaN equals any other: which bits it has is nobody's promise."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.tobytes() == b.tobytes():
        return True
    both = (a != a) & (b != b)
    return bool((both | ((a == b) & (np.signbit(a) == np.signbit(b)))).all())


@contextlib.contextmanager
def _ready(options: dict[str, Any], stock: Run, resident: int) -> Iterator[dict[str, Any]]:
    """The options as lms.enable takes them; where one says so, with a directory to swap to."""
    ready = dict(options)
    if isinstance(ready.get("memory_budget"), float):
        share = ready["memory_budget"]
        ready["memory_budget"] = max(1, int(share * (resident + max(stock.rises or [1]))))
    with tempfile.TemporaryDirectory(prefix="lms-fuzz-") as directory:
        if ready.get("swap_to") == "directory":
            ready["swap_to"] = directory + os.sep
        yield grouped(ready)


def check(spec: dict[str, Any], repeats: int = REPEATS) -> list[Outcome]:
    """One outcome for each of the program's sets of options, and one more for each budget that
    was infeasible: with the budget that the report says is feasible. `repeats`: of stock, at most,
    where lms computes something else."""
    todo = [dict(options) for options in spec["options"]]
    try:
        step = Step(spec)
    except Exception as error:
        return [Outcome({}, status="invalid", detail=_where(error))]
    steps = max(1, min(6, spec.get("steps", 3)))
    start = [variable.numpy() for variable in step.variables]
    stock = run(step, start, steps)
    resident = sum(value.nbytes for value in start)
    finite = all(np.isfinite(v).all() for v in stock.values.values() if v.dtype.kind == "f")
    outcomes: list[Outcome] = []
    before = _held(step, start)
    for options in todo:
        outcome = Outcome(options, finite=finite)
        outcomes.append(outcome)
        lms.clear_reports()
        named = {name: value for name, value in options.items() if name != "again"}
        with _ready(named, stock, resident) as ready, lms.enabled(**ready):
            ours = run(step, start, steps, MORE_STEPS)
        _judge_reports(step, ours, outcome)
        names = different(stock, ours)
        if names:
            again = _again(step, start, steps, repeats)
            plans = sum(step.name in report.function for report in lms.reports())
            _judge_difference(names, stock, ours, again, outcome, plans)
        del ours
        left = _held(step, start) - before
        if left > MOST_LEAKED:  # is it a cycle of Python's?
            gc.collect()
            left = _held(step, start) - before
        if left > MOST_LEAKED and not stock.error:
            outcome.found("leak", f"{left} bytes are still in use afterwards")
            before += left
        if outcome.status == "skipped":  # it will be under the others, too
            break
        if stock.error:
            outcome.status, outcome.detail = "raises", " ".join(stock.message.split())[:300]
        elif outcome.least and len(todo) < 8 and not options.get("again"):
            todo.append({**options, "memory_budget": int(outcome.least * 1.03), "again": True})
    return outcomes


def _held(step: Step, start: list[Any]) -> int:
    """The bytes in use between runs. (Tracing alone leaves some behind for good, without lms.)"""
    for variable, value in zip(step.variables, start):
        variable.assign(tf.raw_ops.DeepCopy(x=value))
    _tf_context.forget_optimized_functions()
    return lms.memory.bytes_in_use()


def _again(step: Step, start: list[Any], steps: int, repeats: int) -> Iterator[Run]:
    """Runs of stock, as many as are asked for and there is time for."""
    begin = time.monotonic()
    for number in range(repeats):
        if number >= FEW and time.monotonic() - begin > REPEATS_SECONDS:
            return
        yield run(step, start, steps)


def _judge_difference(
    names: list[str], stock: Run, ours: Run, again: Iterable[Run], outcome: Outcome, plans: int
) -> None:
    """Is what differs (`names`) what stock does not repeat either, in what it runs again?

    Stock optimizes a function once for all steps of a run. Where lms planned between them, a step
    may take one of the ways that stock has and the next one another: what comes after a state
    that stock does not repeat tells nothing then."""
    varying: set[str] = set()
    count = 0
    for other in again:
        count += 1
        varying.update(different(stock, other))
        if plans > 1 and any(name.startswith("variable") for name in varying):
            varying.update(name for name in names if not name.startswith("step 0 "))
        if varying.issuperset(names):
            outcome.unrepeatable = True
            return
    rest = ", ".join(name for name in names if name not in varying)
    kind = "error" if stock.error != ours.error else "bits"
    outcome.found(kind, f"{rest} (stock repeats that in {count} more runs)")


# What a report says where it knows nothing of what is held somewhere: there is no budget to keep.
_NO_PROMISE = ("is not predicted", "is neither predicted")
_AT_WORST = re.compile(r"at worst the step takes ([\d.]+) ([KMG]iB|B)")


def _said_at_worst(warnings: Sequence[str]) -> float:
    """What a report says that the step may take where iterations of a loop run ahead; else 0."""
    units = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    found = [match for text in warnings if (match := _AT_WORST.search(text))]
    return max((float(m[1]) * units[m[2]] for m in found), default=0)


def _judge_reports(step: Step, ours: Run, outcome: Outcome) -> None:
    reports = lms.reports()
    for report in reports:
        if report.status not in STATUSES:
            outcome.found("status", report.status)
        elif report.status == "failed":
            outcome.found("failed", f"{report.stage}: {report.reason}")
        elif report.status == "rewritten" and report.peak_after_bytes > report.budget_bytes:
            outcome.found(
                "claim", f"predicted {report.peak_after_bytes} over {report.budget_bytes}"
            )
        elif report.status == "infeasible" and report.budget == "min":
            outcome.found("claim", f"the least is infeasible: {report.reason}")
        wrong = _wrong_in_details(report)
        if wrong:
            outcome.found("details", wrong)
    own = [report for report in reports if step.name in report.function]
    if not own:
        return
    last = own[-1]
    outcome.status, outcome.nodes = last.status, last.nodes_before
    outcome.kinds = tuple(sorted({decision["kind"] for decision in last.decisions}))
    if last.status == "infeasible" and last.min_budget_bytes < last.peak_before_bytes:
        outcome.least = last.min_budget_bytes
    judged = last.status in ("rewritten", "fits") and not ours.error
    rises = ours.quiet or ours.rises[1:]
    if judged and rises and _as_planned_for(step.spec, outcome.options):
        measured = last.resident_bytes + min(rises)
        outcome.excess = measured / last.budget_bytes
        if outcome.excess > TOLERANCE and measured - last.budget_bytes > WORKSPACE:
            warned = any(said in text for text in last.warnings for said in _NO_PROMISE)
            warned |= measured <= TOLERANCE * _said_at_worst(last.warnings)
            outcome.found(
                "budget-warned" if warned else "budget",
                f"{last.status}: measured {measured}, budget {last.budget_bytes}, predicted "
                f"{last.peak_after_bytes}, resident {last.resident_bytes}; "
                f"warnings {len(last.warnings)}",
            )


def _wrong_in_details(report: lms.Report) -> str:
    """What the report's details say that does not go with the rest of it, or with themselves."""
    stored = json.loads(report.to_json())
    details = stored["details"]
    if details is None or stored["status"] != report.status:
        return "" if stored["status"] == report.status else "another status in JSON"
    buffers = details["buffers"]
    sides = [("before", report.peak_before_bytes), ("after", report.peak_after_bytes)]
    for side, peak in sides if details["after"] else sides[:1]:
        used = np.array(details[side]["bytes"], np.int64)
        if used.max(initial=0) != peak or used[details[f"peak_{side}"]] != peak:
            return f"details: {used.max(initial=0)} {side}, not {peak}"
        change = np.zeros(len(used) + 1, np.int64)
        for size, intervals in zip(buffers["bytes"], buffers[side]):
            for first, last in intervals:
                change[first] += size
                change[last + 1] -= size
        held = np.cumsum(change)[:-1]
        if not details["omitted"]["buffers"] and not (held == used).all():
            at = int((held != used).argmax())
            return f"details: {held[at]} in buffers {side} at {at}, not {used[at]}"
    return ""


def _as_planned_for(spec: dict[str, Any], options: dict[str, Any]) -> bool:
    """Whether the steps have the sizes that the plan is for."""
    if not spec.get("open"):
        return True
    batches = set(spec.get("batches") or [1])
    sizes = options.get("unknown_dim")
    return len(batches) == 1 and sizes in (None, spec["rows"] * next(iter(batches)))


def _where(error: BaseException) -> str:
    """One line on an error, and the deepest line of these files that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if os.path.dirname(frame.filename) == HERE]
    place = f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}" if own else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__} at {place}: {text[:200]}"
