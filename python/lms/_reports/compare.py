"""Reports side by side: yesterday's against today's, one worker's against another's."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lms._base.format import format_bytes, write_text
from lms._base.tables import Tables
from lms._reports.layers import by_layer

if TYPE_CHECKING:
    from lms._reports.report import Report

_MOST = 8  # reports: more columns nobody can read
_LAYERS = 12
_NUMBER = re.compile(r"(.*?)(?:_(\d+))?", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class ComparedRow:
    """One figure of each report.

    name: "predicted peak with lms", or a layer's path.
    values: one per report, in the unit of the name or bytes; None where a report has none.
    """

    name: str
    values: tuple[float | None, ...]


@dataclasses.dataclass(frozen=True)
class Comparison(Tables):
    """Several reports, figure by figure (lms.compare).

    names: one per report; reports: in the same order.
    """

    names: tuple[str, ...]
    reports: tuple[Report, ...]

    def facts(self) -> tuple[tuple[str, list[str]], ...]:
        """What of the reports is no number, by name: function, status, device, budget."""
        return (
            ("function", [report.function for report in self.reports]),
            ("status", [report.status for report in self.reports]),
            ("worker", [report.worker for report in self.reports]),
            ("device", [report.device for report in self.reports]),
            ("budget asked for", [report.budget for report in self.reports]),
        )

    def figures(self) -> tuple[ComparedRow, ...]:
        """Memory in bytes, times as the names say, of each report; None where it is not known."""
        return tuple(
            ComparedRow(name, tuple(of(report) for report in self.reports))
            for name, of in _FIGURES.items()
            if any(of(report) is not None for report in self.reports)
        )

    def layers(self) -> tuple[ComparedRow, ...]:
        """What each layer holds at the peak of the step as it ran, in bytes.

        Those first that differ most between two reports, or of more that hold most. A layer that a
        report does not have holds None there. Where the reports are of one model that was made
        anew ("conv2d_8" for "conv2d_2"), layers have the names of the first. Empty where no report
        has details.
        """
        held = [
            {layer.layer: float(layer.after_bytes) for layer in by_layer(report.details)}
            if report.details is not None
            else {}
            for report in self.reports
        ]
        held = _aligned(held)
        rows = [
            ComparedRow(name, tuple(layers.get(name) for layers in held))
            for name in dict.fromkeys(name for layers in held for name in layers)
        ]
        return tuple(sorted(rows, key=lambda row: (-self._weight(row), row.name)))

    def _weight(self, row: ComparedRow) -> float:
        values = [value or 0 for value in row.values]
        return max(values) - min(values) if len(values) == 2 else max(values)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """One self-contained page: figures, memory over the step, layers. It has no scripts.

        The text is also written to `path` if one is given. Raises OSError where that cannot be
        written.
        """
        from lms._reports import compare_page

        return write_text(path, compare_page.render(self))

    def cells(self, row: ComparedRow) -> list[str]:
        """A row's figures as text, and of two reports the difference."""
        unit = _UNITS.get(row.name, "bytes")
        cells = ["" if value is None else _TEXTS[unit](value) for value in row.values]
        if len(row.values) == 2:
            first, second = row.values
            if first is None or second is None:
                cells.append("")
            else:
                cells.append("same" if first == second else _change(unit, first, second))
        return cells

    def columns(self) -> list[str]:
        """What stands above cells()."""
        return [*self.names, "change"] if len(self.names) == 2 else list(self.names)

    def _tables(self) -> list[Any]:
        from rich import box, table, text

        tables: list[Any] = []
        layers = self.layers()
        parts = [("", self.facts(), self.figures()), ("layers at the peak", (), layers[:_LAYERS])]
        for title, facts, rows in parts:
            if not rows:
                continue
            result = table.Table(title=text.Text(title or "reports side by side"), box=box.SIMPLE)
            result.add_column("layer" if title else "", overflow="fold")
            for name in self.columns():
                result.add_column(text.Text(name), justify="right", overflow="fold")
            for name, values in facts:
                padding = [""] * (len(self.columns()) - len(values))
                result.add_row(name, *map(text.Text, values), *padding)
            for row in rows:
                result.add_row(text.Text(row.name), *self.cells(row))
            tables.append(result)
        if len(layers) > _LAYERS:
            tables.append(text.Text(f"and {len(layers) - _LAYERS} layers more", style="dim"))
        return tables


