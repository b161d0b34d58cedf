"""What a step really takes, beside what was predicted; and planning again where it is too much.

The first call of a function makes its plan, and allocates what is allocated once. The second one
is measured. Where its activations (the rise over what was in use before the call) exceed what
the budget leaves them by more than 1%, the next call confirms it; the lower figure counts. Then
the function's entry carries the error as a margin, which makes TensorFlow have it optimised anew.
"""

from __future__ import annotations

import threading
from typing import Any

from lms import _native
from lms._failure import fail_if_injected
from lms._format import counted
from lms._report import format_bytes

_TOLERANCE = 1.01
_MOST_REPLANS = 2
_MOST_TRIES = 20  # calls that other ones disturbed

_lock = threading.Lock()
_open: Step | None = None  # the step that is being measured


class Step:
    """One function under one set of options. `begin` and `end` enclose a call of it.

    `done`: there is nothing more to measure. `parameter`: what its entry carries, "" nothing.
    `disturbed`: another call began while this one was measured. `again`: the function may be
    planned anew.
    """

    def __init__(self, function: str, again: bool = True):
        self.function = function
        self._most_replans = _MOST_REPLANS if again else 0
        self.done = False
        self.parameter = ""
        self.disturbed = False
        self._calls = 0
        self._tries = 0
        self._replans = 0
        self._excess = 1.0
        self._first: int | None = None  # the measure that is to be confirmed
        self._sizes: str | None = None  # that the latest plan was made for

    def begin(self, sizes: str, alone: bool) -> bool:
        """Starts to measure the call; False where it is not to be, and has no `end`."""
        global _open
        if sizes != self._sizes:  # this call makes a plan
            self._sizes, self._first = sizes, None
            self._calls += 1
            return False
        self._calls += 1
        if self._tries >= _MOST_TRIES:
            self.done = True
        if self.done or not alone or not _lock.acquire(blocking=False):
            return False
        self._tries += 1
        begun = False
        try:
            fail_if_injected("feedback begin")
            if not self._measurable(_native.latest_plan(self.function)):
                self.done = True
            elif not _native.begin_peak_scope():
                self.done = bool(_native.memory_error())
            else:
                begun = True
                self.disturbed = False
                _open = self
        except BaseException:
            self.done = True
            raise
        finally:
            if not begun:
                _lock.release()
        return begun

    def end(self, returned: bool) -> None:
        """Judges the call; `returned`: it raised nothing."""
        global _open
        try:
            try:
                fail_if_injected("feedback end")
            finally:
                try:
                    rise = _native.end_peak_scope()
                finally:
                    _open = None
                    _lock.release()
            if returned and not self.disturbed:
                fail_if_injected("feedback judge")
                self._judge(rise)
        except BaseException:
            self.done = True  # what went wrong once would do so in every call
            raise

    @staticmethod
    def _measurable(plan: Any) -> bool:
        # A GPU runs behind the calls: what is in use around one says nothing of it.
        return (
            plan is not None
            and plan["status"] in ("rewritten", "fits", "infeasible")
            and "GPU:" not in plan["device"]
            # Nor does the process's memory say which of several CPU devices it is of.
            and plan["devices"] == 1
        )

    def _judge(self, rise: int) -> None:
        plan = _native.latest_plan(self.function)
        if plan is None:  # cleared meanwhile
            self.done = True
            return
        if self._first is not None:
            rise = min(rise, self._first)
        allowed = plan["budget_bytes"] - plan["resident_bytes"]
        predicted = plan["peak_after_bytes"] - plan["resident_bytes"]
        over = rise > allowed * _TOLERANCE
        judged = plan["status"] != "infeasible" and not plan["budget"].startswith("min")
        if over and judged and self._first is None:
            self._first = rise
            self._note(plan, rise, 1)
            return
        steps = 1 if self._first is None else 2
        if not (over and judged):
            self._note(plan, rise, steps)
            self.done = True
        elif predicted <= 0 or self._replans >= self._most_replans:
            self._note(
                plan,
                rise,
                steps,
                f"the step takes {format_bytes(plan['resident_bytes'] + rise)}, more than the "
                f"budget, after {counted(self._replans, 'plan')} with what was learnt: "
                "ask for a lower budget",
            )
            self.done = True
        else:
            self._note(plan, rise, steps)
            self._replans += 1
            self._excess = max(self._excess * rise / allowed, rise / predicted)
            self.parameter = (
                f"{self._excess:.4f}|call {self._calls} took "
                f"{format_bytes(plan['resident_bytes'] + rise)}, its activations "
                f"{rise / predicted - 1:.0%} more than predicted"
            )
            self._sizes, self._first = None, None

    def _note(self, plan: Any, rise: int, steps: int, warning: str = "") -> None:
        peak = plan["resident_bytes"] + rise
        _native.set_measured(plan["sequence"], peak, steps, warning)


def disturb() -> None:
    """To be called where a call begins: what is being measured is no longer alone."""
    step = _open
    if step is not None:
        step.disturbed = True
