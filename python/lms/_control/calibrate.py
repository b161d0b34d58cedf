"""lms.calibrate: measures what the operations of a function take, and keeps it for planning."""

from __future__ import annotations

import dataclasses
import itertools
import os
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from lms import _native
from lms._base.format import counted, render
from lms._control import swap as _swap
from lms._control import switch as _switch
from lms._control import verify as _verify
from lms._tf import context as _tf_context
from lms._tf import entry as _tf_entry
from lms._tf import profiler as _tf_profiler

_WARM_UPS = 2  # kernels are made, memory is touched for the first time
_ROWS = 15
_numbers = itertools.count()
_lock = threading.Lock()  # two calibrations at once would time each other


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What lms.calibrate() measured and where it is kept. Times are medians, in microseconds.

    path: the profile's file. replaced: why what was there before was not kept (it was moved to
      the same name with ".old"); "" where it was, or there was nothing.
    device: type, model, cores and threads of the place that the profile belongs to.
    operations: how many operations of the function were timed; keys: how many kinds they are
      of (type, attributes and shapes).
    step_us: one call as it is; chained_us: with its operations one at a time, under
      TensorFlow's profiler.
    covered: the share of chained_us that the timed operations account for.
    link: what the way to where tensors are swapped carries, measured anew; "" where the options
      in force swap nothing.
    times_us, estimates_us: by operation type, the sum over one step of what was measured and of
      what lms estimates without a profile.
    """

    path: str
    device: str
    operations: int
    keys: int
    step_us: float
    chained_us: float
    covered: float
    times_us: Mapping[str, float]
    estimates_us: Mapping[str, float]
    replaced: str = ""
    link: str = ""

    def ratios(self) -> dict[str, float]:
        """Measured time / estimate by operation type, most time first."""
        order = sorted(self.times_us, key=lambda kind: -self.times_us[kind])
        estimated = [kind for kind in order if self.estimates_us[kind] > 0]
        return {kind: self.times_us[kind] / self.estimates_us[kind] for kind in estimated}

    def __str__(self) -> str:
        text = (
            f"{counted(self.operations, 'operation')} of {counted(self.keys, 'kind')} timed on "
            f"{self.device}: "
            f"{self.covered:.0%} of a step of {self.chained_us / 1e3:.1f} ms with its operations "
            f"one at a time ({self.step_us / 1e3:.1f} ms as it is). Kept in {self.path}."
        )
        if self.replaced:
            text += f" The profile that was there was moved to {self.path}.old: {self.replaced}."
        if self.link:
            text += f" Swapping: {self.link}."
        return text

    def table(self) -> str:
        """The same as a text table, with a row per operation type, for a terminal."""
        from rich import box, table

        rows = table.Table(box=box.SIMPLE)
        rows.add_column("operation type", no_wrap=True)
        for name in ("measured", "share", "measured / estimate"):
            rows.add_column(name, justify="right")
        ratios = self.ratios()
        total = sum(self.times_us.values())
        for kind in sorted(self.times_us, key=lambda kind: -self.times_us[kind])[:_ROWS]:
            rows.add_row(
                kind,
                f"{self.times_us[kind] / 1e3:.2f} ms",
                f"{self.times_us[kind] / total:.1%}" if total else "",
                f"{ratios[kind]:.3g}" if kind in ratios else "",
            )
        return f"{self}\n{render([rows])}"


def calibrate(
    function: Callable[..., Any],
    *args: Any,
    repeats: int = 8,
    path: str | os.PathLike[str] | None = None,
) -> Calibration:
    """Times the operations of `function(*args)` one at a time and keeps the figures.

    The plans of `enable` then rest on measured times instead of estimates: the profile is
    used by itself for every function on this device (see the option `profile`); operations that
    were not timed are estimated, in proportion to what was. Calibrating more functions
    adds to the same file. Where lms is enabled, the function runs as lms rewrites it, so that
    a step that does not fit otherwise can be calibrated; and dimensions that the graph leaves
    unknown have the size that `unknown_dim` gives them there, which belongs to what is kept.
    How fast tensors can be swapped, to where the options in force say, is measured anew first,
    also where the operations cannot be timed.

    The function runs 2 * (repeats + 2) times. Its variables are put back afterwards, those of
    optimizers and random generators included. Of the repeats, the faster half counts: nothing else
    should run on the device meanwhile.

    Args:
      function: a tf.function, or a callable that tf.function can trace. A training step
        that updates its variables is fine. A batch, not an iterator, is what it should take.
      *args: its arguments; use functools.partial for keyword arguments.
      repeats: how often each operation is timed, after two runs that do not count.
      path: the profile's file; None for the device's own ($LMS_PROFILE_DIR, or lms/profiles in
        the user's cache directory). One of another device or version, or that is damaged, is
        moved to the same name with ".old" first.

    Raises:
      RuntimeError: where operations cannot be timed: inside a graph, on a GPU, in a function
        that XLA compiles, while a profiler runs, or where the order of operations must not be
        changed.
      OSError: where the file cannot be written.
    """
    if not tf.executing_eagerly():
        raise RuntimeError("lms.calibrate needs eager execution: call it outside of tf.function")
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise ValueError(f"repeats={repeats!r}; accepted: a positive whole number")
    target = None if path is None else os.fspath(path)
    for arg in tf.nest.flatten(args):
        if isinstance(arg, tf.data.Iterator):
            raise TypeError("lms.calibrate takes a batch for each run, not an iterator")
    called: Any = function
    if not hasattr(called, "get_concrete_function") and not _verify._is_concrete(called):
        called = tf.function(called)
    traced = called if _verify._is_concrete(called) else called.get_concrete_function(*args)
    variables = list(_verify._variables(traced, args).values())
    in_force = _switch.current()
    token = f"calibration {next(_numbers)}"
    plain = None if in_force is None else _tf_entry.Entry(_tf_entry.as_entry(in_force))
    chain = {**(in_force or {}), "time_ops": token, "profile": "none"}
    chained = _tf_entry.Entry(_tf_entry.as_entry(chain))

    def call() -> None:
        tf.nest.map_structure(_wait, called(*args))

    def run(entry: _tf_entry.Entry | None) -> float:
        with _tf_context.override(entry):
            begin = time.perf_counter()
            call()
            return (time.perf_counter() - begin) * 1e6

    with _lock:
        link = _swap.measure_anew(in_force or {})
        start = [np.array(variable.numpy()) for variable in variables]
        try:
            _tf_context.forget_optimized_functions()
            for _ in range(_WARM_UPS):
                run(plain)
                run(chained)
            told = _Told(_native.take_timed(token))
            steps, runs = [], []
            for _ in range(repeats):
                steps.append(run(plain))
                runs.append(_tf_profiler.traced(lambda: run(chained)))
        finally:
            _native.take_timed(token)
            for variable, value in zip(variables, start):
                variable.assign(value)
            _tf_context.forget_optimized_functions()
    return dataclasses.replace(_kept(told, steps, runs, target), link=link)


def _wait(value: Any) -> None:
    if isinstance(value, tf.Tensor) and value.dtype not in (tf.variant, tf.resource):
        value.numpy()


class _Told:
    """What the optimizer told of the functions that it chained."""

    def __init__(self, functions: list[dict[str, Any]]):
        problems = [f"{one['function']}: {one['problem']}" for one in functions if one["problem"]]
        self.functions = [one for one in functions if not one["problem"]]
        if not self.functions:
            raise RuntimeError(
                "lms.calibrate: "
                + (
                    "; ".join(problems)
                    or "TensorFlow's graph optimizer was not asked about the function: it may be "
                    "compiled by XLA (jit_compile=True), run eagerly "
                    "(tf.config.run_functions_eagerly), or be too small"
                )
            )
        self.place = max(self.functions, key=lambda one: len(one["ops"]))
        if not self.place["device"].startswith("CPU"):
            raise RuntimeError(
                "lms.calibrate times operations on CPUs; this function runs on "
                + self.place["device"]
            )
        self.key: dict[str, str] = {}  # of a node's name
        self.estimate: dict[str, float] = {}  # of a key
        self.always: set[str] = set()  # keys of operations that run in every step
        unclear = set()
        for one in self.functions:
            for name, key, estimate, always in one["ops"]:
                if self.key.setdefault(name, key) != key:
                    unclear.add(name)
                self.estimate[key] = estimate
                if always:
                    self.always.add(key)
        for name in unclear:
            del self.key[name]


def _kept(
    told: _Told,
    steps: list[float],
    runs: list[tuple[float, list[tuple[str, float]]]],
    path: str | None,
) -> Calibration:
    quiet = sorted(runs, key=lambda run: run[0])[: (len(runs) + 1) // 2]
    samples: dict[str, list[float]] = defaultdict(list)
    timed = set()
    covered = []
    for step_us, events in quiet:
        total = 0.0
        for name, took_us in events:
            key = told.key.get(name)
            if key is not None:
                samples[key].append(took_us)
                timed.add(name)
                total += took_us
        covered.append(total / step_us)
    if not samples:
        raise RuntimeError("lms.calibrate: TensorFlow's profiler saw none of the operations")
    entries = {
        key: (statistics.median(values), told.estimate[key], len(values))
        for key, values in samples.items()
    }
    # No kernel ran: constants, views, and what oneDNN joins with another operation, whose time
    # is the survivor's.
    for key in told.always - set(entries):
        entries[key] = (0.0, told.estimate[key], len(quiet))
    place = told.place
    path = path or place["path"]
    if not path:
        raise OSError("no place for the profile: set LMS_PROFILE_DIR, or give a path")
    problem, replaced = _native.add_to_profile(
        path, place["device"], place["tensorflow"], place["lms"], place["onednn"], entries
    )
    if problem:
        raise OSError(f"lms.calibrate: {problem}")
    times: dict[str, float] = defaultdict(float)
    estimates: dict[str, float] = defaultdict(float)
    for name in timed:
        key = told.key[name]
        kind = key.partition("(")[0]
        times[kind] += entries[key][0]
        estimates[kind] += entries[key][1]
    return Calibration(
        path=path,
        device=place["device"],
        operations=len(timed),
        keys=len(samples),
        step_us=statistics.median(sorted(steps)[: len(quiet)]),
        chained_us=statistics.median(step_us for step_us, _ in quiet),
        covered=statistics.median(covered),
        times_us=dict(times),
        estimates_us=dict(estimates),
        replaced=replaced,
    )
