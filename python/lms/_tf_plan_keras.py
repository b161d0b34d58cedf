"""Training steps of Keras models, traced without a run, and models that are built unallocated.

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
import inspect
import logging
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from keras.src import backend as _keras_backend
from tensorflow.python.ops import resource_variable_ops as _resources

from lms import _tf_graphs
from lms._tf_patch import Patch


def is_model(what: Any) -> bool:
    """Whether it is a Keras model (of the Keras that TensorFlow brings)."""
    return isinstance(what, tf.keras.Model)


_log = logging.getLogger("lms")


class _Local(threading.local):
    open = 0


_local = _Local()
_open_lock = threading.Lock()
_open_everywhere = 0


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


def _patches() -> list[Patch]:
    name = "_initialize_with_initializer"
    # keras.Variable derives from the backend's class, which is the one that has it.
    owners = [kind for kind in _keras_backend.Variable.__mro__ if name in kind.__dict__]
    return [Patch(owners[0], name, _wrap_initialize)] if owners else []


_initializing = _patches()


def _count_open(change: int) -> None:
    """The wrapper is there while any thread needs it, and acts in those alone."""
    global _open_everywhere
    _local.open += change
    with _open_lock:
        _open_everywhere += change
        for patch in _initializing:
            if _open_everywhere > 0:
                patch.put()
            else:
                patch.take_away()


@contextlib.contextmanager
def unallocated() -> Iterator[None]:
    """Variables that are made here take no memory; random states are left as they were."""
    states = random.getstate(), np.random.get_state()
    _count_open(+1)
    try:
        with tf.Graph().as_default():
            yield
    finally:
        _count_open(-1)
        random.setstate(states[0])
        np.random.set_state(states[1])


def step_of(
    model: Any, data: Sequence[Any], optimizer: Any, loss: Any, *, unbuilt_graph: bool
) -> _tf_graphs.Step:
    """What fit() runs in each step of a model.

    Args:
      model: compiled, or `optimizer` and `loss` say how.
      data: one whole number, the batch size (None: open), or specifications of inputs, labels and
        weights of samples, as train_step takes them.
      unbuilt_graph: whether the model was made in `unallocated()`, which is still open.
    Raises:
      ValueError: where it is not compiled, or its inputs' shapes are not known.
    """
    if not model.compiled and optimizer is None and loss is None:
        raise ValueError(
            f"the model {model.name!r} is not compiled, so it has no training step: call "
            "model.compile(optimizer, loss), or give lms.plan(..., optimizer=..., loss=...)"
        )
    if unbuilt_graph:
        return _traced(_compiled(model, optimizer, loss), data)
    if not _is_plain(model):
        # Its own train_step may use anything of it: what fit() would build is built.
        return _traced(_compiled(model, optimizer, loss), data)
    given = dict(model._compile_config.config) if model.compiled else {}
    given_optimizer = optimizer
    optimizer = _copier(model.optimizer if optimizer is None else optimizer)
    metrics, weighted = _copier(given.get("metrics")), _copier(given.get("weighted_metrics"))
    with unallocated():
        try:
            with _as_uncompiled(model):
                twin = tf.keras.models.clone_model(model)
        except Exception as error:  # a layer that does not say how it was made
            _log.info("%s is planned as it is, not as a copy: %s", model.name, error)
            twin = None
        if twin is not None:
            twin.compile(
                optimizer=optimizer(),
                loss=loss if loss is not None else given.get("loss"),
                loss_weights=given.get("loss_weights"),
                metrics=metrics(),
                weighted_metrics=weighted(),
                jit_compile=False,
            )
            return _traced(twin, data)
    return _traced(_compiled(model, given_optimizer, loss), data)


@contextlib.contextmanager
def _as_uncompiled(model: Any) -> Iterator[None]:
    """Lest what copies a model copies its optimizer as well, for which values are read."""
    compiled = model.compiled
    object.__setattr__(model, "compiled", False)
    try:
        yield
    finally:
        object.__setattr__(model, "compiled", compiled)


def _outputs(model: Any) -> Any:
    outputs = getattr(model, "_outputs_struct", None)
    if outputs is None:
        outputs = model.outputs
    return outputs[0] if isinstance(outputs, list) and len(outputs) == 1 else outputs


def _is_plain(model: Any) -> bool:
    """Whether a second model over the same layers trains as this one does."""
    own = type(model)
    if own.train_step is not tf.keras.Model.train_step or not getattr(model, "inputs", None):
        return False
    return own.__module__.startswith("keras.") and own.__name__ in ("Functional", "Sequential")


def _copier(value: Any) -> Callable[[], Any]:
    """Makes an optimizer or metrics like these, without what they have made. What they are is read
    at once: where nothing is allocated, variables have no values."""
    if hasattr(value, "get_config") and hasattr(type(value), "from_config"):
        config, make = value.get_config(), type(value).from_config
        return lambda: make(config)
    if isinstance(value, (list, tuple)):
        items = [_copier(item) for item in value]
        return lambda: [item() for item in items]
    if isinstance(value, dict):
        named = {name: _copier(item) for name, item in value.items()}
        return lambda: {name: item() for name, item in named.items()}
    return lambda: value


def _compiled(model: Any, optimizer: Any, loss: Any) -> Any:
    if optimizer is not None or loss is not None:
        model.compile(optimizer=optimizer or "sgd", loss=loss, jit_compile=False)
    return model


def _traced(model: Any, data: Sequence[Any]) -> _tf_graphs.Step:
    batch = specifications(model, data)
    _build(model, tf.nest.map_structure(_keras_tensor, batch))

    def train(batch: Any) -> Any:
        return model.train_step(batch)

    train.__name__ = f"{model.name}_train_step"
    return _tf_graphs.of_function(tf.function(train, autograph=False).get_concrete_function(batch))


def _build(model: Any, batch: tuple[Any, ...]) -> None:
    """Builds what fit() builds before its first step, for a batch of KerasTensors."""
    if _is_plain(model) and len(batch) == 2:
        # What it returns is known: no need to go through all of it once more.
        x, y = batch
        size = tf.nest.flatten(x)[0].shape[0]

        def sized(tensor: Any) -> Any:
            return tf.keras.KerasTensor((size, *tensor.shape[1:]), tensor.dtype)

        results = tf.nest.map_structure(sized, _outputs(model))
        infer = _keras_backend.compute_output_spec
        if model._compile_metrics is not None and not model._compile_metrics.built:
            infer(model.compute_metrics, x, y, results, sample_weight=None)
        if model._compile_loss is not None and not model._compile_loss.built:
            infer(model._compute_loss, x, y, results, sample_weight=None, training=False)
    build = model._symbolic_build
    if "data_batch" in inspect.signature(build).parameters:
        build(data_batch=batch)
    else:
        build(batch)


def _keras_tensor(spec: Any) -> Any:
    return tf.keras.KerasTensor(tuple(spec.shape), tf.as_dtype(spec.dtype).name)


def specifications(model: Any, data: Sequence[Any]) -> tuple[Any, ...]:
    """Inputs, labels, ... of a batch."""
    if len(data) == 1 and (data[0] is None or isinstance(data[0], (int, np.integer))):
        return _derived(model, None if data[0] is None else int(data[0]))
    if not data:
        raise ValueError(
            f"what does a batch of the model {model.name!r} look like? Give its size, "
            "lms.plan(model, 32), or its inputs and labels as arrays or tf.TensorSpec"
        )
    return tuple(tf.nest.map_structure(_tf_graphs.specification, item) for item in data)


def _derived(model: Any, batch_size: int | None) -> tuple[Any, ...]:
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch size {batch_size}: must be 1 at least")
    if not getattr(model, "inputs", None):
        raise ValueError(
            f"the shapes of what the model {model.name!r} takes are not known before it is called: "
            "give its inputs and labels, lms.plan(model, inputs, labels), as arrays or "
            "tf.TensorSpec"
        )
    inputs = getattr(model, "_inputs_struct", None)
    inputs = model.inputs if inputs is None else inputs

    def sized(tensor: Any) -> Any:
        name = getattr(tensor, "name", None)
        return tf.TensorSpec([batch_size, *tensor.shape[1:]], tensor.dtype, name=name)

    x = tf.nest.map_structure(sized, inputs)
    if isinstance(x, (list, tuple)) and len(x) == 1:
        x = x[0]
    loss = model._compile_config.config.get("loss") if model.compiled else None
    if loss is None:
        return (x,)
    return x, _labels(_outputs(model), loss, batch_size)


def _labels(outputs: Any, loss: Any, batch_size: int | None) -> Any:
    if isinstance(outputs, (list, tuple)):
        losses = loss if isinstance(loss, (list, tuple)) else [loss] * len(outputs)
        return [_labels(item, one, batch_size) for item, one in zip(outputs, losses)]
    if isinstance(outputs, dict):
        return {
            name: _labels(item, loss[name] if isinstance(loss, dict) else loss, batch_size)
            for name, item in outputs.items()
        }
    words = (loss, getattr(loss, "name", ""), getattr(loss, "__name__", ""), type(loss).__name__)
    sparse = any(isinstance(word, str) and "sparse" in word.lower() for word in words)
    if sparse:
        return tf.TensorSpec([batch_size, *outputs.shape[1:-1]], tf.int32, name="labels")
    return tf.TensorSpec([batch_size, *outputs.shape[1:]], tf.float32, name="labels")


def built(make: Callable[[], Any]) -> Any:
    """What `make` returns, called in `unallocated()`.

    Raises RuntimeError where it needs values of variables while it builds.
    """
    try:
        return make()
    except (NotImplementedError, AttributeError, tf.errors.OpError) as error:
        raise RuntimeError(
            f"the function that builds the model needs values of variables: {error}. Build it "
            "before, and give lms.plan the model itself (its weights are allocated then)"
        ) from error
