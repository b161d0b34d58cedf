"""Reports in words and as tables, for terminals and for files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lms._base.format import counted, format_bytes, format_peak
from lms._reports.layers import by_layer

if TYPE_CHECKING:
    from lms._reports.report import Report

_ROWS = 12
_AT_PEAK = 8
_COLOURS = {"rewritten": "green", "fits": "green", "infeasible": "red", "failed": "red"}


def sentence(report: Report) -> str:
    """The report in one paragraph."""
    budget = _budget(report)
    text = f"{report.worker}: " if report.worker else ""
    text += f"{report.function}: {report.status}"
    text += f", if {report.assumption}. " if report.assumption else ". "
    if report.status == "rewritten":
        text += (
            f"Predicted peak {peak_after(report)} instead of "
            f"{peak_before(report)}, budget {budget}; "
            f"{_means(report)}, for "
            f"{report.predicted_time_overhead:+.1%} of the step's time{_bound(report)}, "
            f"{_priced_by_in_short(report)}; "
            f"planned in {report.planner_seconds:.2f} s.{_measured(report)}"
        )
    elif report.status == "fits":
        text += (
            f"Predicted peak {peak_before(report)}, budget {budget}; "
            f"the graph is unchanged.{_measured(report)}"
        )
    elif report.status == "infeasible":
        text += f"Predicted peak {peak_after(report)}, budget {budget}."
        text += _measured(report)
        if report.min_budget_bytes and "least feasible" not in report.reason:
            text += f" The least feasible budget is {format_bytes(report.min_budget_bytes)}."
        if report.swap_note:
            text += f" {report.swap_note[0].upper()}{report.swap_note[1:]}."
    reason = report.reason.removeprefix(f"if {report.assumption}: ")
    if report.status not in ("rewritten", "fits") and reason:
        text += f" {reason[0].upper()}{reason[1:].rstrip('.')}."
    if report.status == "failed" and report.stage:
        text += f" (Stage: {report.stage}; the graph is unchanged.)"
    for warning in report.warnings:
        text += f" Warning: {warning.rstrip('.')}."
    return text.replace(".  ", ". ").strip()


def peak_before(report: Report) -> str:
    """The predicted peak of stock TensorFlow, with what is usual where that is lower."""
    return format_peak(report.peak_before_bytes, report.usual_peak_before_bytes)


def peak_after(report: Report) -> str:
    """The same with lms."""
    return format_peak(report.peak_after_bytes, report.usual_peak_after_bytes)


def tables(report: Report) -> list[Any]:
    """The report as Rich's tables; only colours and width depend on where they are printed."""
    from rich import box, table, text

    summary = table.Table(title=text.Text(report.function), box=box.SIMPLE, show_header=False)
    summary.add_column(no_wrap=True, style="cyan")
    summary.add_column(overflow="fold")
    for name, value in _summary(report):
        style = _COLOURS.get(value, "") if name == "status" else ""
        summary.add_row(name, text.Text(value, style="yellow" if name == "warning" else style))
    parts = [summary]
    if report.decisions:
        parts.append(_decision_table(report))
    if report.details is not None:
        parts.append(_peak_table(report, report.details))
        parts.append(_layer_table(report.details))
    if report.kept:
        kept = table.Table(title="kept in memory", box=box.SIMPLE)
        kept.add_column("bytes", justify="right")
        kept.add_column("tensors", justify="right")
        kept.add_column("reason", overflow="fold")
        for item in report.kept:
            kept.add_row(
                format_bytes(item["bytes"]), str(item["tensors"]), text.Text(item["reason"])
            )
        parts.append(kept)
    if report.hints:
        parts.append(_hint_table(report))
    return parts


def held_at(details: Mapping[str, Any], side: str, position: int) -> list[int]:
    """Rows of details["buffers"] that are held at a position of "before" or "after", largest first.

    A buffer of which two instances are there at once stands there twice.
    """
    held = []
    for row, intervals in enumerate(details["buffers"][side]):
        held += [row for first, last in intervals if first <= position <= last]
    return held


