"""Training steps of Keras models, traced without a run, and models that are built unallocated.

What Keras 3 and Keras 2 have in common stands here; `plan_keras_3.py` and `plan_keras_2.py` have
the same functions for what they do not. Relies on this: in both `train_step` is what fit() traces,
and `_compile_config.config` has what compile() was given.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from lms._tf import graphs as _tf_graphs
from lms._tf import plan_keras_2 as _tf_plan_keras_2
from lms._tf import plan_keras_3 as _tf_plan_keras_3

_log = logging.getLogger("lms")
T = TypeVar("T")


def _keras_of(model: Any) -> Any:
    """The module for the Keras that the model is of; None for what is no model."""
    for keras in (_tf_plan_keras_3, _tf_plan_keras_2):
        kind = keras.model_class()
        if kind is not None and isinstance(model, kind):
            return keras
    return None


def is_model(what: Any) -> bool:
    """Whether it is a model of Keras 3 or Keras 2."""
    return _keras_of(what) is not None


def use_unallocated(make: Callable[[], Any], use: Callable[[Any], T]) -> T:
    """`use` of what `make` returns, both called where variables take no memory.

    Raises RuntimeError where `make` needs values of variables.
    """
    made_by_2 = contextlib.suppress(_tf_plan_keras_3.MadeByKeras2)
    with made_by_2, _tf_plan_keras_3.unallocated():
        return use(_built(make))
    with _tf_plan_keras_2.unallocated():
        return use(_built(make))


def step_of(
    model: Any, data: Sequence[Any], optimizer: Any, loss: Any, *, unbuilt_graph: bool
) -> _tf_graphs.Step:
    """What fit() runs in each step of a model.

    Args:
      model: compiled, or `optimizer` and `loss` say how.
      data: one whole number, the batch size (None: open), or specifications of inputs, labels and
        weights of samples, as train_step takes them.
      unbuilt_graph: whether this is called by `use_unallocated`, and the model was made there.
    Raises:
      ValueError: where it is not compiled, or its inputs' shapes are not known.
    """
    keras = _keras_of(model)
    if not keras.compiled(model) and optimizer is None and loss is None:
        raise ValueError(
            f"the model {model.name!r} is not compiled, so it has no training step: call "
            "model.compile(optimizer, loss), or give lms.plan(..., optimizer=..., loss=...)"
        )
    if unbuilt_graph:
        return _traced(_compiled(model, optimizer, loss), data)
    if not _is_plain(model):
        # Its own train_step may use anything of it: what fit() would build is built.
        return _traced(_compiled(model, optimizer, loss), data)
    given = _told(model)
    given_optimizer = optimizer
    optimizer = _copier(model.optimizer if optimizer is None else optimizer)
    metrics, weighted = _copier(given.get("metrics")), _copier(given.get("weighted_metrics"))
    with keras.unallocated():
        try:
            twin = keras.clone(model)
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


def _told(model: Any) -> dict[str, Any]:
    """What compile() was given."""
    return dict(model._compile_config.config) if _keras_of(model).compiled(model) else {}


def _is_plain(model: Any) -> bool:
    """Whether a second model over the same layers trains as this one does."""
    own, keras = type(model), _keras_of(model)
    if own.train_step is not keras.model_class().train_step or not getattr(model, "inputs", None):
        return False
    return own.__module__.startswith(keras.PREFIX) and own.__name__ in ("Functional", "Sequential")


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
    _keras_of(model).build(model, batch, _is_plain(model))

    def train(batch: Any) -> Any:
        return model.train_step(batch)

    train.__name__ = f"{model.name}_train_step"
    return _tf_graphs.of_function(tf.function(train, autograph=False).get_concrete_function(batch))


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
    keras = _keras_of(model)

    def sized(tensor: Any) -> Any:
        name = getattr(tensor, "name", None)
        return tf.TensorSpec([batch_size, *tensor.shape[1:]], tensor.dtype, name=name)

    x = tf.nest.map_structure(sized, keras.inputs(model))
    if isinstance(x, (list, tuple)) and len(x) == 1:
        x = x[0]
    loss = _told(model).get("loss")
    if loss is None:
        return (x,)
    return x, _labels(keras.outputs(model), loss, batch_size)


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


def _built(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (NotImplementedError, AttributeError, tf.errors.OpError) as error:
        raise RuntimeError(
            f"the function that builds the model needs values of variables: {error}. Build it "
            "before, and give lms.plan the model itself (its weights are allocated then)"
        ) from error
