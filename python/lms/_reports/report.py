"""What the optimizer did to each function: the reports of the native library, to read."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lms import _native
from lms._base.format import write_text
from lms._base.tables import Tables
from lms._reports import as_json as _report_json
from lms._reports import layers as _layers
from lms._reports import text as _report_text
from lms._reports import workers as _workers
from lms._reports.layers import LayerMemory

if TYPE_CHECKING:
    from lms._reports.pareto import Pareto


# What variables are called, by the names of the function's arguments: asked when it is needed.
Names = Callable[[], Mapping[str, str]]


def _named(strings: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """The strings of a report's details, with variables called by their own names."""
    count = Counter(names.values())
    named = []
    for text in strings:
        argument, colon, rest = text.partition(":0")
        name = names.get(argument)
        if name is None or (colon and rest and not rest.startswith(" ")):
            named.append(text)
        else:
            # Two models may have variables of the same name.
            named.append((name if count[name] == 1 else f"{name} ({argument})") + rest)
    return named


def _median(sorted_peaks: Sequence[int] | None, otherwise: int) -> int:
    """The lower one of the two in the middle."""
    return sorted_peaks[(len(sorted_peaks) - 1) // 2] if sorted_peaks else otherwise


class _Details:
    """The details of a report, made into Python objects when they are first asked for."""

    def __init__(self, source: Any, names: Names | None = None) -> None:
        """`source`: the details, None, or what the native library holds them by. `names`: what
        variables are called, by the names of the function's arguments."""
        self._source, self._names = source, names

    def get(self) -> Mapping[str, Any] | None:
        if self._source is not None and not isinstance(self._source, Mapping):
            details = _native.report_details(self._source)
            if details is not None and self._names is not None:
                details["strings"] = _named(details["strings"], self._names())
            self._source = details
        return self._source

    def __deepcopy__(self, memo: Any) -> _Details:
        return self  # nobody changes it

    def __reduce__(self) -> tuple[type[_Details], tuple[Any]]:
        return _Details, (self.get(),)


@dataclasses.dataclass(frozen=True)
class Report(Tables):
    """What was decided for one function. Memory is in bytes, what is resident included.

    function: its name; of a v1 session what was run, "session.run(train)".
    status: "rewritten": the graph was changed, and the new one is predicted to keep the
      budget; "fits": it keeps the budget as it is, nothing was changed; "infeasible": no plan
      keeps the budget (min_budget_bytes is the least that one was found for); "skipped": no
      training step, or nothing to gain; "failed": something went wrong inside lms, and the
      graph was left as it was. `reason` says why, `stage` where.
    assumption: what all figures hold for, "images:0 is 32 (...)", where more than 1% of the
      predicted activations rests on sizes that nobody knows; then `reason` begins with it. "" else.
    budget_bytes: what was asked for; where that was "min", what to ask for to get as low.
    min_budget_bytes: the least budget found that can be asked for, safety_margin included; 0
      where none was looked for.
    predicted_time_overhead: added time as a share of the step's: 0.07 is 7%.
    time_overhead_bound: no plan for the budget, in any order, is predicted to add less time than
      this share; 0 where nothing is known. The gap between the two is what could still be won.
    peak_before_bytes, peak_after_bytes: the predicted peak of stock TensorFlow, and with lms: the
      highest of the orders that TensorFlow may run the operations in, which differ from one
      instance of a function to the next. A budget is kept in all of them.
    usual_peak_before_bytes, usual_peak_after_bytes: what half of these orders do not exceed, below
      the former where only some orders take that much.
    lost_before_bytes, lost_after_bytes: of these peaks, where what TensorFlow's allocator hands
      out is what counts (a GPU, or "auto" in a CPU's limited pool): bytes in chunks that are
      larger than their tensors, and in holes between them.
    measured_peak_bytes: what a later call took: by how much the bytes in use rose over those
      before the call, with resident_bytes on top, to be compared with peak_after_bytes; 0 where
      none was measured (no second call yet, another call at the same time, a GPU, v1 sessions).
    measured_steps: how many calls were measured; of two, the lower figure counts.
    planner_seconds: what planning took. planner_work: the same as steps of computation, which are
      counted: the same on any machine.
    stage_seconds: seconds of the processor that each stage of lms took.
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
    timeline: bytes in use at each operation in the order with the highest peak, "before" and
      "after".
    order_peaks: the peak of each order that was looked at, lowest first, "before" and "after"; some
      16 to 32, drawn as TensorFlow does, so that their shares are those of its instances.
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
    planner_work: int = 0
    stage_seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    hints: tuple[Mapping[str, Any], ...] = ()
    assumption: str = ""
    lost_before_bytes: int = 0
    lost_after_bytes: int = 0
    order_peaks: Mapping[str, list[int]] = dataclasses.field(default_factory=dict)
    _details: _Details = dataclasses.field(default=_Details(None), repr=False, compare=False)

    @property
    def worker(self) -> str:
        """Which task of a cluster it is of, such as "worker 1"; "" outside of clusters."""
        return _workers.worker_of(self.device)

    @property
    def usual_peak_before_bytes(self) -> int:
        """What half of the orders of stock TensorFlow do not exceed, in bytes."""
        return _median(self.order_peaks.get("before"), self.peak_before_bytes)

    @property
    def usual_peak_after_bytes(self) -> int:
        """The same with lms; as stock where nothing was rewritten."""
        return _median(self.order_peaks.get("after"), self.peak_after_bytes)

    @property
    def details(self) -> Mapping[str, Any] | None:
        """Every operation and every large buffer of the step, before and after, in columns.

        docs/report-format.md tells what is in it; positions are those of `timeline`, memory is in
        bytes, time in microseconds. None where the report was skipped or failed, and where it was
        too old to be kept with its details.
        """
        return self._details.get()

    def by_layer(self, depth: int | None = None) -> tuple[LayerMemory, ...]:
        """Which layers hold the memory at the step's peak, stock and rewritten, largest first.

        depth: how many parts of a layer's path are told apart: with 1, whole models and optimizers.
          None: all of them.

        A layer's activations, their gradients and its weights count as the layer's. Empty where
        the report has no details. Raises ValueError where depth is below 1.
        """
        if depth is not None and depth < 1:
            raise ValueError(f"depth={depth!r}: expected a whole number from 1 on, or None")
        details = self.details
        return () if details is None else _layers.by_layer(details, depth)

    def __str__(self) -> str:
        return _report_text.sentence(self)

    def _tables(self) -> list[Any]:
        return _report_text.tables(self)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """All fields and the details as JSON text, which is also written to `path` if one is given.

        The format is that of docs/report-format.md. Raises OSError where `path` cannot be written.
        """
        return write_text(path, _report_json.dumps(self))

    @classmethod
    def from_json(cls, text: str) -> Report:
        """The report that to_json() has made `text` of.

        Raises ValueError where it is not such a text, or one of a newer format.
        """
        return _report_json.loads(text, cls)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """One self-contained interactive page, which is also written to `path` if one is given.

        Raises OSError where `path` cannot be written.
        """
        from lms._reports import html_page as _report_html

        return write_text(path, _report_html.render(self))

    def to_perfetto(self, path: str | os.PathLike[str] | None = None) -> str:
        """A trace of the predicted step, before and after, for ui.perfetto.dev and chrome://tracing.

        The text, in the JSON format of Chrome's trace events, is also written to `path` if one is
        given. Raises ValueError where the report has no details, OSError where `path` cannot be
        written.
        """
        from lms._reports import perfetto as _report_perfetto

        return write_text(path, _report_perfetto.dumps(self))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Memory over the step and what is live at its peak, as a matplotlib Figure.

        It is saved to `path` if one is given. Raises ImportError where matplotlib is missing.
        """
        from lms._reports import plot as _report_plot

        return _report_plot.plot(self, path)

    def pareto(
        self,
        points: int = 8,
        *,
        budgets: Sequence[int | str] | None = None,
        seconds: float = 10.0,
    ) -> Pareto:
        """What other memory budgets would cost this step, planned now and predicted.

        points: how many budgets are planned for, 2 at least, from the step's own peak down to the
          least feasible one; not used where `budgets` are given.
        budgets: these instead: bytes, or text as "6GiB"; resident memory included.
        seconds: about how long planning may take in all, in seconds of processor time. All budgets
          share it: a plan for one of them alone may come out cheaper.

        Raises ValueError for other values, and where the step is no longer kept: those of the
        latest reports are, while the process runs.
        """
        from lms._reports import pareto as _report_pareto

        return _report_pareto.plan(self, points, budgets, seconds)


def from_native(raw: Mapping[str, Any], names: Names | None = None) -> Report:
    """A Report from the native library's mapping. `names`: of its variables."""
    fields = [field.name for field in dataclasses.fields(Report) if field.name != "_details"]
    values = {name: raw[name] for name in fields}
    for name in ("sizes", "warnings", "other_devices", "decisions", "kept", "hints"):
        values[name] = tuple(values[name])
    return Report(**values, _details=_Details(raw.get("details"), names))


def load_report(path: str | os.PathLike[str]) -> Report:
    """The report in a file that Report.to_json() has written.

    Raises OSError where it cannot be read, ValueError where it is not such a file, or one of a
    newer format.
    """
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        return Report.from_json(text)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def clear_reports() -> None:
    """Forgets the reports so far."""
    _native.clear_reports()
