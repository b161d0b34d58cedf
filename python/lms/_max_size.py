"""The largest batch, image or sequence that fits: by planning, checked by real runs where asked."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lms import _devices, _native, _plan, _process_memory, _tf_graphs
from lms._report import Report, format_bytes, render

_log = logging.getLogger("lms")
_AT_MOST = 1 << 20
_FEASIBLE = ("fits", "rewritten")
_UNBOUNDED = 1 << 60


@dataclasses.dataclass(frozen=True)
class Trial:
    """One size that was planned for: what it takes, and whether that fits.

    peak_bytes: predicted; with lms: of the rewritten step. needed_bytes: the least budget found.
    """

    size: int
    fits: bool
    peak_bytes: int
    needed_bytes: int
    overhead: float = 0.0
    status: str = ""


@dataclasses.dataclass(frozen=True)
class LargestSize:
    """What lms.max_size and lms.max_batch_size found.

    without_lms, with_lms: the largest size that is predicted to fit; 0: not even the smallest
      does; None: not asked for.
    slowdown: the predicted added time at with_lms, as a share of the step's: 0.07 is 7%.
    budget_bytes: what a step may take, weights and arguments included.
    memory_limit: what was given; on a CPU a limit on the process (see own_bytes), else 0.
    own_bytes: what the process takes of that limit beside the step's tensors.
    device: the device's name. what: of what it is the size.
    trials: every size that was planned for, by "without_lms" and "with_lms".
    report: the plan at with_lms.
    checks: of check=True, by "without_lms" and "with_lms": (size, whether the run succeeded) at
      the answer and just above it.
    """

    what: str
    device: str
    budget_bytes: int
    memory_limit: int
    own_bytes: int
    without_lms: int | None
    with_lms: int | None
    slowdown: float
    trials: Mapping[str, tuple[Trial, ...]]
    report: Report | None = None
    checks: Mapping[str, tuple[tuple[int, bool], ...]] = dataclasses.field(default_factory=dict)

    def table(self) -> str:
        """The sizes, and what they take, as a text table."""
        from rich import box, table

        title = f"largest {self.what} on {self.device}, budget {format_bytes(self.budget_bytes)}"
        out = table.Table(title=title, box=box.SIMPLE)
        for column in ("", self.what, "predicted peak", "added time", "checked by runs"):
            out.add_column(column, justify="left" if column == "" else "right")
        for key, label, size in (
            ("without_lms", "without lms", self.without_lms),
            ("with_lms", "with lms", self.with_lms),
        ):
            if size is None:
                continue
            trial = next((t for t in self.trials.get(key, ()) if t.size == size), None)
            checks = ", ".join(
                f"{at}: {'trains' if good else 'fails'}" for at, good in self.checks.get(key, ())
            )
            out.add_row(
                label,
                str(size) if size else "none fits",
                format_bytes(trial.peak_bytes) if trial else "-",
                f"{trial.overhead:+.1%}" if trial and key == "with_lms" else "-",
                checks or "-",
            )
        return render([out])

    def __str__(self) -> str:
        parts = []
        if self.without_lms is not None:
            parts.append(f"{self.without_lms or 'none'} without lms")
        if self.with_lms is not None:
            parts.append(
                f"{self.with_lms or 'none'} with lms, for {self.slowdown:+.1%} of the step's time"
            )
        return f"largest {self.what} on {self.device}: {', '.join(parts)}"


def max_batch_size(
    step: Any,
    *args: Any,
    memory_limit: str | int | None = None,
    device: str | _devices.Device | None = None,
    lms: bool | None = None,
    max_slowdown: float | None = None,
    check: bool | Callable[[int, int], bool] = False,
    at_most: int = 65536,
    precision: float = 0.0,
    **options: Any,
) -> LargestSize:
    """The largest batch that a training step can take on a device, without lms and with it.

    It is `max_size` for the first dimension. Whatever lms.plan takes will do:

    - a Keras model, or a function without arguments that makes one: no further arguments, or inputs
      and labels as tf.TensorSpec whose first dimension is None;
    - a tf.function: tf.TensorSpec whose first dimension is None, and which is traced once;
    - a function of one argument, the batch size, that returns what lms.plan takes, or a tuple of
      that and its arguments. It is called for each size that is tried.

    Args, result and errors: as of max_size.
    """
    return max_size(
        step,
        *args,
        what="batch size",
        memory_limit=memory_limit,
        device=device,
        lms=lms,
        max_slowdown=max_slowdown,
        check=check,
        at_most=at_most,
        precision=precision,
        **options,
    )


def max_size(
    step: Any,
    *args: Any,
    vary: str | Sequence[str] | None = None,
    what: str = "size",
    at_least: int = 1,
    multiple_of: int = 1,
    memory_limit: str | int | None = None,
    device: str | _devices.Device | None = None,
    lms: bool | None = None,
    max_slowdown: float | None = None,
    check: bool | Callable[[int, int], bool] = False,
    at_most: int = 65536,
    precision: float = 0.0,
    **options: Any,
) -> LargestSize:
    """The largest size of some dimension (image, sequence, batch) that fits on a device.

    Sizes are tried by planning, as of lms.plan: nothing runs. Where open dimensions of a
    tf.function or model vary, it is traced once and planned for each size.

    Args:
      step, args: what lms.plan takes, with None where a size varies; or a function of the size that
        returns what lms.plan takes, or a tuple of that and its arguments.
      vary: which open dimensions vary together, as the option unknown_dim names them: "images:1" or
        ["images:1", "images:2"]. None (default): all that are open. The others are taken from
        unknown_dim.
      what: the word for it in tables.
      at_least, at_most, multiple_of: sizes that are tried.
      memory_limit: bytes or "2GiB". Of a GPU: what a program may allocate; None: what the device
        has. On this machine: a limit on the whole process, such as RLIMIT_DATA or a cgroup
        sets, of which TensorFlow itself, its threads and its allocator take a part that is
        measured first, in a process of its own; None: what this process may still take.
      device: as of lms.plan.
      lms: True or False: only with or without lms; None (default): both.
      max_slowdown: the most predicted added time that counts as fitting with lms, as a share of the
        step's time: 0.1 is 10%; None: any.
      check: True (a CPU and memory_limit only): the step really runs at the answer and just above
        it, each in a process of its own under RLIMIT_DATA; `step` must be a function of the size
        that can be pickled by name (defined at the top of a module). Or a function (size, budget)
        that says whether a run succeeds, budget 0 being without lms.
      precision: the search ends when it knows the answer to this share of it: 0.02 is 2%.
      options: those of lms.enable(), but memory_budget.
    Raises:
      TypeError, ValueError, OptionError: as of lms.plan; and where nothing can vary.
    """
    if "memory_budget" in options:
        raise TypeError("memory_budget is what is looked for here: give memory_limit")
    if at_least < 1 or at_most < at_least or multiple_of < 1:
        raise ValueError(
            f"at_least={at_least}, at_most={at_most}, multiple_of={multiple_of}: expected whole "
            "numbers from 1 on, at_most not below at_least"
        )
    if max_slowdown is not None and not max_slowdown >= 0:
        raise ValueError(f"max_slowdown={max_slowdown!r}: expected a share such as 0.1, or None")
    target = _devices.find(device)
    limit = _bytes(memory_limit)
    own = fill = 0.0
    budget = limit if limit is not None else target.budget_bytes
    if limit is not None and target.kind == "CPU":
        own, fill = _process_memory.overhead(step)
        budget = int((limit - own) * fill)
        if budget <= 0:
            raise ValueError(
                f"memory_limit={memory_limit!r} leaves nothing for a step: the process takes "
                f"{format_bytes(own)} of it by itself"
            )
    sizes = _Sizes(step, args, vary, target, dict(options), budget)
    search = _Search(at_least, min(at_most, _AT_MOST), multiple_of, precision)
    if limit is not None and own and _process_memory.can_be_found(step):
        # What the process takes by itself grows with the size: it is measured at the answer too.
        size, _ = search.largest(sizes.stock, budget, 0)
        try:
            own = max(own, _process_memory.overhead(step, max(1, size), limit)[0])
        except RuntimeError as error:
            _log.info("what the process takes at %d is not known, but at 1: %s", size, error)
        budget = sizes.budget = max(1, int((limit - own) * fill))
    trials: dict[str, tuple[Trial, ...]] = {}
    found: dict[str, int] = {}
    for key, wanted, try_size in (
        ("without_lms", lms is not True, sizes.stock),
        ("with_lms", lms is not False, sizes.rewritten(max_slowdown)),
    ):
        if wanted:
            first = found.get("without_lms", 0)
            found[key], trials[key] = search.largest(try_size, budget, first)
    best = next((t for t in trials.get("with_lms", ()) if t.size == found["with_lms"]), None)
    checks: dict[str, tuple[tuple[int, bool], ...]] = {}
    if check:
        run = check if callable(check) else _process_memory.runner(step, limit, target, int(own))
        for key, size in found.items():
            above = size + multiple_of * max(1, round(size * 0.05 / multiple_of))
            tried = [one for one in (size, above) if one > 0]
            checks[key] = tuple(
                (one, bool(run(one, budget if key == "with_lms" else 0))) for one in tried
            )
    return LargestSize(
        what=what,
        device=target.name,
        budget_bytes=budget,
        memory_limit=limit or 0,
        own_bytes=int(own),
        without_lms=found.get("without_lms"),
        with_lms=found.get("with_lms"),
        slowdown=best.overhead if best else 0.0,
        trials=trials,
        report=sizes.reports.get(best.size) if best else None,
        checks=checks,
    )


class _Sizes:
    """The step at any size."""

    def __init__(
        self,
        step: Any,
        args: Sequence[Any],
        vary: str | Sequence[str] | None,
        device: _devices.Device,
        options: dict[str, Any],
        budget: int,
    ):
        self._device, self.budget = device, budget
        self._stock: dict[int, Report] = {}
        self._unknown = options.pop("unknown_dim", None)
        names = ("optimizer", "loss", "signature", "feeds", "fetches")
        self._said = {name: options.pop(name) for name in names if name in options}
        self._options = options
        self.reports: dict[int, Report] = {}
        self._fixed: tuple[_tf_graphs.Step, int] | None = None
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
        source = _plan.Source(step, **self._said)
        self._fixed = source.trace(args)
        opened = _tf_graphs.open_arguments(self._fixed[0])
        if not opened:
            raise ValueError(
                "nothing can vary: every size is fixed. Give tf.TensorSpec with None where the "
                "size is looked for, or a function of the size"
            )

    def _planned(self, size: int, budget: int) -> Report:
        options = dict(self._options)
        if self._make is not None:
            traced, allocated = _made(self._make, size, self._said)
            if self._unknown is not None:
                options["unknown_dim"] = self._unknown
        else:
            assert self._fixed is not None
            traced, allocated = self._fixed
            options["unknown_dim"] = self._sizes(size)
        chosen = _plan.gathered(budget, options)
        return _plan.planned(traced, self._device, chosen, allocated)

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
            self._stock[size] = self._planned(size, _UNBOUNDED)
        report = self._stock[size]
        _refuse_failure(report, size)
        peak = report.peak_before_bytes
        return Trial(size, peak <= self.budget, peak, peak, status=report.status)

    def rewritten(self, max_slowdown: float | None) -> Callable[[int], Trial]:
        def trial(size: int) -> Trial:
            report = self._planned(size, self.budget)
            _refuse_failure(report, size)
            self.reports[size] = report
            added = report.predicted_time_overhead if report.status == "rewritten" else 0.0
            fits = report.status in _FEASIBLE
            if max_slowdown is not None and added > max_slowdown:
                fits = False
            needed = report.min_budget_bytes or report.peak_after_bytes
            return Trial(size, fits, report.peak_after_bytes, needed, added, report.status)

        return trial


def _refuse_failure(report: Report, size: int) -> None:
    if report.status in ("failed", "skipped"):
        raise ValueError(f"the step at {size} cannot be planned: {report.reason}")


def _made(make: Callable[[int], Any], size: int, said: Mapping[str, Any]) -> tuple[Any, int]:
    """What a function of the size returns, unallocated."""
    return _plan.trace_made(lambda: make(size), said)


# How much larger the next size is at least, while all that were tried fit.
_GROWTH = (1.25, 1.5, 2.0, 4.0)


@dataclasses.dataclass(frozen=True)
class _Search:
    """Bisection over sizes, aided by what each size is said to need.

    What is needed is no straight line and has noise in it, so no guess is trusted twice: upwards
    sizes grow by _GROWTH at least, and a guess that did not halve what is left is followed by the
    middle. Sizes from 1 to a million are told apart to 2% by 25 trials at most.
    """

    least: int
    most: int
    multiple: int
    precision: float

    def _rounded(self, size: float) -> int:
        steps = int(size) // self.multiple
        first = -(-self.least // self.multiple)
        return self.multiple * max(first, min(steps, self.most // self.multiple))

    def largest(
        self, try_size: Callable[[int], Trial], budget: int, first: int
    ) -> tuple[int, tuple[Trial, ...]]:
        """The largest size that fits (0: none), and all trials by size. `first`: known to fit with
        less means, or 0."""
        trials: dict[int, Trial] = {}
        low: Trial | None = None
        high: Trial | None = None
        size = self._rounded(max(first, self.least, 8))
        ratio = math.inf  # between the ends
        trust = True
        while size not in trials:
            trial = trials[size] = try_size(size)
            if trial.fits:
                low = trial
            else:
                high = trial
            if high is None:
                size = self._above(trial, trials, budget)
                continue
            bottom = low.size if low else self._rounded(self.least) - self.multiple
            if high.size - bottom <= self._close(bottom):
                break
            before, ratio = ratio, high.size / max(bottom, 1)
            trust = not trust or ratio <= math.sqrt(before)
            guess = None
            if trust and not (low is not None and low.status == "rewritten"):
                guess = _line(trials, budget)
            size = self._between(bottom, high.size, guess)
        return (low.size if low else 0), tuple(trials[size] for size in sorted(trials))

    def _close(self, size: int) -> float:
        return max(self.multiple, size * self.precision)

    def _above(self, low: Trial, trials: Mapping[int, Trial], budget: int) -> int:
        growth = _GROWTH[min(len(trials), len(_GROWTH)) - 1]
        # A rewritten step's peak lies below the budget whatever the size: it foretells nothing.
        line = None if low.status == "rewritten" else _line(trials, budget)
        guess = line or low.size * max(growth, 1.5)
        guess = min(max(guess, low.size * growth), low.size * _GROWTH[-1])
        return self._rounded(max(guess, low.size + self.multiple))

    def _between(self, low: int, high: int, guess: float | None) -> int:
        """A size between the two: the guess, else the middle, in ratio as sizes are asked for."""
        if guess is None:
            guess = math.sqrt(max(low, 1) * high) if low * 2 < high else (low + high) / 2
        close = min(self._close(low), (high - low) / 2)
        inside = self._rounded(min(max(guess, low + close), high - close))
        return min(max(inside, self._rounded(low + self.multiple)), high - self.multiple)


def _line(trials: Mapping[int, Trial], budget: int) -> float | None:
    """Where a line through the two sizes nearest to the budget meets it."""
    near = sorted(trials.values(), key=lambda trial: abs(trial.needed_bytes - budget))[:2]
    if len(near) < 2 or near[0].needed_bytes == near[1].needed_bytes:
        return None
    a, b = near
    slope = (b.size - a.size) / (b.needed_bytes - a.needed_bytes)
    guess = a.size + (budget - a.needed_bytes) * slope
    return guess if guess > 0 else None


def _bytes(limit: str | int | None) -> int | None:
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, (str, int)):
        raise TypeError(f"memory_limit={limit!r}: expected bytes or a text such as '2GiB'")
    value = limit if isinstance(limit, int) else _native.parse_bytes(limit)
    if value is None:
        raise ValueError(f"memory_limit={limit!r}: expected bytes or a text such as '2GiB'")
    if value <= 0:
        raise ValueError(f"memory_limit={limit!r}: must be above 0")
    return value


__all__ = ["LargestSize", "Trial", "max_batch_size", "max_size"]
