"""The batches that Keras makes of what `fit` is given: Keras 3 and Keras 2 (tf_keras).

Relies on this, in either Keras: what `fit` is given goes to a data adapter, which hands out the
dataset in `get_tf_dataset()` (Keras 2: `get_dataset()`), and whose `batch_size` (a property, in
Keras 2 a method) has the rows of a batch. The adapters of generators and sequences look at first
batches: Keras 3 in `get_tensor_spec(batches)`, Keras 2 in `self._standardize_batch(batch)`. Keras
3.0 keeps that of a generator in `_first_batch`.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import threading
from typing import Any

import tensorflow as tf

from lms._base.failure import fail_if_injected, shielded
from lms._learnt import sizes as _sizes
from lms._tf.data import declared_shapes, plain_shape
from lms._tf.patch import Patch


@dataclasses.dataclass(frozen=True)
class Adapters:
    """The data adapters of one Keras. classes: by module; dataset: the method that hands it out."""

    package: str
    classes: tuple[tuple[str, str], ...]
    dataset: str


KERAS_3 = Adapters(
    "keras.src.trainers.data_adapters",
    (
        ("array_data_adapter", "ArrayDataAdapter"),
        ("generator_data_adapter", "GeneratorDataAdapter"),
        ("py_dataset_adapter", "PyDatasetAdapter"),
        ("torch_data_loader_adapter", "TorchDataLoaderAdapter"),
        ("grain_dataset_adapter", "GrainDatasetAdapter"),
    ),
    "get_tf_dataset",
)


KERAS_2 = Adapters(
    "tf_keras.src.engine",
    (
        ("data_adapter", "TensorLikeDataAdapter"),
        ("data_adapter", "GeneratorDataAdapter"),
        ("data_adapter", "CompositeTensorDataAdapter"),
        ("data_adapter", "ListsOfScalarsDataAdapter"),
    ),
    "get_dataset",
)


class _Local(threading.local):
    peeked: list[_sizes.Shape] | None = None


_local = _Local()


def _wrap_dataset(original: Any) -> Any:
    @functools.wraps(original)
    def get_dataset(self: Any) -> Any:
        _local.peeked = None
        dataset = original(self)
        with shielded("keras data"):
            fail_if_injected("keras data")
            _tag(dataset, self)
        return dataset

    return get_dataset


def _tag(dataset: Any, adapter: Any) -> None:
    """Notes on a dataset what the Keras adapter that made it knows of its elements."""
    if _local.peeked is not None:
        adapter._lms_peeked = _local.peeked
        _local.peeked = None
    shapes, source = getattr(adapter, "_lms_peeked", None), "first batches of the Keras input"
    first = getattr(adapter, "_first_batch", None)
    if shapes is None and first is not None:
        shapes = _largest([first])
    if shapes is None:
        size, source = _largest_batch(adapter), "Keras batch_size"
        if size is None:
            return
        shapes = [[size, *shape[1:]] if shape else None for shape in declared_shapes(dataset)]
    dataset._lms_sizes = (shapes, source)


def _largest_batch(adapter: Any) -> int | None:
    size = adapter.batch_size() if callable(adapter.batch_size) else adapter.batch_size
    if not isinstance(size, int):
        return None
    rows = getattr(adapter, "_num_samples", None)
    if rows is None and hasattr(adapter, "get_samples"):
        rows = adapter.get_samples()
    return size if rows is None else min(size, rows)


def _largest(batches: Any) -> list[_sizes.Shape]:
    """Of each part of these batches the shape of the largest."""
    columns = zip(*(tf.nest.flatten(batch) for batch in batches))
    return [
        _sizes.larger([plain_shape(tf.TensorShape(item.shape)) for item in column])
        if all(hasattr(item, "shape") for item in column)
        else None
        for column in columns
    ]


def _wrap_get_tensor_spec(original: Any) -> Any:
    @functools.wraps(original)
    def get_tensor_spec(batches: Any) -> Any:
        spec = original(batches)
        with shielded("keras spec"):
            fail_if_injected("keras spec")
            _local.peeked = _largest(batches)
        return spec

    return get_tensor_spec


def _wrap_standardize_batch(original: Any) -> Any:
    @functools.wraps(original)
    def standardize_batch(self: Any, data: Any) -> Any:
        batch = original(self, data)
        if not hasattr(self, "_lms_peeked"):
            with shielded("keras spec"):
                fail_if_injected("keras spec")
                self._lms_peeked = None
                self._lms_peeked = _largest([batch])
        return batch

    return standardize_batch


def adapter_patches(adapters: Adapters) -> list[Patch]:
    """What notes the batches of these adapters, as far as they are imported."""
    patches = []
    for module, name in adapters.classes:
        owner = getattr(sys.modules.get(f"{adapters.package}.{module}"), name, None)
        known = {} if owner is None else owner.__dict__
        if adapters.dataset in known:
            patches.append(Patch(owner, adapters.dataset, _wrap_dataset))
        if "_standardize_batch" in known:
            patches.append(Patch(owner, "_standardize_batch", _wrap_standardize_batch))
    utils: Any = sys.modules.get(f"{adapters.package}.data_adapter_utils")
    if hasattr(utils, "get_tensor_spec"):
        patches.append(Patch(utils, "get_tensor_spec", _wrap_get_tensor_spec))
    return patches
