"""Keras 3: what models leave to Keras about XLA, and the batches that its data adapters make.

Relies on this: Keras' `Trainer._resolve_auto_jit_compile()` answers what jit_compile="auto" means,
and a Keras data adapter has its dataset from `get_tf_dataset()`.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import weakref
from typing import Any

import tensorflow as tf

from lms import _sizes
from lms._failure import fail_if_injected, shielded
from lms._tf_data import declared_shapes, plain_shape
from lms._tf_patch import Patch, warn
from lms._tf_state import process_entry


class _Local(threading.local):
    peeked: list[_sizes.Shape] | None = None


_local = _Local()


# Models whose jit_compile came from "auto", with the answer that they were given; and those
# that asked for XLA themselves.
_auto_models: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
_xla_models: weakref.WeakSet[Any] = weakref.WeakSet()
_keras_patches: list[Patch] = []
_resolve_originally: Any = None


def _wrap_resolve(original: Any) -> Any:
    global _resolve_originally
    _resolve_originally = original

    @functools.wraps(original)
    def resolve(self: Any) -> bool:
        answer = original(self)
        with shielded("keras jit"):
            fail_if_injected("keras jit")
            ours = bool(answer) and process_entry() is None
            _auto_models[self] = ours
            return ours
        return answer

    return resolve


def _wrap_compile(original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        with shielded("keras compile"):
            fail_if_injected("keras compile")
            _xla_models.discard(self)
            given = signature.bind(self, *args, **kwargs).arguments
            if given.get("jit_compile", "auto") != "auto":
                _auto_models.pop(self, None)  # Keras may have asked itself on the way
                if self._jit_compile:
                    _xla_models.add(self)
        return result

    return compile


def _wrap_get_tf_dataset(original: Any) -> Any:
    @functools.wraps(original)
    def get_tf_dataset(self: Any) -> Any:
        _local.peeked = None
        dataset = original(self)
        with shielded("keras data"):
            fail_if_injected("keras data")
            _tag(dataset, self)
        return dataset

    return get_tf_dataset


def _tag(dataset: Any, adapter: Any) -> None:
    """Notes on a dataset what the Keras adapter that made it knows of its elements."""
    if _local.peeked is not None:
        adapter._lms_peeked = _local.peeked
        _local.peeked = None
    shapes, source = getattr(adapter, "_lms_peeked", None), "first batches of the Keras input"
    if shapes is None:
        size, source = adapter.batch_size, "Keras batch_size"
        if not isinstance(size, int):
            return
        size = min(size, getattr(adapter, "_num_samples", size))
        shapes = [[size, *shape[1:]] if shape else None for shape in declared_shapes(dataset)]
    dataset._lms_sizes = (shapes, source)


def _wrap_get_tensor_spec(original: Any) -> Any:
    @functools.wraps(original)
    def get_tensor_spec(batches: Any) -> Any:
        spec = original(batches)
        with shielded("keras spec"):
            fail_if_injected("keras spec")
            columns = zip(*(tf.nest.flatten(batch) for batch in batches))
            _local.peeked = [
                _sizes.larger([plain_shape(tf.TensorShape(item.shape)) for item in column])
                if all(hasattr(item, "shape") for item in column)
                else None
                for column in columns
            ]
        return spec

    return get_tensor_spec


_ADAPTERS = {
    "array_data_adapter": "ArrayDataAdapter",
    "generator_data_adapter": "GeneratorDataAdapter",
    "py_dataset_adapter": "PyDatasetAdapter",
    "torch_data_loader_adapter": "TorchDataLoaderAdapter",
    "grain_dataset_adapter": "GrainDatasetAdapter",
}


def _watch_adapters() -> None:
    package = "keras.src.trainers.data_adapters"
    for name, adapter in _ADAPTERS.items():
        owner = getattr(sys.modules.get(f"{package}.{name}"), adapter, None)
        if owner is not None and "get_tf_dataset" in owner.__dict__:
            _keras_patches.append(Patch(owner, "get_tf_dataset", _wrap_get_tf_dataset))
    utils: Any = sys.modules.get(f"{package}.data_adapter_utils")
    if hasattr(utils, "get_tensor_spec"):
        _keras_patches.append(Patch(utils, "get_tensor_spec", _wrap_get_tensor_spec))


def watch_keras() -> None:
    """Starts to note what models leave to Keras and to their data, once Keras 3 is imported."""
    module = sys.modules.get("keras.src.trainers.trainer")
    trainer = getattr(module, "Trainer", None)
    if trainer is None or _keras_patches or not hasattr(trainer, "_resolve_auto_jit_compile"):
        return
    _keras_patches.append(Patch(trainer, "_resolve_auto_jit_compile", _wrap_resolve))
    _keras_patches.append(Patch(trainer, "compile", _wrap_compile))
    _watch_adapters()
    for patch in _keras_patches:
        patch.put()


def _remake(model: Any, name: str) -> None:
    """A model that cannot remake its function keeps the one it has: switching goes on."""
    try:
        getattr(model, f"make_{name}_function")(force=True)
    except Exception as error:
        warn(f"the {name} function of {model.name!r} could not be made anew: {error}")


def update_models() -> None:
    """Gives models compiled with "auto" the answer that they would be given now."""
    for model, given in list(_auto_models.items()):
        if model._jit_compile != given:  # set by hand since
            del _auto_models[model]
            continue
        answer = process_entry() is None and bool(_resolve_originally(model))
        if answer == given:
            continue
        _auto_models[model] = answer
        model.jit_compile = answer
        for name in ("train", "test", "predict"):
            if getattr(model, f"{name}_function", None) is not None:
                _remake(model, name)
    for model in list(_xla_models):
        traced = getattr(model, "train_function", None) is not None
        if process_entry() is not None and model._jit_compile and traced:
            _xla_models.discard(model)
            warn(
                f"the model {model.name!r} was compiled with jit_compile=True: XLA hides its "
                "training step from lms, and the memory budget does not hold for it. Use "
                "model.compile(..., jit_compile=False)."
            )
