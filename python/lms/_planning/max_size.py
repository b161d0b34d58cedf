"""The largest batch, image or sequence that fits: by planning, checked by real runs where asked."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lms._base.format import format_bytes, render
from lms._planning import process_memory as _process_memory
from lms._planning.share import Share
from lms._planning.size_search import Search, Trial
from lms._planning.size_trials import Sizes
from lms._reports.report import Report
from lms._settings import devices as _devices

_AT_MOST = 1 << 20
_PRECISION = 0.01
_CHECKED = 0.05  # how far sizes that are run lie apart, as a share
_MOST_RUNS = 12


@dataclasses.dataclass(frozen=True)
class LargestSize:
    """What lms.max_size and lms.max_batch_size found.

    without_lms, with_lms: the largest size that is predicted to fit, and with `check` trains; 0:
      not even the smallest does; None: not asked for.
    slowdown: the predicted added time at with_lms, as a share of the step's: 0.07 is 7%.
    budget_bytes: what a step may take, weights and arguments included, at the largest answer.
    memory_limit: what was given; on a CPU a limit on the process (see own_bytes), else 0.
    own_bytes: what the process takes of that limit beside the step's tensors, likewise.
    own_without_lms_bytes: the same at without_lms.
    device: the device's name. what: of what it is the size.
    trials: every size that was planned for, by "without_lms" and "with_lms".
    report: the plan at with_lms.
    checks: of check=True, by "without_lms" and "with_lms": (size, whether the run succeeded) at
      the answer and 5% above it; where a larger size was predicted, and did not train, below that.
    seconds: what the search took, checks included.
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
    seconds: float = 0.0
    own_without_lms_bytes: int = 0

    @property
    def unplanned(self) -> tuple[Trial, ...]:
        """The sizes that could not be planned, with lms or without, and so count as too large."""
        return tuple(
            trial for key in self.trials for trial in self.trials[key] if not trial.planned
        )

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
        tried = len({(key, trial.size) for key in self.trials for trial in self.trials[key]})
        lines = [f"searched in {self.seconds:.1f} s: {tried} plans", *self._remarks()]
        return render([out]) + "".join(f"  {line}\n" for line in lines)

    def _remarks(self) -> list[str]:
        """What one has to know of sizes that could not be planned."""
        lines = []
        for key, label in (("without_lms", "without lms"), ("with_lms", "with lms")):
            wrong = [trial for trial in self.trials.get(key, ()) if not trial.planned]
            if wrong:
                sizes = ", ".join(str(trial.size) for trial in wrong)
                lines.append(
                    f"{label}: could not be planned, and counted as too large: {sizes} "
                    f"({wrong[0].status}: {wrong[0].reason})"
                )
        return lines

    def __str__(self) -> str:
        parts = []
        if self.without_lms is not None:
            parts.append(f"{self.without_lms or 'none'} without lms")
        if self.with_lms is not None:
            parts.append(
                f"{self.with_lms or 'none'} with lms, for {self.slowdown:+.1%} of the step's time"
            )
        text = f"largest {self.what} on {self.device}: {', '.join(parts)}"
        return "; ".join([text, *self._remarks()])


