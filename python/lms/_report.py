"""What the optimizer did to each function: the reports of the native library, to read."""

from __future__ import annotations

import dataclasses
import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from lms import _native

_ROWS = 12


def format_bytes(count: float) -> str:
    """`count` with a binary unit: 1536 -> "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


def render(parts: Iterable[Any]) -> str:
    """Rich's tables as plain text of at most 100 columns."""
    from rich import console

    text = io.StringIO()
    out = console.Console(file=text, width=100, color_system=None, markup=False)
    for part in parts:
        out.print(part)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


@dataclasses.dataclass(frozen=True)
class Report:
    """What was decided for one function. Memory is in bytes, what is resident included.

    status: "rewritten": the graph was changed, and the new one is predicted to keep the
      budget; "fits": it keeps the budget as it is, nothing was changed; "infeasible": no plan
      keeps the budget (min_budget_bytes is the least that one was found for); "skipped": no
      training step, or nothing to gain; "failed": something went wrong inside lms, and the
      graph was left as it was. `reason` says why, `stage` where.
    budget_bytes: what was asked for; where that was "min", what to ask for to get as low.
    min_budget_bytes: the least budget found that can be asked for, safety_margin included; 0
      where none was looked for.
    predicted_time_overhead: added time as a share of the step's: 0.07 is 7%.
    time_overhead_bound: no plan for the budget, in any order, is predicted to add less time than
      this share; 0 where nothing is known. The gap between the two is what could still be won.
    measured_peak_bytes: what a later call took: by how much the bytes in use rose over those
      before the call, with resident_bytes on top, to be compared with peak_after_bytes; 0 where
      none was measured (no second call yet, another call at the same time, a GPU, v1 sessions).
    measured_steps: how many calls were measured; of two, the lower figure counts.
    sizes: of the dimensions that the function leaves unknown, and where each comes from:
      "images:0 = 64 (first call)".
    decisions: one mapping per operation that is run again ("recompute") or later ("move"), per
      tensor that is copied out ("swap_out") and per copy back ("swap_in"), and, where another
      order is enforced, per control edge ("order": op waits for trigger);
      "priced_by" says whether its "cost_us" was measured ("profile") or not ("estimate").
      "op" is what makes the tensor, "position" and "before" the operation that something is
      computed again or fetched back for, or by whose end a tensor is out; "transfer_us" how
      long the link is busy with it, "stall_us" how long an operation waits for it, both in
      microseconds and 0 for all but swaps.
    swap_tier: where tensors may be swapped to: "host", "disk", or "" for nowhere; swap_note then
      says why, and what to do about it.
    swap_directory: of the file that they are swapped to, where the tier is "disk".
    link: what the way there carries each way, in GB/s, and how that is known.
    swapped_bytes: what is copied out in a step, in bytes.
    swap_hidden: the share of the transfers' time that is hidden behind operations, from 0 to 1;
      0 where nothing is swapped.
    swap_stall: the time in a step, in seconds, that is predicted to be spent waiting for them.
    profile: the file of measured times (lms.calibrate) that prices came from; "" for none.
    profiled_share: the share of the step's predicted time whose operations were measured.
    timeline: bytes in use at each operation in the order assumed, "before" and "after".
    kept: what could not be dropped, and why.
    hints: one mapping per hint (lms.keep, lms.recompute, ...): "kind", "where" it was given, how
      many "tensors" of how many "bytes" it was carried out on, and "not_followed" on how many it
      could not be (`warnings` has reasons); "cost_us": what it adds to the step's time,
      "peak_bytes" and "peak_without_bytes": the predicted peak with it, and of a plan without it
      (0: not looked for, as where nothing was rewritten).
    """

    function: str
    sequence: int
    status: str
    reason: str
    stage: str
    device: str
    budget: str
    budget_bytes: int
    resident_bytes: int
    peak_before_bytes: int
    peak_after_bytes: int
    measured_peak_bytes: int
    measured_steps: int
    min_budget_bytes: int
    predicted_time_overhead: float
    time_overhead_bound: float
    step_time_us: float
    planner_seconds: float
    optimizer_seconds: float
    nodes_before: int
    nodes_after: int
    sizes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    other_devices: tuple[str, ...] = ()
    profile: str = ""
    profiled_share: float = 0.0
    swap_tier: str = ""
    swap_directory: str = ""
    swap_note: str = ""
    link: str = ""
    swapped_bytes: int = 0
    swap_hidden: float = 0.0
    swap_stall: float = 0.0
    decisions: tuple[Mapping[str, Any], ...] = ()
    timeline: Mapping[str, list[int]] = dataclasses.field(default_factory=dict)
    kept: tuple[Mapping[str, Any], ...] = ()
    hints: tuple[Mapping[str, Any], ...] = ()

    def __str__(self) -> str:
        budget = self._budget()
        text = f"{self.function}: {self.status}. "
        if self.status == "rewritten":
            text += (
                f"Predicted peak {format_bytes(self.peak_after_bytes)} instead of "
                f"{format_bytes(self.peak_before_bytes)}, budget {budget}; "
                f"{self._means()}, for "
                f"{self.predicted_time_overhead:+.1%} of the step's time{self._bound()}, "
                f"{self._priced_by_in_short()}; "
                f"planned in {self.planner_seconds:.2f} s.{self._measured()}"
            )
        elif self.status == "fits":
            text += (
                f"Predicted peak {format_bytes(self.peak_before_bytes)}, budget {budget}; "
                f"the graph is unchanged.{self._measured()}"
            )
        elif self.status == "infeasible":
            text += f"Predicted peak {format_bytes(self.peak_after_bytes)}, budget {budget}."
            text += self._measured()
            if self.min_budget_bytes and "least feasible" not in self.reason:
                text += f" The least feasible budget is {format_bytes(self.min_budget_bytes)}."
            if self.swap_note:
                text += f" {self.swap_note[0].upper()}{self.swap_note[1:]}."
        if self.status not in ("rewritten", "fits") and self.reason:
            text += f" {self.reason[0].upper()}{self.reason[1:].rstrip('.')}."
        if self.status == "failed" and self.stage:
            text += f" (Stage: {self.stage}; the graph is unchanged.)"
        for warning in self.warnings:
            text += f" Warning: {warning.rstrip('.')}."
        return text.replace(".  ", ". ").strip()

    def table(self) -> str:
        """The report as a text table, for a terminal."""
        from rich import box, table

        summary = table.Table(title=self.function, box=box.SIMPLE, show_header=False)
        summary.add_column(no_wrap=True)
        summary.add_column(overflow="fold")
        for name, value in self._summary():
            summary.add_row(name, value)
        parts = [summary]
        if self.decisions:
            parts.append(self._decision_table())
        if self.kept:
            kept = table.Table(title="kept in memory", box=box.SIMPLE)
            kept.add_column("bytes", justify="right")
            kept.add_column("tensors", justify="right")
            kept.add_column("reason", overflow="fold")
            for item in self.kept:
                kept.add_row(format_bytes(item["bytes"]), str(item["tensors"]), item["reason"])
            parts.append(kept)
        if self.hints:
            parts.append(self._hint_table())
        return render(parts)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """All fields as JSON text, which is written to `path` as well where one is given."""
        text = json.dumps(dataclasses.asdict(self), indent=1)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Memory over the step, before and after, as a matplotlib Figure; saved to `path`."""
        try:
            from matplotlib import figure
        except ImportError as error:
            raise ImportError(
                "Report.plot() needs matplotlib: pip install matplotlib "
                "(the extra 'plots' of this package brings it)"
            ) from error
        chart = figure.Figure(figsize=(9, 4), layout="tight")
        axes = chart.subplots()
        for name, label in (("before", "stock"), ("after", "with lms")):
            values = self.timeline.get(name, [])
            if values:
                steps = [index / max(1, len(values) - 1) for index in range(len(values))]
                axes.plot(steps, [value / 2**20 for value in values], label=label, linewidth=1)
        if self.budget_bytes > 0:
            axes.axhline(self.budget_bytes / 2**20, color="k", ls="--", lw=1, label="budget")
        axes.set(xlabel="the step's operations, in order", ylabel="MiB", title=self.function)
        axes.set_ylim(bottom=0)
        axes.legend()
        if path is not None:
            chart.savefig(path)
        return chart

    def _means(self) -> str:
        again, moved = self._count("recompute"), self._count("move")
        ordered = self._count("order")
        order = f"another order is held by {ordered} control edges"
        swapped = self._swapped()
        if ordered and not again + moved:
            return f"{order}, {swapped}" if swapped else f"{order} and nothing is computed again"
        text = f"{again} operations are computed again and {moved} moved"
        if swapped:
            text = f"{text}, {swapped}" if again + moved else swapped
        return f"{text}, {order}" if ordered else text

    def _swapped(self) -> str:
        out = self._count("swap_out")
        if not out:
            return ""
        return (
            f"{out} tensors of {format_bytes(self.swapped_bytes)} are swapped to "
            f"{'the host' if self.swap_tier == 'host' else 'disk'} "
            f"({self.swap_hidden:.0%} of the transfers hidden)"
        )

    def _transfers(self, kind: str) -> str:
        """A line of the table on all the copies of one direction."""
        copies = [decision for decision in self.decisions if decision["kind"] == kind]
        if not copies:
            return ""
        size = sum(copy["tensor_bytes"] for copy in copies)
        busy = sum(copy["transfer_us"] for copy in copies)
        stall = sum(copy["stall_us"] for copy in copies)
        return (
            f"{len(copies)} copies of {format_bytes(size)}, {busy / 1e3:.2f} ms on the link, "
            f"{stall / 1e3:.2f} ms waited for"
        )

    def _tier(self) -> str:
        where = self.swap_tier + (f" ({self.swap_directory})" if self.swap_directory else "")
        return where and f"{where}, {self.link}"

    def _count(self, kind: str) -> int:
        return sum(decision["kind"] == kind for decision in self.decisions)

    def _budget(self) -> str:
        if not self.budget_bytes:  # never got as far as to know it
            return self.budget
        return f"{format_bytes(self.budget_bytes)} (asked: {self.budget})"

    def _priced_by_in_short(self) -> str:
        return f"{self.profiled_share:.0%} of it measured" if self.profile else "estimated"

    def _priced_by(self) -> str:
        if not self.profile:
            return "estimates" if self.step_time_us else ""
        return f"{self.profiled_share:.0%} measured times ({self.profile})"

    def _measured(self) -> str:
        if not self.measured_peak_bytes:
            return ""
        return f" Measured: {format_bytes(self.measured_peak_bytes)}."

    def _bound(self) -> str:
        if self.time_overhead_bound <= 0:
            return ""
        return f" (no plan adds less than {self.time_overhead_bound:.1%})"

    def _summary(self) -> list[tuple[str, str]]:
        nodes = f"{self.nodes_before:,} -> {self.nodes_after:,}"
        rows = [
            ("status", self.status),
            ("reason", self.reason),
            ("stage", self.stage if self.status == "failed" else ""),
            ("device", self.device),
            ("other devices of the step", ", ".join(self.other_devices)),
            ("budget", self._budget()),
            ("resident before the step", format_bytes(self.resident_bytes)),
            ("predicted peak, before", format_bytes(self.peak_before_bytes)),
            ("predicted peak, after", format_bytes(self.peak_after_bytes)),
            ("measured peak", format_bytes(self.measured_peak_bytes)),
            ("least feasible budget", format_bytes(self.min_budget_bytes)),
            ("predicted time", f"{self.predicted_time_overhead:+.1%}{self._bound()}"),
            ("priced by", self._priced_by()),
            ("swapping", self._tier() or self.swap_note),
            ("swapped out", self._transfers("swap_out")),
            ("swapped in", self._transfers("swap_in")),
            ("planning", f"{self.planner_seconds:.2f} s of {self.optimizer_seconds:.2f} s"),
            ("nodes", nodes),
            ("sizes", ", ".join(self.sizes)),
        ]
        if not self.measured_peak_bytes:
            rows = [row for row in rows if row[0] != "measured peak"]
        if not self.min_budget_bytes:
            rows = [row for row in rows if row[0] != "least feasible budget"]
        rows += [("warning", warning) for warning in self.warnings]
        return [(name, value) for name, value in rows if value]

    def _hint_table(self) -> Any:
        from rich import box, table

        result = table.Table(title="hints", box=box.SIMPLE)
        for name in ("bytes", "tensors", "cost", "peak", "without it"):
            result.add_column(name, justify="right")
        result.add_column("hint", overflow="fold")
        for item in self.hints:
            lost = f" ({item['not_followed']} could not be)" if item["not_followed"] else ""
            priced = bool(item["peak_without_bytes"])
            result.add_row(
                format_bytes(item["bytes"]),
                str(item["tensors"]),
                f"{item['cost_us'] / 1e3:.2f} ms" if priced else "",
                format_bytes(item["peak_bytes"]) if priced else "",
                format_bytes(item["peak_without_bytes"]) if priced else "",
                f"{item['kind']} {item['where']}{lost}",
            )
        return result

    def _decision_table(self) -> Any:
        from rich import box, table

        count: Counter[tuple[str, str]] = Counter()
        size: Counter[tuple[str, str]] = Counter()
        cost: Counter[tuple[str, str]] = Counter()
        for decision in self.decisions:
            key = (decision["kind"], decision["op_type"])
            count[key] += 1
            size[key] += decision["tensor_bytes"]
            cost[key] += decision["cost_us"]
        result = table.Table(title="decisions, by operation type", box=box.SIMPLE)
        for name in ("bytes", "operations", "cost"):
            result.add_column(name, justify="right")
        result.add_column("decision", no_wrap=True)
        largest = sorted(size, key=lambda key: (-size[key], key))
        for key in largest[:_ROWS]:
            result.add_row(
                format_bytes(size[key]), str(count[key]), f"{cost[key] / 1e3:.2f} ms", " ".join(key)
            )
        if len(largest) > _ROWS:
            result.add_row("", "", "", f"and {len(largest) - _ROWS} types more")
        return result


def from_native(raw: Mapping[str, Any]) -> Report:
    """A Report from the native library's mapping."""
    raw = {"hints": (), **raw}
    values = {field.name: raw[field.name] for field in dataclasses.fields(Report)}
    for name in ("sizes", "warnings", "decisions", "kept", "hints"):
        values[name] = tuple(values[name])
    return Report(**values)


def reports() -> list[Report]:
    """The latest reports of the process, oldest first; the oldest are dropped in time."""
    return [from_native(raw) for raw in _native.reports()]


def report() -> Report | None:
    """The report to read first; None where nothing has run yet.

    The latest about a function that needed lms ("rewritten", "infeasible", "failed"); where
    none did, the one about the function with the largest predicted peak, which is the training
    step in most programs. `reports()` has all of them.
    """
    latest = reports()
    needed = [item for item in latest if item.status in ("rewritten", "infeasible", "failed")]
    if needed:
        return needed[-1]
    return max(
        latest, key=lambda item: (item.status == "fits", item.peak_before_bytes), default=None
    )


def clear_reports() -> None:
    """Forgets the reports so far."""
    _native.clear_reports()
