"""What memory costs in time: plans for several budgets of one step, as a table and a picture."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lms import _native
from lms._base.format import format_bytes, parse_bytes
from lms._base.tables import Tables

if TYPE_CHECKING:
    from lms._reports.report import Report


@dataclasses.dataclass(frozen=True)
class ParetoPoint:
    """One budget.

    budget_bytes: to be asked for, resident memory and the safety margin included.
    peak_bytes: predicted with the plan; where the budget is not feasible, the lowest found.
    overhead: added time as a share of the step's, predicted: 0.07 is 7%.
    feasible: a plan was found that keeps the budget.
    """

    budget_bytes: int
    peak_bytes: int
    overhead: float
    feasible: bool


@dataclasses.dataclass(frozen=True)
class Pareto(Tables):
    """What memory budgets would cost one step, by falling budgets (Report.pareto).

    Peaks are those that the planner predicts for operations that run one after the other; a
    report on a rewritten step comes from a closer look, and may differ by some percent.

    peak_bytes: of the step as it is.
    resident_bytes: weights, arguments and constants, which no budget can be below.
    budget_bytes: of the report: what was asked for when the step ran.
    """

    function: str
    points: tuple[ParetoPoint, ...]
    peak_bytes: int
    resident_bytes: int
    budget_bytes: int

    def _tables(self) -> list[Any]:
        from rich import box, table, text

        result = table.Table(
            title=text.Text(f"what budgets cost: {self.function}"),
            caption="peaks of one operation after the other; a report's are the highest of several "
            "orders in which TensorFlow may run them",
            box=box.SIMPLE,
        )
        for name in ("budget", "predicted peak", "of the activations", "added time"):
            result.add_column(name, justify="right")
        result.add_column("")
        activations = max(1, self.peak_bytes - self.resident_bytes)
        for point, after in itertools.zip_longest(self.points, self.points[1:]):
            if after is not None and _same_plan(point, after):
                continue  # the smaller budget says it all
            note = "" if point.feasible else "not feasible"
            if point.feasible and point.peak_bytes >= self.peak_bytes:
                note = "as it is"
            result.add_row(
                format_bytes(point.budget_bytes),
                format_bytes(point.peak_bytes),
                f"{(point.peak_bytes - self.resident_bytes) / activations:.0%}",
                f"{point.overhead:+.1%}" if point.feasible else "-",
                note,
                style="" if point.feasible else "dim",
            )
        return [result]

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Added time over the budget as a matplotlib Figure, saved to `path` if one is given.

        Raises ImportError where matplotlib is missing.
        """
        from lms._reports import plot as _report_plot

        return _report_plot.plot_pareto(self, path)


def _same_plan(one: ParetoPoint, other: ParetoPoint) -> bool:
    same = one.peak_bytes == other.peak_bytes and one.overhead == other.overhead
    return same and one.feasible and other.feasible


def plan(
    report: Report, points: int, budgets: Sequence[int | str] | None, seconds: float
) -> Pareto:
    """Report.pareto()."""
    if isinstance(points, bool) or not isinstance(points, int) or not 2 <= points <= 1000:
        raise ValueError(f"points is {points!r}; expected is a whole number from 2 to 1000")
    if not isinstance(seconds, (int, float)) or not 0 < seconds <= 86400:
        raise ValueError(f"seconds is {seconds!r}; expected is a number from 0 to 86400")
    asked = [parse_bytes(budget, "budgets") for budget in budgets or ()]
    if budgets is not None and not asked:
        raise ValueError("budgets is empty; leave it out to have them chosen")
    found = _native.plan_for_budgets(report.sequence, asked, points, float(seconds))
    if found is None:
        raise ValueError(
            f"the step of the report on {report.function} ({report.status}) is not kept: other "
            "budgets can be tried on the latest steps of this process that neither failed nor "
            "were skipped"
        )
    return Pareto(
        function=report.function,
        points=tuple(ParetoPoint(*point) for point in found["points"]),
        peak_bytes=found["peak_bytes"],
        resident_bytes=found["resident_bytes"],
        budget_bytes=report.budget_bytes,
    )
