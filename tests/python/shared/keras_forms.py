"""Forms of programs: each one trained by stock TensorFlow, then by lms, and compared.

A test module names its forms in FORMS: functions without arguments that build, train and return
arrays. Seeds are set before each run. All forms of a module run in one child process, with one
thread of each kind: there the order of execution, and so each last bit, is the same every time.
"""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import keras
import lms
import numpy as np
import pytest
import quick
import tensorflow as tf
from forked import run_forked
from helpers import kernels_need_more
from places import ROOMS
from tensorflow.python.eager import context

BATCH, WIDTH = 512, 64
INPUT = 8  # numbers a row: what a dataset prefetches counts for little beside a step
STEPS = 3
MARK = "outcome: "
_rises: dict[bytes, list[int]] = {}


def data(*shape: int, rows: int = STEPS * BATCH, outputs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """`rows` inputs of this shape, and as many targets of `outputs` numbers."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(rows, *(shape or (INPUT,)))).astype("float32")
    y = rng.normal(size=(rows, outputs)).astype("float32")
    return x, y


def dense(depth: int = 6, width: int = WIDTH, outputs: int = 1, **options: Any) -> keras.Model:
    """A chain whose activations, 128 KiB each, dominate: `depth` of them at least wait."""
    layers = [keras.layers.Dense(width, "tanh", **options) for _ in range(depth)]
    return keras.Sequential(
        [keras.Input((INPUT,), batch_size=BATCH), *layers, keras.layers.Dense(outputs)]
    )


def state(model: keras.Model) -> list[np.ndarray]:
    """All variables: weights, statistics, seeds, metrics and the optimizer's."""
    variables = list(model.variables)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        variables += optimizer.variables
    variables += [v for metric in getattr(model, "metrics", ()) for v in metric.variables]
    return [np.array(keras.ops.convert_to_numpy(variable)) for variable in variables]


def fit(
    model: keras.Model, x: Any, y: Any = None, built: bool = True, **options: Any
) -> list[np.ndarray]:
    """Trains, and returns all that Keras tells of it, and the state.

    built: the optimizer's variables are there before. Else the first trace of the step makes them,
    and it is traced once more without: what runs is the same, and takes twice as long to make.
    """
    if built and model.built and isinstance(model.optimizer, keras.optimizers.Optimizer):
        model.optimizer.build(model.trainable_variables)
    given: dict[str, Any] = {"verbose": 0, "shuffle": False}
    if isinstance(x, (np.ndarray, list, dict)):
        given["batch_size"] = BATCH
    history = model.fit(x, y, **{**given, **options}).history
    return [np.array(history[key]) for key in sorted(history)] + state(model)


def loop(step: Callable, *args: Any, steps: int = STEPS) -> list[np.ndarray]:
    """What `steps` calls of a step return."""
    return [np.array(t) for _ in range(steps) for t in tf.nest.flatten(step(*args))]


def watch_calls() -> None:
    """Notes of every eager call of a function how far the bytes in use rose in it."""
    original = context.Context.call_function

    @functools.wraps(original)
    def call_function(self: Any, name: bytes, inputs: Any, outputs: int) -> Any:
        before = lms.memory.bytes_in_use()
        lms.memory.reset_peak()
        result = original(self, name, inputs, outputs)
        _rises.setdefault(name, []).append(lms.memory.peak_bytes() - before)
        return result

    context.Context.call_function = call_function


def start_anew() -> None:
    """Keras with no name taken, and a seed."""
    # Of early versions of Keras 3 collecting garbage cannot be asked for, or not.
    told = inspect.signature(keras.utils.clear_session).parameters
    keras.utils.clear_session(**{name: False for name in told if name == "free_memory"})
    keras.utils.set_random_seed(4)


def _measured(form: Callable[[], Iterable]) -> tuple[list[np.ndarray], int]:
    """What the form returns, and the highest peak of its functions.

    That of a function is its lowest after the first call: in some the pipeline makes a batch, which
    counts there. In one thread nothing else differs between them.
    """
    _rises.clear()
    start_anew()
    values = [np.asarray(value) for value in form()]
    return values, max((min(rises[1:]) for rises in _rises.values() if len(rises) > 1), default=0)


def _equal(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return [(x.dtype, x.shape, x.tobytes()) for x in a] == [
        (x.dtype, x.shape, x.tobytes()) for x in b
    ]


def outcome(form: Callable[[], Iterable], budget: str) -> dict[str, Any]:
    """What a form came to. Only where bits differ is stock asked whether it repeats itself."""
    stock, stock_peak = _measured(form)
    lms.clear_reports()
    with lms.enabled(budget):
        ours, peak = _measured(form)
    reports = lms.reports()
    steps = [r for r in reports if r.status != "skipped"] or reports
    found: dict[str, Any] = {"same": _equal(stock, ours), "stock_peak": stock_peak, "peak": peak}
    found["finite"] = all(np.isfinite(v).all() for v in stock if v.dtype.kind == "f")
    found["last"] = float(stock[-1].ravel()[0])
    found["failed"] = [str(r) for r in reports if r.status == "failed"]
    found["all"] = [(r.function, r.status, r.reason) for r in reports]
    if not found["same"]:
        found["differ"] = [
            n for n, (a, b) in enumerate(zip(stock, ours)) if a.tobytes() != b.tobytes()
        ]
        found["repeats"] = all(_equal(stock, _measured(form)[0]) for _ in range(3))
    if steps:
        report = max(steps, key=lambda r: r.peak_before_bytes - r.resident_bytes)
        found.update(status=report.status, reason=report.reason, warnings=report.warnings)
        found["budget"] = report.budget_bytes - report.resident_bytes
        found["predicted"] = report.peak_after_bytes - report.resident_bytes
        found["kinds"] = sorted({decision["kind"] for decision in report.decisions})
    return found


def main(module: str, names: list[str], budgets: dict[str, str]) -> None:
    """In the child process."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lms.memory.reset_peak()
    watch_calls()
    forms = importlib.import_module(module).FORMS
    gc.freeze()
    gc.disable()  # what it frees in the middle of a call would be taken off the call's peak
    for name in names:
        try:
            found = outcome(forms[name], budgets.get(name, "60%"))
        except Exception:
            found = {"error": traceback.format_exc()}
        print(MARK + json.dumps({"name": name, **found}), flush=True)


def run_forms(module: str, names: list[str], budgets: dict[str, str]) -> dict[str, dict]:
    code = f"import keras_forms; keras_forms.main({module!r}, {names!r}, {budgets!r})"
    status, output = run_forked(code)
    lines = [line[len(MARK) :] for line in output.splitlines() if line.startswith(MARK)]
    found = {line.pop("name"): line for line in map(json.loads, lines)}
    assert status == 0, output
    return found


def results(module: str) -> Any:
    """The fixture: what has come of the forms that the tests to be run ask for."""

    @pytest.fixture(scope="module", name="results")
    def run(request: pytest.FixtureRequest) -> dict[str, dict]:
        own = importlib.import_module(module)
        names = quick.names_asked_for(request, own.FORMS)
        return run_forms(module, names, getattr(own, "BUDGETS", {}))

    return run


def assert_same(found: dict[str, Any]) -> None:
    """Trained as stock does, to the bit, and nothing failed inside lms."""
    assert "error" not in found, found["error"]
    assert found["same"] and not found["failed"], found


def assert_rewritten(found: dict[str, Any], within: float | None = 1.05) -> None:
    """... and rewritten; what the steps take is less than stock's, and within the budget.

    within: how far the peak may be above the budget's activations; None: not asked.
    """
    assert_same(found)
    assert found["finite"], found
    if kernels_need_more(found["status"], found["predicted"], found["stock_peak"]):
        return
    assert found["status"] == "rewritten", found
    assert found["peak"] < found["stock_peak"], found
    assert within is None or found["peak"] <= within * found["budget"], found


if __name__ == "__main__":  # python keras_forms.py MODULE [FORM …]: all that is known of each
    sys.path += ROOMS
    given = importlib.import_module(sys.argv[1])
    for form, line in run_forms(
        sys.argv[1], sys.argv[2:] or list(given.FORMS), getattr(given, "BUDGETS", {})
    ).items():
        print(form, json.dumps(line, indent=1))
