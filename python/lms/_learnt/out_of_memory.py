"""What is said where a step runs out of memory: what was asked for, and what would train.

TensorFlow's error names an operation and a tensor. The words added to it say what lms had done to
the step, and which budget is predicted to train in the memory that was there, at which cost: the
step is planned for some budgets there and then, once for each plan of it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

from lms import _native, memory
from lms._base.format import format_bytes
from lms._learnt.feedback import Step, part_on

# As the OP_REQUIRES of TensorFlow's kernels and OpKernelContext::allocate_tensor have it.
_ASKED = re.compile(
    r"OOM when allocating tensor with shape\[([\d,]*)\] and type ([\w ]+) on (\S+) by allocator"
)
_NODE = re.compile(r"\{\{node ([^}]+)\}\}")
_SIZES = {"half": 2, "bfloat16": 2, "float": 4, "double": 8, "int32": 4, "int64": 8, "bool": 1}
# Of the memory that was there, the shares that are tried as budgets: chunks and holes take the
# rest.
_SHARES = (0.97, 0.93, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
_PLANNING_SECONDS = 2.0
# Of the step's peak: what is in use beside it and is less counts as nothing.
_OTHERS = 0.02
_PAGE = "docs/out-of-memory.md"

_lock = threading.Lock()
_advice: dict[int, str] = {}  # by the number of the plan
_MOST_KEPT = 64


def asked_for(text: str) -> tuple[str, str, str] | None:
    """Of TensorFlow's error: what the tensor takes or is, the operation, the device; None where it
    is about something else than a tensor that found no room."""
    found = _ASKED.search(text)
    if found is None:
        return None
    shape, kind, device = found.groups()
    count = 1
    for size in filter(None, shape.split(",")):
        count *= int(size)
    what = f"a tensor of shape [{shape.replace(',', ', ')}] and type {kind}"
    if kind in _SIZES:
        what = f"{format_bytes(count * _SIZES[kind])}, {what}"
    node = _NODE.search(text)
    return what, node.group(1) if node else "", device


def explained(text: str, function: str, again: str = "") -> str:
    """Words to follow the error `text` of a call of `function`; "" where there is nothing to say.

    again: what planned_lower() has said.
    """
    asked = asked_for(text)
    if asked is None:
        return ""
    what, node, device = asked
    short = device.rpartition("/device:")[2] or device
    parts = [f"lms: out of memory on {short}. TensorFlow asked for {what}"]
    parts[0] += f", for {node}" if node else ""
    limit = _pool_limit(device)
    used = 0 if limit else _most_in_use(device)
    if limit:
        parts[0] += f"; the limit there is {format_bytes(limit)}"
    elif used:
        parts[0] += f"; up to {format_bytes(used)} were in use there"
    parts[0] += "."
    plan = part_on(_native.latest_plan(function), device)
    if plan is None:
        parts.append(
            "lms has not changed this function: it changes training steps, whose memory goes to "
            "activations. print(lms.explain()) says more."
        )
    else:
        others = _of_others(device, plan)
        if others:
            what = "of them" if used else "were in use"
            parts[0] = f"{parts[0][:-1]}, {format_bytes(others)} {what} not by this step."
        parts += [_state(plan), _advised(plan, _had(device, plan))]
    return " ".join(filter(None, [*parts, again, f"More: {_PAGE}"]))


def _most_in_use(device: str) -> int:
    """0: not known."""
    try:
        return memory.peak_bytes(device)
    except (RuntimeError, ValueError):
        return 0


def _pool_limit(device: str) -> int:
    """Bytes; 0: there is none."""
    return _native.cpu_pool_limit() if ":CPU:" in device.upper() else 0


def _of_others(device: str, plan: Mapping[str, Any] | None) -> int:
    """Bytes that are in use now, after the call, beyond what the step finds there by its plan; 0
    also where that is less than a share that no plan is that near to, or is not known."""
    if plan is None:
        return 0
    try:
        held = memory.bytes_in_use(device) - int(plan["resident_bytes"])
    except (RuntimeError, ValueError):
        return 0
    return held if held > _OTHERS * int(plan["peak_after_bytes"]) else 0


def _had(device: str, plan: Mapping[str, Any] | None) -> int:
    """Bytes that the step had there at the most, or could have; 0: not known."""
    # What is counted on a CPU may have begun after something was there.
    had = _pool_limit(device) or _most_in_use(device)
    return max(0, had - _of_others(device, plan))


def _state(plan: Mapping[str, Any]) -> str:
    peak, budget = format_bytes(plan["peak_after_bytes"]), format_bytes(plan["budget_bytes"])
    if plan["status"] == "rewritten":
        return f"lms has changed the step for a budget of {budget}; it is predicted to take {peak}."
    if plan["status"] == "infeasible":
        return f"lms found no plan for a budget of {budget}; the step is predicted to take {peak}."
    return (
        f"lms has left the step as it is, because it is predicted to take {peak}, and the budget "
        f"is {budget}."
    )


def _advised(plan: Mapping[str, Any], there: int) -> str:
    """Which budget would train in what was there, and what it would cost."""
    with _lock:
        told = _advice.get(plan["sequence"])
    if told is None:
        told = _found(plan, there)
        with _lock:
            if len(_advice) >= _MOST_KEPT:
                _advice.clear()
            _advice[plan["sequence"]] = told
    return told


def _found(plan: Mapping[str, Any], there: int) -> str:
    predicted = int(plan["peak_after_bytes"])
    # What was in use is what there is; where the step was to take less, holes took the rest.
    there = min(there, predicted) if there > plan["resident_bytes"] else predicted
    budgets = [int(there * share) for share in _SHARES]
    budgets = [budget for budget in budgets if budget > plan["resident_bytes"]]
    tried = (
        _native.plan_for_budgets(plan["sequence"], budgets, 2, _PLANNING_SECONDS)
        if budgets
        else None
    )
    points = sorted(tried["points"], reverse=True) if tried else []
    for budget, peak, added, feasible in points:
        if feasible and peak <= budgets[0]:
            return (
                f"This budget is predicted to train: memory_budget={_typed(budget)} "
                f"takes {format_bytes(peak)} at the peak, and {_more(added)}."
            )
    least = format_bytes(min([predicted, *(peak for _, peak, _, _ in points)]))
    return (
        f"No plan was found that takes less than {least}: make the batch smaller "
        "(lms.max_batch_size says how large it can be)."
    )


def _more(added: float) -> str:
    return f"{added:.1%} more time" if added < 2 else f"{1 + added:.3g} times the time"


def _typed(budget: int) -> str:
    """A budget as it is written, rounded down."""
    return f'"{budget >> 20}MiB"' if budget >= 64 << 20 else str(budget)


def planned_lower(text: str, step: Step | None, alone: bool) -> tuple[bool, str]:
    """After a call that ended with the error `text`: plans its function for less, undoes what it
    has changed, and says whether it may be run again; and words on that.

    alone: no other call ran beside it.
    """
    asked = asked_for(text)
    if asked is None or step is None:
        return False, ""
    device = asked[2]
    plan = part_on(_native.latest_plan(step.function), device)
    why_not = step.lower(device, _had(device, plan))
    if why_not:
        return False, f"lms does not run the step again: {why_not}."
    why_not, element = ("other calls ran beside it", False)
    if alone:
        why_not, element = _native.undo_changes(step.function)
    if why_not:
        return False, (
            f"lms does not run the step again: {why_not}. The next call is planned for less."
        )
    lost = " The batch that it had taken from its iterator is lost." if element else ""
    return True, f"{step.function} ran out of memory: it is planned for less, and run again.{lost}"
