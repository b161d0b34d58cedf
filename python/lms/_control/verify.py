"""lms.verify: does a function compute the same with lms as without?"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from lms import _native
from lms._base.format import counted, render
from lms._control import latest as _latest
from lms._control import switch as _switch
from lms._reports.report import Report
from lms._settings import options as _options
from lms._tf import context as _tf_context
from lms._tf import entry as _tf_entry


@dataclasses.dataclass(frozen=True)
class Difference:
    """One output or variable that is not the same with lms.

    elements of total differ; max_abs and max_rel are over those. stock_repeats is False
    where two runs without lms differ in it, too: then it says nothing about lms.
    """

    name: str
    dtype: str
    elements: int
    total: int
    max_abs: float
    max_rel: float
    stock_repeats: bool

    def __str__(self) -> str:
        return (
            f"{self.name} ({self.dtype}): {self.elements} of {self.total} elements differ, by "
            f"{self.max_abs:.3g} at most ({self.max_rel:.3g} relative)"
            + ("" if self.stock_repeats else "; it differs between two runs without lms, too")
        )


@dataclasses.dataclass(frozen=True)
class VerifyResult:
    """The outcome of lms.verify(); true where everything compared was equal.

    ok: every output and variable was equal with and without lms.
    repeatable: two runs without lms were equal; where they were not, `unrepeatable` names
      what differed, and nothing can be concluded about that.
    compared: how many outputs and variables were compared.
    report: what lms did to the function; None where it never saw it.
    notes: what limits the comparison.
    """

    ok: bool
    repeatable: bool
    compared: int
    differences: tuple[Difference, ...]
    unrepeatable: tuple[str, ...]
    report: Report | None
    notes: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [self._headline(), *(f"  {difference}" for difference in self.differences)]
        return "\n".join([*lines, *self._remarks()])

    def table(self) -> str:
        """The same as a text table, for a terminal."""
        from rich import box, table

        rows = table.Table(box=box.SIMPLE)
        for name in ("differs", "dtype", "elements", "max abs", "max rel", "repeats without lms"):
            rows.add_column(name, overflow="fold")
        for item in self.differences:
            rows.add_row(
                item.name,
                item.dtype,
                f"{item.elements} of {item.total}",
                f"{item.max_abs:.3g}",
                f"{item.max_rel:.3g}",
                "yes" if item.stock_repeats else "no",
            )
        middle = render([rows]).splitlines() if self.differences else []
        return "\n".join([self._headline(), *middle, *self._remarks()]) + "\n"

    def _headline(self) -> str:
        status = f"lms: {self.report.status}" if self.report else "lms has not seen the function"
        if self.ok:
            return f"equal: {self.compared} outputs and variables ({status})"
        return (
            f"DIFFERENT: {len(self.differences)} of {self.compared} outputs and variables "
            f"({status})"
        )

    def _remarks(self) -> list[str]:
        remarks = list(self.notes)
        if not self.repeatable:
            remarks.append(
                "not repeatable by itself: two runs without lms differ in "
                + ", ".join(self.unrepeatable)
                + ". Random operations without a seed do this, and kernels on several threads: "
                "set seeds, and call tf.config.threading.set_intra_op_parallelism_threads(1) or "
                "tf.config.experimental.enable_op_determinism() first."
            )
        return remarks


def verify(
    function: Callable[..., Any],
    *args: Any,
    memory_budget: str | int | Mapping[str, str | int] | None = None,
    rtol: float = 0,
    atol: float = 0,
    **options: Any,
) -> VerifyResult:
    """Runs `function(*args)` with and without lms and compares all that it computes.

    Compared are its outputs and the variables that it uses, bit for bit unless rtol or atol
    is given. Every run starts from the same values of the variables (those of random
    generators included), and they are put back afterwards. A run without lms is made twice:
    where those two differ, the function is not repeatable, and the result says so.

    The calling thread alone runs with other settings meanwhile. Every function is optimised
    anew in each run and after; random operations that have a seed but keep their state in
    the kernel start their sequence again.

    Args:
      function: a tf.function, or a callable that tf.function can trace. A training step
        that updates its variables is fine. A batch, not an iterator, is what it should take.
      *args: its arguments; use functools.partial for keyword arguments.
      memory_budget, **options: as for `enable`. Where none is given: the options in force,
        else memory_budget="min", which rewrites the most.

    Raises RuntimeError where the runs without lms need more memory than there is, or where
    execution is not eager, and TypeError for an iterator as an argument.
    """
    if not tf.compat.v1.executing_eagerly_outside_functions():
        raise RuntimeError(
            "lms.verify needs eager execution, which is off. For a v1 session, make two from the "
            "same checkpoint, one after lms.enable() and one after lms.disable(), and compare what "
            "they return"
        )
    if not tf.executing_eagerly():
        raise RuntimeError("lms.verify needs eager execution: call it outside of tf.function")
    chosen = _choose_options(memory_budget, options)
    for arg in tf.nest.flatten(args):
        if isinstance(arg, tf.data.Iterator):
            raise TypeError(
                "lms.verify cannot rewind an iterator, so each run would see another batch: "
                "pass a function that takes the batch, and the batch"
            )
    called: Any = function
    if not hasattr(called, "get_concrete_function") and not _is_concrete(called):
        called = tf.function(called)
    # Tracing also creates the variables that the first call would create.
    traced = called if _is_concrete(called) else called.get_concrete_function(*args)
    variables = _variables(traced, args)
    start = [np.array(variable.numpy()) for variable in variables.values()]
    entry = _tf_entry.Entry(_tf_entry.as_entry(chosen))

    def run(using: _tf_entry.Entry | None) -> dict[str, np.ndarray]:
        for variable, value in zip(variables.values(), start):
            variable.assign(value)
        # With the kernels gone, operations with a seed start from it in each run.
        _tf_context.forget_optimized_functions()
        with _tf_context.override(using):
            result = dict(_named(called(*args), "output"))
        result.update((name, np.array(variable.numpy())) for name, variable in variables.items())
        return result

    try:
        try:
            stock, again = run(None), run(None)
        except tf.errors.ResourceExhaustedError as error:
            raise RuntimeError(
                "lms.verify runs the function without lms, too, and that ran out of memory: there "
                "is nothing to compare with. Compare on a smaller batch, or where there is more "
                "memory"
            ) from error
        seen = _native.report_count()
        ours = run(entry)
    finally:
        for variable, value in zip(variables.values(), start):
            variable.assign(value)
        _tf_context.forget_optimized_functions()

    differ = functools.partial(_difference, rtol=rtol, atol=atol)
    unrepeatable = {name for name in stock if differ(name, stock[name], again[name], True)}
    found = (differ(name, stock[name], ours[name], name not in unrepeatable) for name in stock)
    differences = tuple(item for item in found if item is not None)
    report = _new_report(seen, traced)
    return VerifyResult(
        ok=not differences,
        repeatable=not unrepeatable,
        compared=len(stock),
        differences=differences,
        unrepeatable=tuple(sorted(unrepeatable)),
        report=report,
        notes=tuple(_notes(traced, variables, report)),
    )


def _is_concrete(function: Any) -> bool:
    return isinstance(function, tf.types.experimental.ConcreteFunction)


def _choose_options(budget: Any, options: dict[str, Any]) -> dict[str, _options.OptionValue]:
    in_force = _switch.current()
    if budget is None and not options and in_force is not None:
        return in_force
    if budget is None:
        budget = "min"
    return _options.gather({"memory_budget": budget}, options)


def _variables(traced: Any, args: Any) -> dict[str, tf.Variable]:
    found = list(traced.variables)
    found += [arg for arg in tf.nest.flatten(args) if isinstance(arg, tf.Variable)]
    unique = {id(variable): variable for variable in found}
    named: dict[str, tf.Variable] = {}
    for variable in unique.values():
        name = f"variable {getattr(variable, 'path', variable.name)}"
        while name in named:
            name += "'"
        named[name] = variable
    return named


def _named(value: Any, name: str) -> Iterator[tuple[str, np.ndarray]]:
    """Every tensor in a structure of outputs, with a name that leads to it."""
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from _named(value[key], f"{name}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _named(item, f"{name}[{index}]")
    elif isinstance(value, (tf.Tensor, tf.Variable)):
        yield name, np.array(value.numpy())
    elif value is not None:
        parts = tf.nest.flatten(value, expand_composites=True)
        for index, part in enumerate(parts):
            if isinstance(part, tf.Tensor) and part.dtype not in (tf.variant, tf.resource):
                yield f"{name}.{index}", np.array(part.numpy())


def _difference(
    name: str, a: np.ndarray, b: np.ndarray, stock_repeats: bool, rtol: float, atol: float
) -> Difference | None:
    make = functools.partial(Difference, name, str(a.dtype), stock_repeats=stock_repeats)
    if a.shape != b.shape or a.dtype != b.dtype:
        total = max(a.size, b.size)
        return make(elements=total, total=total, max_abs=np.inf, max_rel=np.inf)
    a, b = np.ascontiguousarray(a).reshape(-1), np.ascontiguousarray(b).reshape(-1)
    if a.dtype.kind in "OSU":  # texts
        mask = a != b
        amount = np.inf
        count = int(np.count_nonzero(mask))
        return make(count, a.size, amount, amount) if count else None
    width = a.dtype.itemsize
    bits = (array.view(np.uint8).reshape(-1, width) for array in (a, b))
    mask = (next(bits) != next(bits)).any(axis=1)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a[mask].astype(wide), b[mask].astype(wide)
    if rtol or atol:
        far = ~np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=True)
        x, y = x[far], y[far]
    if not x.size:
        return None
    with np.errstate(all="ignore"):
        gap = np.abs(x - y)
        gap[np.isnan(gap)] = np.inf
        relative = gap / np.maximum(np.abs(x), np.abs(y))
    relative[np.isnan(relative)] = np.inf if np.isinf(gap).any() else 0
    return make(int(x.size), int(a.size), float(gap.max()), float(relative.max()))


def _new_report(seen: int, traced: Any) -> Report | None:
    """The report on `traced` among those made since `seen` of them had been."""
    count = _native.report_count() - seen
    new = _latest.reports()[-count:] if count else []
    name = traced.name if isinstance(traced.name, str) else traced.name.decode()
    own = [report for report in new if name == report.function]
    steps = [report for report in own or new if report.status != "skipped"]
    chosen = steps or own or new
    return chosen[-1] if chosen else None


def _notes(traced: Any, variables: dict[str, tf.Variable], report: Report | None) -> Iterator[str]:
    handles = {id(getattr(variable, "handle", None)) for variable in variables.values()}
    others = [
        captured
        for captured in traced.captured_inputs
        if captured.dtype == tf.resource and id(captured) not in handles
    ]
    if others:
        yield (
            f"{counted(len(others), 'resource')} beside the variables (iterators, tables) "
            f"cannot be put back between the runs."
        )
    if report is None:
        yield (
            "lms was not asked about this function: it may be compiled by XLA (jit_compile=True), "
            "too small for TensorFlow's graph optimizers, or run with them switched off."
        )
    elif report.status != "rewritten":
        yield f"lms changed nothing in it ({report.reason or report.status})."
