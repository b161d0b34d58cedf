"""What lms.plan needs of Keras 2 (tf_keras): models built unallocated, and what fit() builds.

Relies on this:

- All of its variables are made through `tf.variable_creator_scope`, and an `UninitializedVariable`
  is as good to it as any other. (In a tf.Graph its models would be those of TensorFlow 1.)
- `Model._compile_config.config` has what compile() was given; functional models have
  `_nested_inputs` and `_nested_outputs`.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from lms._tf.keras_data import KERAS_2
from lms._tf.private import private_module

_func_graph = private_module("tensorflow.python.framework.func_graph")
_resources = private_module("tensorflow.python.ops.resource_variable_ops")

PREFIX = "tf_keras."


def model_class() -> Any:
    """The class that all its models are of; None where it is not imported."""
    return getattr(sys.modules.get(f"{KERAS_2.package}.training"), "Model", None)


def _without_value(next_creator: Any, **told: Any) -> Any:
    shape, dtype = told.get("shape"), told.get("dtype")
    if shape is None or dtype is None:
        value = told.get("initial_value")
        value = tf.convert_to_tensor(value() if callable(value) else value, dtype=dtype)
        shape, dtype = value.shape if shape is None else shape, value.dtype
    return _resources.UninitializedVariable(
        shape=tf.TensorShape(shape),
        dtype=tf.as_dtype(dtype),
        trainable=told.get("trainable"),
        name=told.get("name"),
        synchronization=told.get("synchronization"),
        aggregation=told.get("aggregation"),
    )


@contextlib.contextmanager
def unallocated() -> Iterator[None]:
    """Variables that are made here take no memory; random states are left as they were."""
    states = random.getstate(), np.random.get_state()
    try:
        with tf.variable_creator_scope(_without_value):
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


def compiled(model: Any) -> bool:
    return bool(model._is_compiled)


def clone(model: Any) -> Any:
    package = model_class().__module__.partition(".")[0]
    return sys.modules[package].models.clone_model(model)


def inputs(model: Any) -> Any:
    found = getattr(model, "_nested_inputs", None)
    return model.inputs if found is None else found


def outputs(model: Any) -> Any:
    found = getattr(model, "_nested_outputs", None)
    return model.outputs if found is None else found


def build(model: Any, batch: tuple[Any, ...], plain: bool) -> None:
    """Builds what fit() builds in its first step, for a batch of tf.TensorSpec."""
    if not model.built:
        graph = _func_graph.FuncGraph("lms_build")
        with graph.as_default():

            def fed(spec: Any) -> Any:
                return tf.compat.v1.placeholder(spec.dtype, spec.shape)

            model(tf.nest.map_structure(fed, batch[0]), training=True)
    if model.optimizer is not None and hasattr(model.optimizer, "build"):
        with tf.init_scope():
            model.optimizer.build(model.trainable_variables)
