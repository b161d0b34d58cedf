"""Reports as pictures (matplotlib): memory over the step, and what budgets cost.

Figures are made without pyplot: no window opens, and nothing is left behind in its state.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lms._base.format import format_bytes
from lms._reports.text import held_at

if TYPE_CHECKING:
    from lms._reports.pareto import Pareto
    from lms._reports.report import Report

_STOCK, _LMS, _BUDGET, _INK, _FAINT = "#8a94a3", "#1f6fb4", "#c0392b", "#2b2f36", "#d9dde3"
_PHASES = {"forward": "#e3eef8", "backward": "#fdf0dc", "update": "#e6f3e4"}
_ROLES = {
    "activation": "#1f6fb4",
    "gradient": "#e08a1e",
    "weight": "#6b7480",
    "constant": "#a7afb9",
    "argument": "#8b6fb0",
    "result": "#3a9d5d",
    "scratch": "#c9a227",
    "other": "#b9bec6",
}
_BARS = 8
_VISIBLE = 0.003  # of the peak
_NAME = 34


def _figure(**arguments: Any) -> Any:
    try:
        from matplotlib import figure
    except ImportError as error:
        raise ImportError(
            "Report.plot() needs matplotlib: pip install matplotlib "
            "(the extra 'plots' of this package brings it)"
        ) from error
    return figure.Figure(layout="constrained", facecolor="white", **arguments)


def _plain(axes: Any) -> None:
    """Axes that step back behind what they show."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_FAINT)
    axes.tick_params(colors=_INK, labelsize=8, length=3, color=_FAINT)


def _unit(peak: float) -> tuple[float, str]:
    """What bytes are divided by, and its name."""
    for name, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if peak >= 2 * size:
            return size, name
    return 1, "B"


def plot(report: Report, path: str | os.PathLike[str] | None) -> Any:
    """Report.plot()."""
    details = report.details
    if details is None:
        chart = _figure(figsize=(9, 4))
        axes = chart.subplots()
    else:
        chart = _figure(figsize=(11.5, 5.2))
        axes, live = chart.subplots(1, 2, gridspec_kw={"width_ratios": (3, 2)})
        _bars(live, details)
    _timeline(axes, report, details)
    if path is not None:
        chart.savefig(path, dpi=150)
    return chart


def _timeline(axes: Any, report: Report, details: Mapping[str, Any] | None) -> None:
    _plain(axes)
    peak = max(
        [report.budget_bytes, *report.timeline.get("before", []), *report.timeline.get("after", [])]
    )
    scale, unit = _unit(peak)
    top = 1.0
    sides = (("before", "stock", _STOCK), ("after", "with lms", _LMS))
    for name, label, colour in sides:
        values = [value / scale for value in report.timeline.get(name, [])]
        if not values:
            continue
        top = max(top, *values)
        times = _times(details, name, len(values))
        axes.fill_between(times, values, step="post", color=colour, alpha=0.10, linewidth=0)
        axes.step(times, values, where="post", label=label, color=colour, linewidth=1.2)
        at = max(range(len(values)), key=values.__getitem__)
        axes.annotate(
            format_bytes(values[at] * scale),
            (times[at], values[at]),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=colour,
            fontweight="bold",
            bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75},
        )
        axes.scatter([times[at]], [values[at]], color=colour, s=14, zorder=3)
    if report.budget_bytes > 0:
        budget = report.budget_bytes / scale
        style = {"color": _BUDGET, "ls": (0, (5, 3)), "lw": 1}
        label = f"budget, {format_bytes(report.budget_bytes)}"
        if budget <= 1.6 * top:
            axes.axhline(budget, label=label, **style)
            top = max(top, budget)
        else:  # it would press everything else to the ground
            axes.plot([], [], label=f"{label}: far above", **style)
    axes.set_ylim(0, top * 1.14)
    axes.set_ylabel(f"memory in use, {unit}", fontsize=9, color=_INK)
    if details is None:
        axes.set_xlabel("the step's operations, in order", fontsize=9, color=_INK)
    else:
        axes.set_xlabel("time since the step began, ms, predicted", fontsize=9, color=_INK)
        shown = "before" if details["after"] is None else "after"
        _shade(axes, details, shown)
    axes.set_title(_title(report), fontsize=10, color=_INK, loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.13), ncol=3, fontsize=8, frameon=False)
    axes.margins(x=0.01)


def _title(report: Report) -> str:
    name = report.function if len(report.function) <= 60 else report.function[:57] + "..."
    if report.status == "rewritten":
        return f"{name}: {report.predicted_time_overhead:+.1%} time"
    return f"{name}: {report.status}"


def _times(details: Mapping[str, Any] | None, side: str, count: int) -> list[float]:
    """Where on the x axis the positions are: milliseconds, or shares of the step."""
    if details is not None and details[side] is not None:
        return [us / 1000 for us in details[side]["start_us"]]
    return [index / max(1, count - 1) for index in range(count)]


def phase_spans(details: Mapping[str, Any], side: str) -> list[tuple[str, float, float]]:
    """Phases as (name, begin in us, end in us), one stretch each, in their order.

    Single operations run in the midst of another phase, such as a learning rate that is read at
    the beginning: a phase begins where most of the time from there on is no longer that of the
    ones before it.
    """
    step = details[side]
    starts = step["start_us"]
    if not starts:
        return []
    weights = [max(took, 0.001) for took in step["took_us"]]
    edges = [0]
    for later in range(1, len(details["phases"])):
        # The edge that leaves the least time on its wrong side.
        wrong = sum(w for w, phase in zip(weights, step["phase"]) if phase < later)
        least, edge = wrong, 0
        for position, phase in enumerate(step["phase"]):
            wrong += weights[position] if phase >= later else -weights[position]
            if wrong < least:
                least, edge = wrong, position + 1
        edges.append(max(edge, edges[-1]))
    edges.append(len(starts))
    end = starts[-1] + step["took_us"][-1]
    at = [*starts, end]
    spans = zip(details["phases"], edges, edges[1:])
    return [(name, at[first], at[last]) for name, first, last in spans if first < last]