def _peak_table(report: Report, details: Mapping[str, Any]) -> Any:
    from rich import box, table, text

    side = "before" if details["after"] is None else "after"
    position = details["peak_" + side]
    rows = held_at(details, side, position)
    buffers, strings = details["buffers"], details["strings"]
    title = "largest at the peak"
    if side == "after":
        title += " of the rewritten step"
    operation = strings[details[side]["op"][position]]
    result = table.Table(title=text.Text(f"{title}, at {operation}"), box=box.SIMPLE)
    result.add_column("bytes", justify="right")
    result.add_column("role")
    result.add_column("fate")
    result.add_column("tensor", overflow="fold")
    for row in rows[:_AT_PEAK]:
        result.add_row(
            format_bytes(buffers["bytes"][row]),
            details["roles"][buffers["role"][row]],
            details["fates"][buffers["fate"][row]],
            text.Text(strings[buffers["name"][row]]),
        )
    if len(rows) > _AT_PEAK:
        rest = sum(buffers["bytes"][row] for row in rows[_AT_PEAK:])
        result.add_row(format_bytes(rest), "", "", f"{len(rows) - _AT_PEAK} more tensors")
    return result


def _layer_table(details: Mapping[str, Any]) -> Any:
    from rich import box, table, text

    rewritten = details["after"] is not None
    result = table.Table(title="largest layers at the peak", box=box.SIMPLE)
    if rewritten:
        result.caption = "the two peaks are at different places of the step"
    result.add_column("stock" if rewritten else "bytes", justify="right")
    if rewritten:
        result.add_column("with lms", justify="right")
    result.add_column("weights", justify="right")
    result.add_column("layer", overflow="fold")
    rows = by_layer(details)
    for row in rows[:_AT_PEAK]:
        sizes = [row.before_bytes, row.after_bytes] if rewritten else [row.before_bytes]
        shown = [format_bytes(size) for size in (*sizes, row.weight_bytes)]
        result.add_row(*shown, text.Text(row.layer))
    if len(rows) > _AT_PEAK:
        rest = rows[_AT_PEAK:]
        sums = [sum(row.before_bytes for row in rest), sum(row.after_bytes for row in rest)]
        sizes = [*(sums if rewritten else sums[:1]), sum(row.weight_bytes for row in rest)]
        result.add_row(*map(format_bytes, sizes), f"{len(rest)} more layers")
    return result


def _means(report: Report) -> str:
    again, moved = _count(report, "recompute"), _count(report, "move")
    ordered = _count(report, "order")
    order = f"another order is held by {counted(ordered, 'control edge')}"
    swapped = _swapped(report)
    if ordered and not again + moved:
        return f"{order}, {swapped}" if swapped else f"{order} and nothing is computed again"
    text = f"{counted(again, 'operation is', 'operations are')} computed again and {moved} moved"
    if swapped:
        text = f"{text}, {swapped}" if again + moved else swapped
    return f"{text}, {order}" if ordered else text


def _swapped(report: Report) -> str:
    out = _count(report, "swap_out")
    if not out:
        return ""
    return (
        f"{counted(out, 'tensor')} of {format_bytes(report.swapped_bytes)} "
        f"{'is' if out == 1 else 'are'} swapped to "
        f"{'the host' if report.swap_tier == 'host' else 'disk'} "
        f"({report.swap_hidden:.0%} of the transfers hidden)"
    )


def _transfers(report: Report, kind: str) -> str:
    """A line of the table on all the copies of one direction."""
    copies = [decision for decision in report.decisions if decision["kind"] == kind]
    if not copies:
        return ""
    size = sum(copy["tensor_bytes"] for copy in copies)
    busy = sum(copy["transfer_us"] for copy in copies)
    stall = sum(copy["stall_us"] for copy in copies)
    return (
        f"{counted(len(copies), 'copy', 'copies')} of {format_bytes(size)}, "
        f"{busy / 1e3:.2f} ms on the link, {stall / 1e3:.2f} ms waited for"
    )