def max_batch_size(
    step: Any,
    *args: Any,
    memory_limit: str | int | None = None,
    device: str | _devices.Device | None = None,
    lms: bool | None = None,
    max_slowdown: float | None = None,
    check: bool | Callable[[int, int], bool] = False,
    at_most: int = 65536,
    precision: float = _PRECISION,
    progress: bool | Callable[[str], None] | None = None,
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
        progress=progress,
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
    precision: float = _PRECISION,
    progress: bool | Callable[[str], None] | None = None,
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
      check: True (a CPU and memory_limit only): the step really runs at the answer and 5% above
        it, each in a process of its own under RLIMIT_DATA; where it does not train, lower ones are
        run until the largest that trains is known to 5%: that is the answer. `step` must be a
        function of the size that can be pickled by name (defined at the top of a module). Or a
        function (size, budget) that says whether a run succeeds, budget 0 being without lms.
      precision: the search ends when it knows the answer to this share of it; the default, 0.01,
        is exact below 200 and 1% above. 0: exact. With max_slowdown a size that takes 98% of it
        ends the search as well, where the rest would buy less than twice this share.
      progress: what is being tried, on stderr: True, False, or None (default): where that is a
        terminal. Or a function that is given a line of text before each size.
      options: those of lms.enable(), but memory_budget.
    Returns:
      The sizes, and every trial. A size that cannot be planned (status "skipped" or "failed", or
      planning raises) counts as one that does not fit: see LargestSize.unplanned.
    Raises:
      TypeError, ValueError, OptionError: as of lms.plan; where nothing can vary; and where no size
        at all could be planned, with the reason.
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
    with _told(progress) as tell:
        return _found(
            step,
            args,
            vary,
            what,
            search=Search(at_least, min(at_most, _AT_MOST), multiple_of, precision),
            memory_limit=memory_limit,
            target=_devices.find(device),
            wanted={"without_lms": lms is not True, "with_lms": lms is not False},
            max_slowdown=max_slowdown,
            check=check,
            tell=tell,
            options=options,
        )


def _found(
    step: Any,
    args: Sequence[Any],
    vary: str | Sequence[str] | None,
    what: str,
    search: Search,
    memory_limit: str | int | None,
    target: _devices.Device,
    wanted: Mapping[str, bool],
    max_slowdown: float | None,
    check: bool | Callable[[int, int], bool],
    tell: Callable[[str], None],
    options: Mapping[str, Any],
) -> LargestSize:
    begin = time.perf_counter()
    share = Share(step, memory_limit, target, what, tell)
    run = check if callable(check) else None
    if check and run is None:
        _process_memory.refuse_to_run(step, share.limit, target)
    tell("tracing the step")
    sizes = Sizes(
        step, args, vary, target, dict(options), share.budget, share.limit > 0, what, tell
    )
    # What the process takes by itself grows with the size: it is measured at the answers, too.
    stock = 0
    if share.limit:
        stock, _ = search.largest(sizes.stock, share.budget, 0)
        if share.measure_at(max(1, stock)):
            sizes.change_budget(share.budget)
    answers: dict[str, _Answer] = {}
    if wanted["without_lms"]:
        stock, tried = search.largest(sizes.stock, share.budget, stock)
        answers["without_lms"] = _Answer(stock, tried, 0, share.own)
    if wanted["with_lms"]:
        slow = dataclasses.replace(search, slowdown=max_slowdown)
        size, tried = slow.largest(sizes.rewritten(max_slowdown), share.budget, stock)
        if size > stock and share.measure_at(size, share.budget):
            sizes.change_budget(share.budget)
            size, tried = slow.largest(sizes.rewritten(max_slowdown), share.budget, stock)
        answers["with_lms"] = _Answer(size, tried, share.budget, share.own)
    _refuse_where_none_was_planned({key: answer.trials for key, answer in answers.items()})
    checks: dict[str, tuple[tuple[int, bool], ...]] = {}
    for key, answer in answers.items() if check else ():
        try_size = sizes.stock if key == "without_lms" else sizes.rewritten(max_slowdown)
        trains = functools.partial(answer.trains, step, share.limit, run)
        checked = _checked(answer, trains, try_size, search.multiple, f"running {what}", tell)
        answers[key], checks[key] = checked
    with_lms = answers.get("with_lms")
    best = with_lms.trial if with_lms else None
    return LargestSize(
        what=what,
        device=target.name,
        budget_bytes=share.budget,
        memory_limit=share.memory_limit,
        own_bytes=share.own,
        without_lms=answers["without_lms"].size if "without_lms" in answers else None,
        with_lms=with_lms.size if with_lms else None,
        slowdown=best.overhead if best else 0.0,
        trials={key: answer.trials for key, answer in answers.items()},
        report=sizes.report(best.size) if best else None,
        checks=checks,
        seconds=time.perf_counter() - begin,
        own_without_lms_bytes=answers["without_lms"].own if "without_lms" in answers else 0,
    )


@dataclasses.dataclass(frozen=True)
class _Answer:
    """What a search found: the size, and what the step and the process had at it.

    budget: bytes, with lms; 0: without.
    """

    size: int
    trials: tuple[Trial, ...]
    budget: int
    own: int

    @property
    def trial(self) -> Trial | None:
        return next((trial for trial in self.trials if trial.size == self.size), None)

    def trains(
        self, step: Any, limit: int, run: Callable[[int, int], bool] | None, size: int
    ) -> bool:
        """Whether a size really runs. `run`: the user's own way to find out."""
        if run is not None:
            return bool(run(size, self.budget))
        return bool(_process_memory.runs(step, size, limit, self.budget, self.own)["ok"])


def _checked(
    answer: _Answer,
    trains: Callable[[int], bool],
    try_size: Callable[[int], Trial],
    multiple: int,
    running: str,
    tell: Callable[[str], None],
) -> tuple[_Answer, tuple[tuple[int, bool], ...]]:
    """The answer that runs confirm, and the runs: at the answer and above it, or, where it fails,
    below it, until the largest that trains is known to 5%."""
    runs: dict[int, bool] = {}

    def ran(size: int) -> bool:
        tell(f"{running} {size}")
        runs[size] = trains(size)
        return runs[size]

    def step_of(size: int) -> int:
        return multiple * max(1, round(size * _CHECKED / multiple))

    low, high, down = 0, answer.size, _CHECKED
    if high and ran(high):
        ran(high + step_of(high))
        return answer, tuple(sorted(runs.items()))
    while high - low > step_of(low) and len(runs) < _MOST_RUNS:
        between = (low + high) / 2 if low else high * (1 - down)
        size = min(max(multiple * int(between / multiple), low + multiple), high - multiple)
        if ran(size):
            low = size
        else:
            high, down = size, min(2 * down, 0.5)
    trials = {trial.size: trial for trial in answer.trials}
    if low and low not in trials:
        trials[low] = try_size(low)
    tried = tuple(trials[size] for size in sorted(trials))
    return dataclasses.replace(answer, size=low, trials=tried), tuple(sorted(runs.items()))


@contextlib.contextmanager
def _told(progress: bool | Callable[[str], None] | None) -> Iterator[Callable[[str], None]]:
    """A function that shows a line of text as the argument `progress` of max_size says."""
    if callable(progress):
        yield progress
        return
    if progress is None:
        progress = sys.stderr.isatty()
    if not progress:
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def tell(text: str) -> None:
            if console.is_terminal:
                bar.update(task, description=text)
            else:
                print(text, file=sys.stderr, flush=True)

        yield tell


def _refuse_where_none_was_planned(trials: Mapping[str, tuple[Trial, ...]]) -> None:
    made = [trial for several in trials.values() for trial in several]
    if made and not any(trial.planned for trial in made):
        least = min(made, key=lambda trial: trial.size)
        sizes = ", ".join(str(size) for size in sorted({trial.size for trial in made}))
        raise ValueError(f"no size can be planned ({sizes} were tried): {least.reason}")


__all__ = ["LargestSize", "Trial", "max_batch_size", "max_size"]
