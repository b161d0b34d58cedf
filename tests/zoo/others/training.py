"""What a program of this zoo is: a training, from the making of its model to its last step."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterable, Iterator
from typing import Any, Callable

import lms
import numpy as np
import tensorflow as tf

from zoo.values import digest


class Watch:
    """Measures the steps of one training, and keeps what they computed as digests.

    peaks: bytes above those in use before, of each step, which begins when its input pipeline has
      filled its buffers. A step that raises is not measured.
    reports: how many lms had made when each of them ended.
    """

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.peaks: list[int] = []
        self.seconds: list[float] = []
        self.reports: list[int] = []

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Encloses one step of a loop of one's own."""
        _settle()
        lms.memory.reset_peak()
        before, began = lms.memory.bytes_in_use(), time.perf_counter()
        yield
        self.seconds.append(time.perf_counter() - began)
        self.peaks.append(lms.memory.peak_bytes() - before)
        self.reports.append(len(lms.reports()))

    def loss(self, *losses: Any) -> None:
        """Called with all that a step returned, or with what should be compared of it."""
        for place, loss in enumerate(tf.nest.flatten(losses)):
            value = loss.numpy() if hasattr(loss, "numpy") else np.asarray(loss)
            self.values[f"value {place} after step {len(self.peaks)}"] = digest(value)

    def callback(self, keras: Any) -> Any:
        """A callback for `fit` of Keras 3 or tf_keras, which is given as `keras`."""
        watch = self

        class Steps(keras.callbacks.Callback):  # type: ignore[misc]
            def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
                self.open = watch.step()
                self.open.__enter__()

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                self.open.__exit__(None, None, None)
                watch.loss({name: np.asarray(value) for name, value in (logs or {}).items()})

        return Steps()


def _settle(quiet_s: float = 0.01, most_s: float = 0.5) -> None:
    """Waits until nobody has allocated anything for a while."""
    began = changed = time.perf_counter()
    in_use = lms.memory.bytes_in_use()
    while (now := time.perf_counter()) - changed < quiet_s and now - began < most_s:
        time.sleep(quiet_s / 5)
        if lms.memory.bytes_in_use() != in_use:
            in_use, changed = lms.memory.bytes_in_use(), time.perf_counter()


@dataclasses.dataclass(frozen=True)
class Training:
    """`run` trains, and tells the watch of each step; `of` are the things that have variables.

    A program that sets no seed has other weights each time that it is made: those of the first
    time are put into the others, as far as they are there before the first step.
    """

    run: Callable[[Watch], Any]
    of: tuple[Any, ...]

    def variables(self) -> list[Any]:
        """Each once: models and optimizers may share some."""
        found: dict[int, Any] = {}
        for thing in self.of:
            for variable in _variables(thing):
                found.setdefault(id(variable), variable)
        return list(found.values())


def _variables(thing: Any) -> Iterable[Any]:
    if isinstance(thing, tf.Variable):
        return [thing]
    try:
        variables = thing.variables
    except ValueError:  # a model that has none before its first call
        return []
    return variables() if callable(variables) else variables


def fitted(keras: Any, model: Any, *data: Any, of: tuple[Any, ...] = (), **arguments: Any) -> Any:
    """`fit` of a compiled model of Keras 3 or tf_keras; `callbacks` and the like as ever."""

    def run(watch: Watch) -> None:
        callbacks = [*arguments.pop("callbacks", ()), watch.callback(keras)]
        model.fit(*data, callbacks=callbacks, verbose=0, **arguments)

    return Training(run, (model, model.optimizer, *of))


def stepped(step: Callable[..., Any], batches: Iterable[Any], *of: Any) -> Training:
    """A loop of one's own: step(*batch) for each batch; what it returns is compared."""

    def run(watch: Watch) -> None:
        for batch in batches:
            with watch.step():
                result = step(*batch)
            watch.loss(result)

    return Training(run, of)


def dataset(*arrays: Any, batch: int, drop: bool = False) -> tf.data.Dataset:
    """Of tuples; the last batch may be smaller."""
    return tf.data.Dataset.from_tensor_slices(arrays).batch(batch, drop_remainder=drop)
