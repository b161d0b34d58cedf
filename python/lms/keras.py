"""lms for Keras' fit: callbacks that put one fit under a memory budget, and show what it took.

    import lms.keras

    model.fit(data, callbacks=[lms.keras.MemoryBudget("6GiB", report="step.html")])

`MemoryBudget` enables lms for that fit alone and adds the measured peak to the logs of each epoch.
`MemoryTensorBoard` writes predicted and measured peaks, and a picture of the step, for TensorBoard.

Both are for models of Keras 3 and of Keras 2 (tf_keras) alike. Importing this module wraps their
`fit`: one that is given a MemoryBudget runs inside of it, so that what was before is put back
however fit ends. All others are left as they are.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import os
import pathlib
import threading
import warnings
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import tensorflow as tf

try:
    import keras
except (ImportError, AttributeError) as error:
    raise ImportError(
        f"lms.keras needs Keras, which cannot be imported: {error}. Install what is missing, or "
        "set KERAS_BACKEND=tensorflow: with another backend, Keras runs nothing that lms could "
        "rewrite. All of lms but lms.keras works without Keras."
    ) from error

from lms import memory
from lms._base.failure import fail_if_injected, shielded
from lms._control import explain as _explain
from lms._control import latest as _latest
from lms._control import switch as _switch
from lms._control import training as _training
from lms._reports import tensorboard as _tensorboard
from lms._reports.report import Report
from lms._tf.keras import when_keras_2
from lms._tf.patch import Patch

__all__ = ["MemoryBudget", "MemoryTensorBoard"]

_log = logging.getLogger("lms")
_lock = threading.RLock()
PEAK = "peak_MiB"
_MIB = 2**20
_FORMS = (".html", ".json", ".txt", ".png", ".svg", ".pdf")


class _Callback(keras.callbacks.Callback):
    """What Keras 2 asks of a callback beside what Keras 3 does."""

    chief_worker_only = None
    _chief_worker_only = None
    _supports_tf_logs = False

    def _implements_train_batch_hooks(self) -> bool:
        return False

    _implements_test_batch_hooks = _implements_train_batch_hooks
    _implements_predict_batch_hooks = _implements_train_batch_hooks


class MemoryBudget(_Callback):
    """Puts one fit under a memory budget.

    While `model.fit(..., callbacks=[MemoryBudget(...)])` runs, lms is enabled with these options
    for the whole process, as in `with lms.enabled(...)`; afterwards what was before is in force
    again, also where fit ends with an exception or by Ctrl-C. Models that were compiled or trained
    before are rewritten as well.

    The measured peak of each epoch's training steps is added to the epoch's logs as "peak_MiB",
    where the progress bar, History and every callback after this one in the list sees it: put it
    first. In MiB, what is resident included; what was allocated before lms began to count
    (`lms.memory`) is put in as the size of the model's and the optimizer's variables. It resets
    `lms.memory`'s peak at each epoch.

    Where a model's own fit is not Keras' (a loop of one's own around CallbackList), the callback
    enables at on_train_begin and puts back at on_train_end; a loop that may raise in between is
    to stand in `with` this callback, which works everywhere:

        with lms.keras.MemoryBudget("6GiB") as budget:
            my_fit(model, callbacks=[budget])

    Attributes:
      report: the lms.Report about the training step of the latest fit, None where there is none.
      peaks: the measured peak in bytes of each epoch of the latest fit.
    """

    def __init__(
        self,
        memory_budget: str | int | Mapping[str, str | int] | None = None,
        *,
        report: str | os.PathLike[str] | None = None,
        verbose: int = 1,
        **options: Any,
    ):
        """Checks the options; nothing is enabled yet.

        Args:
          memory_budget: as for lms.enable.
          report: a file that the report is written to when fit ends: .html (the interactive
            page), .json, .txt (the table), or .png, .svg, .pdf (the picture).
          verbose: 0 says nothing; 1 prints a line about memory and time when fit ends.
          **options: the other options of lms.enable.

        Raises:
          OptionError: with every problem of the options.
          ValueError: where the file's name does not say what to write.
        """
        super().__init__()
        self._options = {"memory_budget": memory_budget, **options}
        _switch.rewriter_config(**self._options)  # raises what is wrong with them
        self._path = None if report is None else pathlib.Path(report)
        if self._path is not None and self._path.suffix.lower() not in _FORMS:
            raise ValueError(
                f"report={str(report)!r}: the name's ending says what to write, and accepted are "
                + ", ".join(_FORMS)
            )
        self._verbose = verbose
        self._blocks: list[Any] = []  # the open ones: fit's, and those of the user's `with`
        self._own: Any = None  # the block that on_train_begin opened
        self._meter = _Meter()
        self._seen = -1  # the latest report before this fit
        self._sequence = -1  # of the report on the training step
        self.report: Report | None = None
        self.peaks: list[int] = []

    # ---- The time in which lms is on ----

    def __enter__(self) -> MemoryBudget:
        block = _switch.enabled(**self._options)
        block.__enter__()
        with _lock:
            self._blocks.append(block)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with _lock:
            block = self._blocks.pop()
            if self._own is block:
                self._own = None
        # Without the error: it is the caller's, and the block has nothing to do with it.
        block.__exit__(None, None, None)

    def __del__(self) -> None:
        # A fit that the wrapper does not see raised: nobody has said that it ended.
        if getattr(self, "_own", None) is not None:
            self.__exit__(None, None, None)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        with _lock:
            left_over, inside = self._own is not None, bool(self._blocks)
        if not inside:
            self.__enter__()
            self._own = self._blocks[-1]
        elif left_over:
            _log.debug("the fit before ended without on_train_end: its block goes on")
        with shielded("keras callback"):
            fail_if_injected("keras callback")
            self.peaks = []
            self._seen = _latest_sequence()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        try:
            with shielded("keras callback"):
                fail_if_injected("keras callback")
                self._finish()
        finally:
            if self._own is not None:
                self.__exit__(None, None, None)

    # ---- Measuring ----

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        with shielded("keras callback"):
            self._meter.begin(self.model)

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        with shielded("keras callback"):
            self._meter.pause()  # validation is no training step

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        with shielded("keras callback"):
            fail_if_injected("keras callback")
            self._meter.pause()
            peak = self._meter.peak
            if peak is not None:
                self.peaks.append(peak)
                if logs is not None:
                    logs[PEAK] = peak / _MIB

    def _finish(self) -> None:
        self.report = _report_since(self._seen, self._sequence)
        if self.report is None:
            if self._verbose:
                print("lms: no report: nothing that lms could have rewritten has run")
            return
        self._sequence = self.report.sequence
        if self._verbose:
            print(f"lms: {_explain.in_a_line(self.report)}")
        if self._path is not None:
            _write_report(self.report, self._path)


class MemoryTensorBoard(_Callback):
    """Writes what lms predicted and what was measured for TensorBoard, in log_dir/lms.

    Of each epoch: "lms/measured_peak_bytes", as MemoryBudget counts it (which is to come first in
    the list, where it is used), and of the training step's report "lms/predicted_peak_bytes",
    "lms/predicted_peak_bytes_stock", "lms/budget_bytes", "lms/measured_step_peak_bytes" and
    "lms/predicted_time_overhead". The report as text and the picture of its timeline ("lms/report"
    and "lms/timeline"; the picture needs matplotlib) are written where there is a new plan, or
    a new measurement of it.

    It enables nothing: it goes with MemoryBudget, or with lms.enable(). The package tensorboard is
    only needed to look at what was written.
    """

    def __init__(self, log_dir: str | os.PathLike[str]):
        super().__init__()
        self._writer = _tensorboard.Writer(pathlib.Path(log_dir) / "lms")
        self._meter = _Meter()
        self._seen = -1
        self._written: tuple[int, int] | None = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        with shielded("keras callback"):
            self._seen = _latest_sequence()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        with shielded("keras callback"):
            self._meter.begin(self.model)

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        with shielded("keras callback"):
            self._meter.pause()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        with shielded("keras callback"):
            fail_if_injected("keras callback")
            self._meter.pause()
            of_budget = (logs or {}).get(PEAK)  # of the callback that stands before this one
            peak = self._meter.peak if of_budget is None else round(of_budget * _MIB)
            if peak is not None:
                self._writer.scalar("lms/measured_peak_bytes", peak, epoch)
            report = _report_since(self._seen, self._written[0] if self._written else -1)
            if report is None:
                return
            self._writer.numbers(report, epoch)
            state = (report.sequence, report.measured_peak_bytes)
            if state != self._written:
                self._writer.report(report, epoch)
                self._written = state

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        with shielded("keras callback"):
            self._writer.close()


class _Meter:
    """The measured peak of an epoch's training steps, in bytes, resident ones included."""

    def __init__(self) -> None:
        self.peak: int | None = None
        self._uncounted = 0
        self._running = False

    def begin(self, model: Any) -> None:
        memory.reset_peak()
        # What was allocated before counting began: of the variables, at least, that is known.
        self._uncounted = max(0, _variable_bytes(model) - memory.bytes_in_use())
        self.peak, self._running = None, True

    def pause(self) -> None:
        """Takes the peak so far; what comes after it no longer counts."""
        if self._running:
            self.peak = memory.peak_bytes() + self._uncounted
            self._running = False


def _variable_bytes(model: Any) -> int:
    variables = list(model.variables) + list(getattr(model.optimizer, "variables", ()) or ())
    sizes = {}
    for variable in variables:
        count = 1
        for size in variable.shape:
            count *= int(size)
        sizes[id(variable)] = count * int(tf.as_dtype(variable.dtype).size)
    return sum(sizes.values())


def _latest_sequence() -> int:
    return max((report.sequence for report in _latest.reports()), default=-1)


def _report_since(seen: int, before: int) -> Report | None:
    """The report on the training step: of those made since `seen`, else `before`, else any.

    A function that was planned before is not planned again for another fit.
    """
    everything = _latest.reports()
    may_train = _training.that_may_train(everything)
    for among in (may_train, everything):
        new = [report for report in among if report.sequence > seen]
        same = [report for report in among if report.sequence == before]
        for reports in (new, same, among):
            chosen = _training.to_read(reports)
            if chosen is not None and chosen.status != "skipped":
                return chosen
    return None


def _write_report(report: Report, path: pathlib.Path) -> None:
    """What cannot be written is no reason to end a training that is done."""
    kind = path.suffix.lower()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == ".html":
            report.to_html(path)  # type: ignore[attr-defined,unused-ignore]
        elif kind == ".json":
            report.to_json(path)
        elif kind == ".txt":
            path.write_text(report.table(), encoding="utf-8")
        else:
            report.plot(path)
    except Exception as error:
        _log.warning("the report could not be written to %s: %s", path, error)


def _budgets(callbacks: Any) -> list[MemoryBudget]:
    """Those among what fit is given as callbacks: a list, nested or not, a CallbackList, one."""
    held = getattr(callbacks, "callbacks", None)
    items = tf.nest.flatten(callbacks if held is None else held)
    return [item for item in items if isinstance(item, MemoryBudget)]


def _wrap_fit(original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        budgets: list[MemoryBudget] = []
        with shielded("keras callback"):
            given = signature.bind_partial(self, *args, **kwargs).arguments
            budgets = _budgets(given.get("callbacks"))
        if not budgets:
            return original(self, *args, **kwargs)
        with contextlib.ExitStack() as blocks:
            for budget in budgets:
                blocks.enter_context(budget)
            return original(self, *args, **kwargs)

    return fit


def _watch_fit(model: Any) -> None:
    owner = next((kind for kind in model.__mro__ if "fit" in vars(kind)), None)
    if owner is not None:  # else a Keras made otherwise: on_train_begin is what there is
        Patch(owner, "fit", _wrap_fit).put()


_watch_fit(keras.Model)
when_keras_2(_watch_fit)


def __getattr__(name: str) -> Any:
    if name != "TensorBoard":
        raise AttributeError(f"module 'lms.keras' has no attribute {name!r}")
    warnings.warn(
        "lms.keras.TensorBoard is called lms.keras.MemoryTensorBoard now; the old name, which is "
        "that of Keras' own callback, will go",
        DeprecationWarning,
        stacklevel=2,
    )
    return MemoryTensorBoard
