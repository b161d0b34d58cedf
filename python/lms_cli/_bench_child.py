"""One training of `lms bench`, stock or with lms, in a process of its own.

Writes a JSON object a line to the file descriptor in its first argument; the second is what to do,
as JSON. "event" is "step" of each step, and "done", "usage" (the target is wrong), "not_loaded" or
"failed" of the end.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lms_cli import _targets
from lms_cli._facts import grouped, load_lms
from lms_cli._plan import options_of
from lms_cli._status import NotLoadedError, UsageError

_BATCH = 32
_SEED = 1
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # that Keras puts into its errors


def main(descriptor: int, told: dict[str, Any]) -> int:
    def write(event: str, **values: Any) -> None:
        os.write(descriptor, (json.dumps({"event": event, **values}) + "\n").encode())

    try:
        _train(argparse.Namespace(**told), write)
    except UsageError as error:
        write("usage", usage=str(error))
        return 2
    except NotLoadedError as error:
        write("not_loaded", not_loaded=str(error))
        return 3
    except Exception as error:
        text = " ".join(_COLOURS.sub("", str(error)).split())
        write("failed", error=f"{type(error).__name__}: {text[:500]}")
        raise
    return 0


def _train(args: argparse.Namespace, write: Callable[..., None]) -> None:
    lms = load_lms()
    import keras
    import numpy as np
    import tensorflow as tf

    if args.threads:
        tf.config.threading.set_intra_op_parallelism_threads(args.threads)
        tf.config.threading.set_inter_op_parallelism_threads(args.threads)
    options = options_of(args)
    lms.memory.reset_peak()  # counting starts before there are weights
    if args.lms:
        try:
            lms.enable(memory_budget=args.budget, **grouped(options))
        except (lms.OptionError, TypeError) as error:
            raise UsageError(str(error)) from error
    keras.utils.set_random_seed(_SEED)
    target = _targets.resolve(args, graphs=False)
    try:
        made = target.thing() if target.makes else target.thing
    except TypeError as error:
        raise UsageError(f"{target.name}(...): {error}") from error
    tensors = list(target.tensors)
    if isinstance(made, tuple) and made and callable(made[0]) and not tensors:
        made, tensors = made[0], list(made[1] if len(made) == 2 else made[1:])
    if args.batch is not None and not _targets.is_compiled_model(made):
        raise UsageError("--batch is for models; a function's tensors are given with --arg")
    measure, count = _Measure(lms, args, write), args.warm_up + args.steps
    batch = None
    if _targets.is_compiled_model(made):
        batch = args.batch or _BATCH
        _fit(made, batch, count, measure)
        variables = [*made.variables, *made.optimizer.variables]
    elif callable(made) and hasattr(made, "get_concrete_function"):
        values = [_filled(item) for item in tensors]
        _call(made, values, count, measure)
        variables = list(made.get_concrete_function(*values).variables)
    else:
        raise UsageError(
            f"{target.name} gives a {type(made).__name__}; wanted is a compiled Keras model, a "
            "tf.function, or a pair of a tf.function and its arguments"
        )
    digests = {}
    for number, variable in enumerate(variables):
        name = f"{number} {getattr(variable, 'path', variable.name)}"
        digests[name] = hashlib.sha256(np.asarray(variable.numpy()).tobytes()).hexdigest()
    reports = [item for item in lms.reports() if item.status != "skipped"] or lms.reports()
    report = max(reports, key=lambda item: (item.peak_before_bytes, item.sequence), default=None)
    gpus = tf.config.list_physical_devices("GPU")
    write(
        "done",
        batch=batch,
        variables=digests,
        # Without what is there for pages and pictures.
        report=None if report is None else {**json.loads(report.to_json()), "details": None},
        device=gpus[0].name if gpus else "CPU",
        versions={"lms": lms.__version__, "tensorflow": tf.__version__, "keras": keras.__version__},
    )


class _Measure:
    """Encloses steps: `begin`, the step, `end` with what tells its losses to the last bit."""

    def __init__(self, lms: Any, args: argparse.Namespace, write: Callable[..., None]):
        self._memory = lms.memory
        self._write = write
        self._warm_up = args.warm_up
        self._number = 0
        self._before = 0
        self._wall = self._cpu = 0.0

    def begin(self) -> None:
        self._before = self._memory.bytes_in_use()
        self._memory.reset_peak()
        self._wall, self._cpu = time.perf_counter(), _cpu_seconds()

    def end(self, loss: str) -> None:
        wall, cpu = time.perf_counter() - self._wall, _cpu_seconds() - self._cpu
        self._write(
            "step",
            measured=self._number >= self._warm_up,
            seconds=wall,
            cpu_seconds=cpu,
            before_bytes=self._before,
            peak_bytes=self._memory.peak_bytes(),
            loss=loss,
        )
        self._number += 1


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _call(function: Any, values: list[Any], count: int, measure: _Measure) -> None:
    import tensorflow as tf

    for _ in range(count):
        measure.begin()
        result = function(*values)
        parts = [part for part in tf.nest.flatten(result) if isinstance(part, tf.Tensor)]
        digests = [hashlib.sha256(part.numpy().tobytes()).hexdigest()[:16] for part in parts]
        measure.end(" ".join(digests))


def _fit(model: Any, batch: int, count: int, measure: _Measure) -> None:
    """Keras' own fit, on one batch again and again."""
    import keras
    import tensorflow as tf

    class Steps(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            measure.begin()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            values = {name: float(value).hex() for name, value in _flat_logs(logs or {})}
            measure.end(" ".join(f"{name}={value}" for name, value in sorted(values.items())))

    data = tf.nest.map_structure(tf.constant, (_inputs(model, batch), _labels(model, batch)))
    batches = tf.data.Dataset.from_tensors(data).repeat()
    model.fit(batches, steps_per_epoch=count, verbose=0, callbacks=[Steps()])


def _flat_logs(logs: Any) -> Iterator[tuple[str, Any]]:
    for name, value in logs.items():
        if isinstance(value, dict):
            for inner, item in value.items():
                yield f"{name}.{inner}", item
        else:
            yield name, value


def _inputs(model: Any, batch: int) -> Any:
    """Random data for the model's inputs: one array, or a tuple of several."""
    if not getattr(model, "inputs", None):
        raise UsageError(
            "the model does not say what its inputs are (it is not built of keras.Input): give "
            "a callable that returns (tf.function, its arguments)"
        )
    return _one_or_several(_random(item.shape, item.dtype, batch) for item in model.inputs)


def _one_or_several(arrays: Iterable[Any]) -> Any:
    # A list would be one tensor to tf.data.
    several = tuple(arrays)
    return several[0] if len(several) == 1 else several


def _random(shape: Any, dtype: Any, batch: int, below: int = 2) -> Any:
    import numpy as np
    import tensorflow as tf

    kind = tf.as_dtype(dtype)
    sizes = [batch, *shape[1:]] if len(shape) else []
    if any(size is None for size in sizes):
        raise UsageError(f"an input of shape {tuple(shape)} leaves sizes open: give the model some")
    rng = np.random.default_rng(_SEED)
    if kind.is_integer or kind.is_bool:
        return rng.integers(0, below, size=sizes).astype(kind.as_numpy_dtype)
    return rng.standard_normal(sizes, dtype="float32").astype(kind.as_numpy_dtype)


def _labels(model: Any, batch: int) -> Any:
    """What the loss wants: class numbers where it is a sparse one, else numbers like the output."""
    text = str(getattr(model.loss, "name", model.loss)).lower()
    sparse = "sparse" in text

    def of(output: Any) -> Any:
        shape = output.shape
        if sparse:
            return _random(shape[:-1], "int32", batch, below=max(2, shape[-1] or 2))
        values = _random(shape, "float32", batch)
        if "entropy" in text:  # shares of the classes
            values = abs(values)
            values = values / values.sum(axis=-1, keepdims=True) if shape[-1] != 1 else values % 1
        return values

    return _one_or_several(map(of, model.outputs))


def _filled(item: Any) -> Any:
    """A tensor of --arg with random numbers; all else as it is."""
    import tensorflow as tf

    if not isinstance(item, _targets.Tensor):
        return item
    if any(size is None for size in item.shape):
        raise UsageError("--arg: a function that is run wants all sizes")
    try:
        rows = item.shape[0] if item.shape else None
        values = 1 if rows is None else _random(item.shape, item.dtype, rows)
        return tf.constant(values, tf.as_dtype(item.dtype))
    except TypeError as error:
        raise UsageError(f"--arg: TensorFlow has no type {item.dtype!r}") from error


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), json.loads(sys.argv[2])))