def compare(*reports: Report, names: Sequence[str] | None = None) -> Comparison:
    """Reports side by side: the same step with two budgets, of two days, on two workers.

    names: what the reports are called, one each; None: "1", "2", and so on.

    Raises ValueError for less than two or more than eight reports, and where `names` are not as
    many or not all different; TypeError for what is no report.
    """
    from lms._reports.report import Report

    for report in reports:
        if not isinstance(report, Report):
            raise TypeError(
                f"expected reports, as lms.report() and lms.load_report() return, "
                f"not {type(report).__name__}"
            )
    if not 2 <= len(reports) <= _MOST:
        raise ValueError(f"{len(reports)} reports: expected are 2 to {_MOST}")
    called = tuple(map(str, range(1, len(reports) + 1))) if names is None else tuple(names)
    if len(called) != len(reports) or len(set(called)) != len(called):
        raise ValueError(f"names={names!r}: expected are {len(reports)} different names")
    return Comparison(called, tuple(reports))


def _aligned(held: list[dict[str, float]]) -> list[dict[str, float]]:
    """The layers of each report by the first one's names, where all but their numbers is alike."""
    ranked = [sorted(layers, key=_plain_and_numbers) for layers in held]
    plain = [[_plain_and_numbers(name)[0] for name in names] for names in ranked]
    if any(names != plain[0] for names in plain):
        return held
    return [
        {name: layers[own] for name, own in zip(ranked[0], names)}
        for layers, names in zip(held, ranked)
    ]


def _plain_and_numbers(layer: str) -> tuple[str, list[int]]:
    """A layer's path without the numbers that its parts end with, and these."""
    parts = [_NUMBER.fullmatch(part) for part in layer.split("/")]
    names = "/".join(part.group(1) for part in parts if part)
    return names, [int(part.group(2) or 0) for part in parts if part]


def _if_known(value: float) -> float | None:
    return value or None


_FIGURES: Mapping[str, Callable[[Any], float | None]] = {
    "budget": lambda report: _if_known(report.budget_bytes),
    "resident before the step": lambda report: _if_known(report.resident_bytes),
    "predicted peak, stock": lambda report: _if_known(report.peak_before_bytes),
    "usual peak, stock": lambda report: _if_known(report.usual_peak_before_bytes),
    "predicted peak with lms": lambda report: _if_known(report.peak_after_bytes),
    "usual peak with lms": lambda report: _if_known(report.usual_peak_after_bytes),
    "measured peak": lambda report: _if_known(report.measured_peak_bytes),
    "least feasible budget": lambda report: _if_known(report.min_budget_bytes),
    "swapped out in a step": lambda report: _if_known(report.swapped_bytes),
    "predicted added time": lambda report: report.predicted_time_overhead,
    "operations run again": lambda report: float(
        sum(decision["kind"] == "recompute" for decision in report.decisions)
    ),
    "planning": lambda report: _if_known(report.planner_seconds),
    "nodes": lambda report: _if_known(report.nodes_after),
}
_UNITS = {
    "predicted added time": "share",
    "operations run again": "count",
    "nodes": "count",
    "planning": "seconds",
}
_TEXTS: Mapping[str, Callable[[float], str]] = {
    "bytes": format_bytes,
    "share": lambda value: f"{value:+.1%}",
    "count": lambda value: f"{value:,.0f}",
    "seconds": lambda value: f"{value:.2f} s",
}


def _change(unit: str, first: float, second: float) -> str:
    if unit == "share":
        return f"{100 * (second - first):+.1f} points"
    sign = "+" if second > first else "-"
    text = f"{sign}{_TEXTS[unit](abs(second - first))}"
    share = second / first - 1 if first and unit != "seconds" else 0.0
    return f"{text} ({share:+.0%})" if 0.005 <= abs(share) < 10 else text