def _shade(axes: Any, details: Mapping[str, Any], side: str) -> None:
    whole = max(end for _, _, end in phase_spans(details, side))
    for name, begin, end in phase_spans(details, side):
        axes.axvspan(begin / 1000, end / 1000, color=_PHASES[name], zorder=0, linewidth=0)
        if end - begin > 0.06 * whole:
            middle = (begin + end) / 2000
            axes.text(
                middle,
                0.985,
                name,
                transform=axes.get_xaxis_transform(),
                ha="center",
                va="top",
                fontsize=8,
                color="#6b7480",
            )


def _short(name: str) -> str:
    """The end of a name, which tells more than its beginning."""
    name = name[:-2] if name.endswith(":0") else name
    return name if len(name) <= _NAME else "…" + name[-_NAME + 1 :]


def _bars(axes: Any, details: Mapping[str, Any]) -> None:
    """The largest of what is live at the peak, and the rest of it by role."""
    _plain(axes)
    axes.spines["left"].set_visible(False)
    side = "before" if details["after"] is None else "after"
    position = details["peak_" + side]
    rows = held_at(details, side, position)
    buffers = details["buffers"]
    role_of = [details["roles"][role] for role in buffers["role"]]
    shown = rows[:_BARS]
    bars = [
        (_short(details["strings"][buffers["name"][row]]), buffers["bytes"][row], role_of[row])
        for row in shown
    ]
    single = len(bars)
    for role in _ROLES:
        sizes = [buffers["bytes"][row] for row in rows[_BARS:] if role_of[row] == role]
        if sum(sizes) > _VISIBLE * details[side]["bytes"][position]:
            bars.append((f"{len(sizes)} more: {role}", sum(sizes), role))
    left_out = details[side]["bytes"][position] - sum(size for _, size, _ in bars)
    if left_out > _VISIBLE * details[side]["bytes"][position]:
        bars.append(("the rest", left_out, "other"))
    largest = max((size for _, size, _ in bars), default=1)
    scale, unit = _unit(largest)
    for at, (_, size, role) in enumerate(bars):
        alpha = 1.0 if at < single else 0.45
        axes.barh(at, size / scale, color=_ROLES[role], alpha=alpha, height=0.7)
        axes.annotate(
            format_bytes(size),
            (size / scale, at),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
            color=_INK,
        )
    if len(bars) > single > 0:
        axes.axhline(single - 0.5, color=_FAINT, lw=1)
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars], fontsize=7)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xlim(0, largest / scale * 1.2)
    axes.set_xlabel(unit, fontsize=9, color=_INK)
    title = "live at the peak" + (", with lms" if side == "after" else "")
    axes.set_title(title, fontsize=10, color=_INK, loc="left")
    from matplotlib import patches

    seen = [role for role in _ROLES if any(role == other for _, _, other in bars)]
    axes.legend(
        handles=[patches.Patch(color=_ROLES[role], label=role) for role in seen],
        loc="upper left",
        bbox_to_anchor=(0, -0.13),
        ncol=4,
        fontsize=8,
        frameon=False,
    )


def plot_pareto(table: Pareto, path: str | os.PathLike[str] | None) -> Any:
    """Pareto.plot()."""
    chart = _figure(figsize=(7, 4))
    axes = chart.subplots()
    _plain(axes)
    scale, unit = _unit(table.peak_bytes)
    points = [point for point in table.points if point.feasible]
    budgets = [point.budget_bytes / scale for point in points]
    added = [100 * point.overhead for point in points]
    axes.plot(budgets, added, color=_LMS, marker="o", markersize=5, linewidth=1.4, zorder=3)
    for budget, percent in zip(budgets, added):
        axes.annotate(
            f"{percent:.1f}%",
            (budget, percent),
            xytext=(4, 5),
            textcoords="offset points",
            fontsize=8,
            color=_INK,
        )
    missed = [point.budget_bytes / scale for point in table.points if not point.feasible]
    if missed:
        axes.scatter(
            missed, [0] * len(missed), marker="x", color=_BUDGET, label="not feasible", zorder=3
        )
    peak = table.peak_bytes / scale
    axes.axvline(peak, color=_STOCK, lw=1, label=f"as it is, {format_bytes(table.peak_bytes)}")
    if 0 < table.budget_bytes < 1.2 * table.peak_bytes:
        axes.axvline(
            table.budget_bytes / scale,
            color=_BUDGET,
            lw=1,
            ls=(0, (5, 3)),
            label=f"asked for, {format_bytes(table.budget_bytes)}",
        )
    axes.axvspan(0, table.resident_bytes / scale, color=_FAINT, lw=0, label="resident", alpha=0.6)
    axes.set_xlim(0, peak * 1.08)
    axes.set_ylim(0, max([5.0, *added]) * 1.2)
    axes.set_xlabel(f"memory budget, {unit}", fontsize=9, color=_INK)
    axes.set_ylabel("added time, %", fontsize=9, color=_INK)
    axes.set_title(f"{table.function}: what budgets cost", fontsize=10, color=_INK, loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.14), ncol=4, fontsize=8, frameon=False)
    if path is not None:
        chart.savefig(path, dpi=150)
    return chart
