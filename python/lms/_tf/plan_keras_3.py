"""What lms.plan needs of Keras 3: models built unallocated, and what fit() builds of them.

Relies on this:

- In a tf.Graph that builds no function, Keras' variables are nodes of that graph.
- The Variable of Keras' TensorFlow backend has its first value from
  `_initialize_with_initializer(initializer)` (where it does not, models are built slower), and
  `_initialize(value)` takes a tf.Variable as it is, such as `UninitializedVariable` is one.
- `Trainer._symbolic_build(data_batch=...)` builds what fit() builds before its first step, and
  `Trainer._compile_config.config` has what compile() was given.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from lms._tf.keras_data import KERAS_2
from lms._tf.patch import Patch
from lms._tf.private import private_module

_resources = private_module("tensorflow.python.ops.resource_variable_ops")

_keras: Any = None
_backend: Any = None
# Where its backend is not installed (KERAS_BACKEND), or it is not installed itself, there are no
# models of it, and TensorFlow goes on without it as well.
with contextlib.suppress(ImportError, AttributeError):
    _keras = importlib.import_module("keras")
    _backend = importlib.import_module("keras.src.backend")

PREFIX = "keras."


class MadeByKeras2(BaseException):
    """A Keras 2 model is being made in the graph of `unallocated()`, where it would be another."""


class _Local(threading.local):
    open = 0


_local = _Local()


def model_class() -> Any:
    """The class that all its models are of; None where it cannot be imported."""
    return None if _keras is None else _keras.Model


def _wrap_initialize(original: Any) -> Any:
    @functools.wraps(original)
    def initialize(self: Any, initializer: Any) -> None:
        if _local.open and not tf.distribute.has_strategy():
            # Nobody runs it: nodes for a first value would only take time to make.
            self._initialize(_variable_without_value(self))
            return
        original(self, initializer)

    return initialize


def _variable_without_value(variable: Any) -> Any:
    """What holds the value of a Keras variable, with none yet."""
    return _resources.UninitializedVariable(
        shape=variable._shape,
        dtype=tf.as_dtype(variable._dtype),
        trainable=variable.trainable,
        name=variable.name,
    )


def _wrap_should_use_v2(original: Any) -> Any:
    @functools.wraps(original)
    def should_use_v2() -> Any:
        chosen = original()
        if _local.open and not chosen:
            raise MadeByKeras2
        return chosen

    return should_use_v2


def _patches() -> list[Patch]:
    if _backend is None:
        return []
    name = "_initialize_with_initializer"
    # keras.Variable derives from the backend's class, which is the one that has it.
    owners = [kind for kind in _backend.Variable.__mro__ if name in kind.__dict__]
    return [Patch(owners[0], name, _wrap_initialize)] if owners else []


_initializing = _patches()
_choosing: dict[str, Patch] = {}


def _keras_2_patches() -> list[Patch]:
    """A Keras 2 that is imported chooses by the graph which classes its models are of."""
    name = KERAS_2.package.replace(".engine", ".utils.version_utils")
    if name in sys.modules and name not in _choosing:
        _choosing[name] = Patch(sys.modules[name], "should_use_v2", _wrap_should_use_v2)
    return list(_choosing.values())


@contextlib.contextmanager
def unallocated() -> Iterator[None]:
    """Variables that are made here take no memory; random states are left as they were."""
    states = random.getstate(), np.random.get_state()
    with contextlib.ExitStack() as stack:
        for patch in (*_initializing, *_keras_2_patches()):
            stack.enter_context(patch.used())
        _local.open += 1
        try:
            with tf.Graph().as_default():
                yield
        finally:
            _local.open -= 1
            random.setstate(states[0])
            np.random.set_state(states[1])


def compiled(model: Any) -> bool:
    return bool(model.compiled)


def clone(model: Any) -> Any:
    with _as_uncompiled(model):
        return _keras.models.clone_model(model)


@contextlib.contextmanager
def _as_uncompiled(model: Any) -> Iterator[None]:
    """Lest what copies a model copies its optimizer as well, for which values are read."""
    was = model.compiled
    object.__setattr__(model, "compiled", False)
    try:
        yield
    finally:
        object.__setattr__(model, "compiled", was)


def inputs(model: Any) -> Any:
    found = getattr(model, "_inputs_struct", None)
    return model.inputs if found is None else found


def outputs(model: Any) -> Any:
    found = getattr(model, "_outputs_struct", None)
    if found is None:
        found = model.outputs
    return found[0] if isinstance(found, list) and len(found) == 1 else found


def build(model: Any, batch: tuple[Any, ...], plain: bool) -> None:
    """Builds what fit() builds before its first step, for a batch of tf.TensorSpec.

    plain: what the model returns is known beforehand.
    """
    batch = tf.nest.map_structure(_symbolic, batch)
    if plain and len(batch) == 2:
        # No need to go through all of it once more.
        x, y = batch
        size = tf.nest.flatten(x)[0].shape[0]

        def sized(tensor: Any) -> Any:
            return _keras.KerasTensor((size, *tensor.shape[1:]), tensor.dtype)

        results = tf.nest.map_structure(sized, outputs(model))
        infer = _backend.compute_output_spec
        if model._compile_metrics is not None and not model._compile_metrics.built:
            infer(model.compute_metrics, x, y, results, sample_weight=None)
        if model._compile_loss is not None and not model._compile_loss.built:
            # Keras before 3.4 does not tell the method whether it trains.
            told = {"training": False} if hasattr(model, "_compute_loss") else {}
            compute_loss = getattr(model, "_compute_loss", model.compute_loss)
            infer(compute_loss, x, y, results, sample_weight=None, **told)
    symbolic_build = model._symbolic_build
    if "data_batch" in inspect.signature(symbolic_build).parameters:
        symbolic_build(data_batch=batch)
    else:
        symbolic_build(batch)


def _symbolic(spec: Any) -> Any:
    return _keras.KerasTensor(tuple(spec.shape), tf.as_dtype(spec.dtype).name)