def _tier(report: Report) -> str:
    where = report.swap_tier + (f" ({report.swap_directory})" if report.swap_directory else "")
    return where and f"{where}, {report.link}"


def _count(report: Report, kind: str) -> int:
    return sum(decision["kind"] == kind for decision in report.decisions)


def _budget(report: Report) -> str:
    if not report.budget_bytes:  # never got as far as to know it
        return report.budget
    return f"{format_bytes(report.budget_bytes)} (asked: {report.budget})"


def _priced_by_in_short(report: Report) -> str:
    return f"{report.profiled_share:.0%} of it measured" if report.profile else "estimated"


def _priced_by(report: Report) -> str:
    if not report.profile:
        return "estimates" if report.step_time_us else ""
    return f"{report.profiled_share:.0%} measured times ({report.profile})"


def _measured(report: Report) -> str:
    if not report.measured_peak_bytes:
        return ""
    return f" Measured: {format_bytes(report.measured_peak_bytes)}."


def _lost(lost_bytes: int) -> str:
    return f", {format_bytes(lost_bytes)} of it in chunks and holes" if lost_bytes else ""


def _bound(report: Report) -> str:
    if report.time_overhead_bound <= 0:
        return ""
    return f" (no plan adds less than {report.time_overhead_bound:.1%})"


def _summary(report: Report) -> list[tuple[str, str]]:
    nodes = f"{report.nodes_before:,} -> {report.nodes_after:,}"
    rows = [
        ("status", report.status),
        ("reason", report.reason),
        ("stage", report.stage if report.status == "failed" else ""),
        ("worker", report.worker),
        ("device", report.device),
        ("other devices of the step", ", ".join(report.other_devices)),
        ("budget", _budget(report)),
        ("resident before the step", format_bytes(report.resident_bytes)),
        ("predicted peak, before", peak_before(report) + _lost(report.lost_before_bytes)),
        ("predicted peak, after", peak_after(report) + _lost(report.lost_after_bytes)),
        ("measured peak", format_bytes(report.measured_peak_bytes)),
        ("least feasible budget", format_bytes(report.min_budget_bytes)),
        ("predicted time", f"{report.predicted_time_overhead:+.1%}{_bound(report)}"),
        ("priced by", _priced_by(report)),
        ("swapping", _tier(report) or report.swap_note),
        ("swapped out", _transfers(report, "swap_out")),
        ("swapped in", _transfers(report, "swap_in")),
        (
            "planning",
            f"{report.planner_seconds:.2f} s, with reading and rewriting the graph "
            f"{report.optimizer_seconds:.2f} s",
        ),
        ("nodes", nodes),
        ("sizes", ", ".join(report.sizes)),
    ]
    if not report.measured_peak_bytes:
        rows = [row for row in rows if row[0] != "measured peak"]
    if not report.min_budget_bytes:
        rows = [row for row in rows if row[0] != "least feasible budget"]
    rows += [("warning", warning) for warning in report.warnings]
    return [(name, value) for name, value in rows if value]


def _hint_table(report: Report) -> Any:
    from rich import box, table, text

    result = table.Table(title="hints", box=box.SIMPLE)
    for name in ("bytes", "tensors", "cost", "peak", "without it"):
        result.add_column(name, justify="right")
    result.add_column("hint", overflow="fold")
    for item in report.hints:
        lost = f" ({item['not_followed']} could not be)" if item["not_followed"] else ""
        priced = bool(item["peak_without_bytes"])
        result.add_row(
            format_bytes(item["bytes"]),
            str(item["tensors"]),
            f"{item['cost_us'] / 1e3:.2f} ms" if priced else "",
            format_bytes(item["peak_bytes"]) if priced else "",
            format_bytes(item["peak_without_bytes"]) if priced else "",
            text.Text(f"{item['kind']} {item['where']}{lost}"),
        )
    return result


def _decision_table(report: Report) -> Any:
    from rich import box, table

    count: Counter[tuple[str, str]] = Counter()
    size: Counter[tuple[str, str]] = Counter()
    cost: Counter[tuple[str, str]] = Counter()
    for decision in report.decisions:
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
