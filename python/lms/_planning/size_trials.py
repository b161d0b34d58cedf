"""A training step at any size: what lms.max_size tries."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lms._base.errors import OptionError
from lms._planning import plan as _plan
from lms._planning.size_search import UNPLANNED, Trial
from lms._reports.report import Report
from lms._settings import devices as _devices
from lms._tf import graphs as _tf_graphs
from lms._tf import plan as _tf_plan

_FEASIBLE = ("fits", "rewritten")
_UNBOUNDED = 1 << 60
_LEAST_SECONDS = 1e-3


class Sizes:
    """The step at any size."""

    def __init__(
        self,
        step: Any,
        args: Sequence[Any],
        vary: str | Sequence[str] | None,
        device: _devices.Device,
        options: dict[str, Any],
        budget: int,
        pooled: bool,
        what: str,
        tell: Callable[[str], None],
    ):
        """`pooled`: the budget is a pool's (plan.Pool)."""
        self._device, self.budget, self._pooled = device, budget, pooled
        self._what, self._tell = what, tell
        self._stock: dict[int, Report | str] = {}
        self._unknown = options.pop("unknown_dim", None)
        names = ("optimizer", "loss", "signature", "feeds", "fetches")
        self._said = {name: options.pop(name) for name in names if name in options}
        self._options = options
        self._reports: dict[int, Report] = {}
        self._fixed: _tf_plan.Prepared | None = None
        self._make: Callable[[int], Any] | None = None
        self._vary = [vary] if isinstance(vary, str) else list(vary or ())
        if _plan.takes_arguments(step) and not _tf_graphs.is_function(step):
            if args or vary:
                raise ValueError(
                    "a function of the size takes no further arguments: let it return a tuple of "
                    "the step and what it is called with"
                )
            self._make = step
            return
        if not args and _plan.is_model_or_maker(step):
            args = (None,)
        with _tf_plan.uncollected():
            traced, _ = _plan.Source(step, **self._said).trace(args)
            if not _tf_graphs.open_arguments(traced):
                raise ValueError(
                    "nothing can vary: every size is fixed. Give tf.TensorSpec with None where the "
                    "size is looked for, or a function of the size"
                )
            _plan.refuse_without_training(traced)
            # Only lms is told of the size: what comes before it is the same for all of them.
            self._fixed = _tf_plan.prepare(traced, device)

    def _planned(self, size: int, budget: int) -> Report:
        options = dict(self._options)
        pool, stock = None, budget == _UNBOUNDED
        if self._pooled:
            pool = _plan.Pool(self.budget, exact=not stock)
            if stock:  # whether it fits is asked, and no plan
                options["planner_seconds"] = _LEAST_SECONDS
        if self._make is None:
            assert self._fixed is not None
            options["unknown_dim"] = self._sizes(size)
            return _plan.planned_from(
                self._fixed, self._device, _plan.gathered(budget, options), pool=pool
            )
        if self._unknown is not None:
            options["unknown_dim"] = self._unknown
        chosen = _plan.gathered(budget, options)
        with _tf_plan.uncollected():
            traced, allocated = _made(self._make, size, self._said)
            return _plan.planned(traced, self._device, chosen, allocated, pool)

    def _tried(self, size: int, budget: int) -> Report | str:
        """The report, or why there is none."""
        try:
            return self._planned(size, budget)
        except (OptionError, TypeError):
            raise  # what was asked for is wrong, whatever the size
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def _sizes(self, size: int) -> Any:
        if not self._vary:
            return size
        named: dict[str, int] = {}
        if isinstance(self._unknown, Mapping):
            named.update(self._unknown)
        elif self._unknown is not None:
            named[""] = int(self._unknown)
        return {**named, **dict.fromkeys(self._vary, size)}

    def stock(self, size: int) -> Trial:
        if size not in self._stock:
            self._tell(f"without lms: {self._what} {size}")
            self._stock[size] = self._tried(size, _UNBOUNDED)
        report = self._stock[size]
        if isinstance(report, str) or report.status in UNPLANNED:
            return _unplanned(size, report)
        peak = report.peak_before_bytes
        fits, fixed = peak <= self.budget, report.resident_bytes
        status = report.status
        if self._pooled and status != "fits":  # in pieces
            fits, status = False, "infeasible"
        return Trial(size, fits, peak, peak, status=status, fixed_bytes=fixed)

    def rewritten(self, max_slowdown: float | None) -> Callable[[int], Trial]:
        def trial(size: int) -> Trial:
            if size in self._stock and self.stock(size).fits:
                # As it is: there is nothing to plan. With lms its line leads nowhere.
                return dataclasses.replace(self.stock(size), fixed_bytes=0)
            self._tell(f"with lms: {self._what} {size}")
            report = self._tried(size, self.budget)
            if isinstance(report, str) or report.status in UNPLANNED:
                return _unplanned(size, report)
            self._reports[size] = report
            added = report.predicted_time_overhead if report.status == "rewritten" else 0.0
            # A pool is planned for as nearly as can be; a least budget says that it has too little.
            short = self._pooled and report.status == "rewritten" and report.min_budget_bytes > 0
            fits = report.status in _FEASIBLE and not short
            if max_slowdown is not None and added > max_slowdown:
                fits = False
            needed = report.min_budget_bytes or report.peak_after_bytes
            return Trial(size, fits, report.peak_after_bytes, needed, added, report.status)

        return trial

    def change_budget(self, budget: int) -> None:
        """Sizes are tried anew: what was planned for another budget counts no more."""
        self.budget = budget
        self._reports.clear()
        if self._pooled:
            self._stock.clear()

    def report(self, size: int) -> Report | None:
        """The plan with lms at a size that was tried."""
        if size not in self._reports:
            made = self._tried(size, self.budget)
            if isinstance(made, str):
                return None
            self._reports[size] = made
        return self._reports[size]


def _unplanned(size: int, made: Report | str) -> Trial:
    """The trial of a size for which there is no plan; `made`: what there is instead."""
    if isinstance(made, str):
        return Trial(size, False, 0, 0, status="failed", reason=made)
    return Trial(size, False, 0, 0, status=made.status, reason=made.reason)


def _made(make: Callable[[int], Any], size: int, said: Mapping[str, Any]) -> tuple[Any, int]:
    """What a function of the size returns, unallocated."""
    return _plan.trace_made(lambda: make(size), said)
