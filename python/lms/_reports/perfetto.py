"""Reports as traces: the predicted step in the JSON format of Chrome's trace events.

One process per side, "stock" and "with lms". Each has counter tracks of the memory in use and of
the budget, tracks of operations, one group for each phase of the step, and tracks of what lms has
added: recomputations, moves, copies out and back in. Operations are shown one after the other, as
the plan prices them, with the copies beside them. An arrow leads from the operation that is done
again, or whose tensor is swapped out, to where that happens; the peak is an instant event. Times
are microseconds.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lms._base.format import format_bytes

if TYPE_CHECKING:
    from lms._reports.report import Report

_KIND_TRACKS = {
    "recompute": "recomputed",
    "move": "moved",
    "swap_out": "swapped out",
    "swap_in": "swapped in",
}
_TRACKS = ("forward", "backward", "update", *_KIND_TRACKS.values())
_LANES = 1000  # of one track, more than threads that any run has
_ROUNDED = 0.002  # times are rounded to nanoseconds


class _Lanes:
    """Tracks for slices that may overlap: each takes the first that is free."""

    def __init__(self) -> None:
        self._latest: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def take(self, track: str, event: dict[str, Any]) -> int:
        """The number of a lane in which the slice fits; it may shorten the one before it there."""
        latest = self._latest[track]
        for lane, before in enumerate(latest):
            over = before["ts"] + before["dur"] - event["ts"]
            if over <= _ROUNDED:
                if over > 0:
                    before["dur"] = max(0.0, event["ts"] - before["ts"])
                latest[lane] = event
                return lane
        latest.append(event)
        return min(len(latest) - 1, _LANES - 1)


class _Side:
    """The events of one side."""

    def __init__(self, report: Report, details: Mapping[str, Any], side: str) -> None:
        self._details = details
        self._side = details[side]
        self._pid = 1 if side == "before" else 2
        self._peak = details["peak_" + side]
        self._budget = report.budget_bytes
        self._strings = details["strings"]
        self._decisions: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
        for decision in report.decisions if side == "after" else ():
            self._decisions[decision["kind"], decision["op"]].append(decision)
        self._buffers: dict[str, int] = {}
        buffers = details["buffers"]
        for row, name in enumerate(buffers["name"]):
            self._buffers.setdefault(self._strings[name].rpartition(":")[0], row)
        self._threads: dict[int, str] = {}

    def events(self) -> list[dict[str, Any]]:
        slices = self._slices()
        name = "stock" if self._pid == 1 else "with lms"
        head = [self._meta("process_name", {"name": f"{name} (predicted)"})]
        for tid, label in sorted(self._threads.items()):
            head.append(self._meta("thread_name", {"name": label}, tid))
            head.append(self._meta("thread_sort_index", {"sort_index": tid}, tid))
        return head + sorted(slices + self._counters(), key=lambda event: event["ts"])

    def _meta(self, name: str, args: dict[str, Any], tid: int = 0) -> dict[str, Any]:
        return {"ph": "M", "name": name, "pid": self._pid, "tid": tid, "args": args}

    def _counter(self, name: str, at: float, count: int) -> dict[str, Any]:
        return {
            "ph": "C",
            "cat": "memory",
            "name": name,
            "pid": self._pid,
            "tid": 0,
            "ts": at,
            "args": {"bytes": count},
        }

    def _counters(self) -> list[dict[str, Any]]:
        events, latest = [], None
        starts, sizes = self._side["start_us"], self._side["bytes"]
        for at, count in zip(starts, sizes):
            if count != latest:
                events.append(self._counter("memory in use", at, count))
            latest = count
        if self._budget > 0:
            events += [self._counter("budget", at, self._budget) for at in (starts[0], starts[-1])]
        events.append(
            {
                "ph": "i",
                "cat": "memory",
                "name": f"peak: {format_bytes(sizes[self._peak])}",
                "s": "p",
                "pid": self._pid,
                "tid": 0,
                "ts": starts[self._peak],
                "args": {"bytes": sizes[self._peak]},
            }
        )
        return events

    def _slices(self) -> list[dict[str, Any]]:
        details, side = self._details, self._side
        events: list[dict[str, Any]] = []
        lanes = _Lanes()
        made: dict[str, dict[str, Any]] = {}  # per operation: the slice that has its first result
        arrows = 0
        for position, begin in enumerate(side["start_us"]):
            kind = details["kinds"][side["kind"][position]]
            phase = details["phases"][side["phase"][position]]
            op = self._strings[side["op"][position]]
            took = max(0.0, side["took_us"][position])
            track = _KIND_TRACKS.get(kind, phase)
            event: dict[str, Any] = {
                "ph": "X",
                "cat": phase if kind == "run" else kind,
                "name": op,
                "pid": self._pid,
                "ts": begin,
                "dur": took,
                "args": {
                    "type": self._strings[side["type"][position]],
                    "phase": phase,
                    "position": position,
                    "memory in use": side["bytes"][position],
                },
            }
            lane = lanes.take(track, event)
            event["tid"] = 1 + _TRACKS.index(track) * _LANES + lane
            self._threads[event["tid"]] = track if lane == 0 else f"{track} ({lane + 1})"
            if kind != "run":
                event["args"].update(self._why(kind, op))
            events.append(event)
            source = made.get(op)
            if kind in ("recompute", "swap_out", "swap_in") and source is not None:
                arrows += 1
                events += self._arrow(arrows, kind, source, event)
            if kind == "swap_out" or source is None:
                made[op] = event
        return events

    def _why(self, kind: str, op: str) -> dict[str, Any]:
        """What the plan says of it; copies of views have no decision of their own."""
        args: dict[str, Any] = {}
        waiting = self._decisions.get((kind, op))
        if waiting:
            decision = waiting.pop(0)
            args["bytes"] = decision["tensor_bytes"]
            args["cost in us"] = decision["cost_us"]
            args["for"] = decision["before"]
            args["waits for"] = decision["trigger"]
            if decision["transfer_us"]:
                args["on the link in us"] = decision["transfer_us"]
                args["waited for in us"] = decision["stall_us"]
        row = self._buffers.get(op)
        if row is not None:
            args["reason"] = self._strings[self._details["buffers"]["reason"][row]]
        return args

    def _arrow(
        self, number: int, kind: str, source: dict[str, Any], target: dict[str, Any]
    ) -> list[dict[str, Any]]:
        common = {"cat": kind, "name": kind, "pid": self._pid, "id": self._pid * 10**9 + number}
        return [
            {"ph": "s", **common, "tid": source["tid"], "ts": source["ts"]},
            {"ph": "f", "bp": "e", **common, "tid": target["tid"], "ts": target["ts"]},
        ]


def dumps(report: Report) -> str:
    """The trace as text, one event per line. Raises ValueError where there are no details."""
    details = report.details
    if details is None:
        raise ValueError(
            f"the report on {report.function} ({report.status}) has no details, which a trace is "
            "made of: only the latest reports that neither failed nor were skipped have them"
        )
    events = _Side(report, details, "before").events()
    if details["after"] is not None:
        events += _Side(report, details, "after").events()
    about = {
        "function": report.function,
        "status": report.status,
        "device": report.device,
        "budget": report.budget,
    }
    lines = ",\n".join(json.dumps(event) for event in events)
    return (
        f'{{"displayTimeUnit": "ms", "otherData": {json.dumps(about)}, '
        f'"traceEvents": [\n{lines}\n]}}\n'
    )
