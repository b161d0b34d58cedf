"""What a step really takes, beside what was predicted; and planning again where it is too much.

The first call of a function makes its plan, and allocates what is allocated once. The second one
is measured. Where its activations exceed what the budget leaves them by more than 1%, the next call
confirms it; the lower figure counts. Then the function's entry carries the error as a margin, which
makes TensorFlow have it optimised anew.

Of a step that takes its batch from iterators, what the step itself asks for is measured, and the
batch; of others, the rise of the memory in use but for what others make meanwhile and keep
(cc/core/system/step_peak.h). A step on several CPU devices is measured as a whole, and the figure
shared out as predicted. On a GPU it is the rise of the peak that its allocator reports: memory is
allocated and given back as operations are handed over, ahead of what the device computes, so that
all of it has shown when the call returns. That statistic begins anew in each call that is measured.
What chunks of its arena take may differ from call to call, above all where devices run beside each
other. So the calls that follow are watched: where the peak since then is over what the step may
have, the next call is measured like the second one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from lms import _native, memory
from lms._base.failure import fail_if_injected
from lms._base.format import counted, format_bytes

_TOLERANCE = 1.01
_MOST_REPLANS = 2
_MOST_TRIES = 20  # calls that other ones disturbed
_WATCHED = 64  # calls after one that was within its budget, on GPUs
_MOST_LOWERED = 8  # times that a step is planned for less after it ran out of memory
_LOWERED = 0.93  # of what was there, what it is planned for then: less each time
_LOWERED_MORE = 0.04
_MOST_PARTIAL = 3  # calls in which not all of the batch was seen: a smaller one, as a rule

_lock = threading.Lock()
_open: Step | None = None  # the step that is being measured


class Step:
    """One function under one set of options. `begin` and `end` enclose a call of it.

    `done`: there is nothing more to measure. `parameter`: what its entry carries, "" nothing.
    `disturbed`: another call began while this one was measured. `again`: the function may be
    planned anew, asked when it would have to be.
    """

    def __init__(self, function: str, again: Callable[[], bool] = lambda: True):
        self.function = function
        self._again = again
        self.done = False
        self.parameter = ""
        self.disturbed = False
        self._calls = 0
        self._tries = 0
        self._partial = 0
        self._batch: list[int] | None = None
        self._replans = 0
        self._lowered = 0
        self._lowered_from = 0  # bytes predicted of the plan that ran out of memory last
        self._excess = 1.0
        self._first: list[int] | None = None  # the measure that is to be confirmed, by part
        self._watching = False  # after a measure that was within the budget, on GPUs
        self._watch_until = 0  # of _calls
        self._gpus: dict[str, memory.GpuPeak] = {}  # that are being measured
        self._sizes: str | None = None  # that the latest plan was made for

    def resume(self) -> None:
        """Goes on after the function may have been called under other options."""
        # The next call may be planned anew, as a first one is.
        self._sizes = self._first = None

    def begin(self, sizes: str, alone: bool, batch: list[int] | None = None) -> bool:
        """Starts to measure the call; False where it is not to be, and has no `end`.

        batch: the bytes of the tensors that it takes from iterators, None where it takes none.
        """
        global _open
        if sizes != self._sizes:  # this call makes a plan
            self._sizes, self._first, self._watching = sizes, None, False
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
            plan = _native.latest_plan(self.function)
            if not self._measurable(plan):
                self.done = True
                return False
            self._tries -= self._watching
            self._gpus = {
                part["device"]: memory.GpuPeak(part["device"], anew=not self._watching)
                for part in parts_of(plan)
                if _on_gpu(part)
            }
            if self._gpus:
                begun, self.disturbed, _open = True, False, self
            elif not _native.begin_peak_scope():
                self.done = bool(_native.memory_error())
            else:
                begun = True
                self.disturbed = False
                self._batch = batch
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
                    on_gpus = {name: peak.rise() for name, peak in self._gpus.items()}
                    rise, whole = (0, True) if on_gpus else self._end_scope()
                finally:
                    _open = None
                    _lock.release()
            if self._watching and on_gpus:
                self._watch(on_gpus)
            elif returned and not self.disturbed:
                fail_if_injected("feedback judge")
                self._partial += not whole
                if whole or self._partial > _MOST_PARTIAL:
                    self._judge(rise, on_gpus)
        except BaseException:
            self.done = True  # what went wrong once would do so in every call
            raise

    def _end_scope(self) -> tuple[int, bool]:
        """What the step took on CPUs, and whether it had a whole batch."""
        if self._batch is None:
            return _native.end_peak_scope_beside_others(), True
        return _native.end_peak_scope_of_step(self._batch)

    @staticmethod
    def _measurable(plan: Any) -> bool:
        return plan is not None and all(
            part["status"] in ("rewritten", "fits", "infeasible") for part in parts_of(plan)
        )

    def _judge(self, rise: int, on_gpus: Mapping[str, int]) -> None:
        """Judges what the step took: `rise` on all CPUs, or by the names of the GPUs."""
        plan = _native.latest_plan(self.function)
        if plan is None:  # cleared meanwhile
            self.done = True
            return
        parts = parts_of(plan)
        if on_gpus:
            parts = [part for part in parts if part["device"] in on_gpus]
            rises = [on_gpus[part["device"]] for part in parts]
        else:
            rises = [int(rise * _share(part, parts)) for part in parts]
        if not parts:  # planned anew meanwhile, for other devices
            self.done = True
            return
        if self._first is not None:
            rises = list(map(min, rises, self._first))
        # The part that is furthest over what it may have.
        at = max(range(len(parts)), key=lambda i: rises[i] / max(1, _allowed(parts[i])))
        worst, taken = parts[at], rises[at]
        predicted, allowed = _predicted(worst), _allowed(worst)
        over = taken > allowed * _TOLERANCE
        judged = all(
            part["status"] != "infeasible" and not part["budget"].startswith("min")
            for part in parts
        )
        steps = 1 if self._first is None else 2
        if over and judged and self._first is None:
            self._first = rises
            self._note(parts, rises, 1)
            return
        peak = format_bytes(int(worst["resident_bytes"] + taken))
        if not (over and judged):
            warning = ""
            if over and all(part["status"] != "infeasible" for part in parts):
                warning = (
                    f"the step takes {peak}: more than the least that was found for it, and "
                    "nothing lower is planned"
                )
            self._note(parts, rises, steps, warning)
            self._first = None
            self._watch_until = self._watch_until or self._calls + _WATCHED
            self._watching = bool(on_gpus) and judged
            self.done = not self._watching
            return
        most = _MOST_REPLANS if self._again() else 0
        if predicted <= 0 or self._replans >= most:
            warning = (
                f"the step takes {peak}, more than the "
                f"budget, after {counted(self._replans, 'plan')} with what was learnt: ask for "
                "a lower budget"
            )
            self._note(parts, rises, steps, warning)
            self.done = True
            return
        self._note(parts, rises, steps)
        self._replans += 1
        self._excess = max(self._excess * taken / max(1, allowed), taken / predicted)
        self.parameter = (
            f"{self._excess:.4f}|call {self._calls} took {peak}, its activations "
            f"{taken / predicted - 1:.0%} more than predicted"
        )
        self._sizes, self._first, self._watch_until = None, None, 0

    def lower(self, device: str, there: int) -> str:
        """After a call that ran out of memory: the next one is planned for less. "", or why not.

        device: on which it did. there: the bytes that it had there at most, 0: not known.
        """
        plan = _native.latest_plan(self.function)
        part = part_on(plan, device)
        if part is None or part["status"] not in ("fits", "rewritten"):
            return "lms has no plan for it that takes less"
        if part["budget"].startswith("min"):
            return "it is planned for the least memory already"
        if not self._again():
            return "its random operations, which have a seed, would begin their sequence anew"
        if self._lowered >= _MOST_LOWERED:
            return f"{counted(self._lowered, 'lower plan')} did not help"
        predicted, allowed = _predicted(part), _allowed(part)
        left = there - int(part["resident_bytes"])
        base = min(predicted, left) if left > 0 else predicted
        if base <= 0 or allowed <= 0:
            return "its activations take nothing"
        if self._lowered and predicted >= self._lowered_from:
            return "no plan that takes less was found"
        excess = allowed / (base * (_LOWERED - _LOWERED_MORE * self._lowered))
        self._lowered, self._lowered_from = self._lowered + 1, predicted
        if excess <= self._excess:
            return "no plan that takes less was found"
        self._excess = excess
        self.parameter = f"{excess:.4f}|call {self._calls} ran out of memory"
        self._sizes, self._first, self._watching = None, None, False
        return ""

    def _watch(self, rises: Mapping[str, int]) -> None:
        """`rises`: by GPU, at least what the call took: the peak may be of others before it."""
        plan = _native.latest_plan(self.function)
        for part in parts_of(plan) if plan is not None else []:
            if rises.get(part["device"], 0) > _allowed(part) * _TOLERANCE:
                self._watching = False  # the next call is measured
        self.done = self._watching and self._calls >= self._watch_until

    def _note(self, parts: list[Any], rises: list[int], steps: int, warning: str = "") -> None:
        for part, rise in zip(parts, rises):
            peak = part["resident_bytes"] + rise
            _native.set_measured(part["sequence"], peak, steps, warning)


def _on_gpu(part: Any) -> bool:
    return "GPU:" in part["device"]


def parts_of(plan: Any) -> list[Any]:
    """The plans for the devices of the step; devices on which nothing is to be done are none."""
    others = [part for part in plan["others"] if part["status"] != "skipped"]
    return [*([plan] if plan["status"] != "skipped" or not others else []), *others]


def part_on(plan: Any, device: str) -> Any:
    """The plan for the device, else that for the first; None where nothing is planned."""
    made = [] if plan is None else [part for part in parts_of(plan) if part["status"] != "skipped"]
    return next((part for part in made if part["device"] == device), made[0] if made else None)


def _predicted(part: Any) -> int:
    return int(part["peak_after_bytes"] - part["resident_bytes"])


def _allowed(part: Any) -> int:
    return int(part["budget_bytes"] - part["resident_bytes"])


def _share(part: Any, parts: list[Any]) -> float:
    """Of what all of them take: by what was predicted."""
    whole = sum(_predicted(other) for other in parts)
    return _predicted(part) / whole if whole > 0 else 1 / len(parts)


def disturb() -> None:
    """To be called where a call begins: what is being measured is no longer alone."""
    step = _open
    if step is not None:
        step.disturbed = True
