"""Datasets and their iterators: the shapes of the elements that a function will be handed.

Relies on this: an `OwnedIterator` has its dataset in `_dataset`, datasets have their inputs in
`_inputs()`, and an `OwnedMultiDeviceIterator` (of MirroredStrategy) deals the elements of a dataset
out to the iterators in `_device_iterators`.
"""

from __future__ import annotations

import functools
import inspect
import math
import weakref
from typing import Any

import tensorflow as tf

from lms._base.failure import fail_if_injected, shielded
from lms._learnt import sizes as _sizes
from lms._tf.patch import Patch
from lms._tf.private import private_module

_dataset_ops = private_module("tensorflow.python.data.ops.dataset_ops")
_iterator_ops = private_module("tensorflow.python.data.ops.iterator_ops")
_multi_device = private_module("tensorflow.python.data.ops.multi_device_iterator_ops")
_structure = private_module("tensorflow.python.data.util.structure")
_function_def_to_graph = private_module("tensorflow.python.framework.function_def_to_graph")

_MOST_STAGES = 64  # of a dataset, that are looked at
_SMALL = 1024  # bytes that say nothing: many things are of such a size


def _wrap_create_iterator(original: Any) -> Any:
    @functools.wraps(original)
    def create_iterator(self: Any, dataset: Any) -> None:
        original(self, dataset)
        with shielded("iterator"):
            fail_if_injected("iterator")
            if tf.executing_eagerly():
                # A function is handed the resource; this leads back to the dataset.
                self._iterator_resource._lms_iterator = weakref.ref(self)

    return create_iterator


def _wrap_multi_device(original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        with shielded("iterator"):
            fail_if_injected("iterator")
            source = signature.bind(self, *args, **kwargs).arguments.get("dataset")
            for iterator in self._device_iterators if source is not None else ():
                # Their own datasets are generators, which say nothing of what they deal out.
                iterator._dataset._lms_source = source

    return init


def iterator_of(tensor: Any) -> Any:
    """The iterator that a resource belongs to, as a weak reference that is the same each time."""
    return getattr(tensor, "_lms_iterator", None)


def element_shapes(iterator: Any) -> tuple[list[_sizes.Shape], list[_sizes.Shape], str]:
    """Of an iterator's elements: the shapes declared, those found, and where they come from."""
    return dataset_shapes(iterator()._dataset)


def dataset_shapes(dataset: Any) -> tuple[list[_sizes.Shape], list[_sizes.Shape], str]:
    """The same of a dataset's elements."""
    found = getattr(dataset, "_lms_found", None)
    if found is None:
        shapes, source = _sizes.walk(dataset, declared_shapes, _stage_of)
        found = dataset._lms_found = (declared_shapes(dataset), shapes, source)
    return found


def element_bytes(iterator: Any) -> list[int]:
    """Of an iterator's elements: the bytes of each tensor, but for small ones and unknown ones."""
    dataset = iterator()._dataset
    found = getattr(dataset, "_lms_bytes", None)
    if found is None:
        _, shapes, _ = element_shapes(iterator)
        types = _structure.get_flat_tensor_types(dataset.element_spec)
        found = []
        for shape, kind in zip(shapes, types):
            sizes = [size for size in shape or () if size is not None]
            plain = kind.is_numpy_compatible and kind != tf.string
            if shape is not None and len(sizes) == len(shape) and plain:
                found.append(math.prod(sizes) * kind.size)
        least = max([_SMALL, *(size // 100 for size in found)])
        found = dataset._lms_bytes = [size for size in found if size >= least]
    return found


def may_end(iterator: Any, counted: bool) -> bool:
    """Whether a call may find that there is no element left, and fail.

    counted: the function is not called once more than there are elements, where their number is
      known.
    """
    dataset = iterator()._dataset
    found: str | None = getattr(dataset, "_lms_number", None)
    if found is None:
        found = dataset._lms_number = _number_of_elements(getattr(dataset, "_lms_source", dataset))
    return found == "unknown" or (found == "known" and not counted)


def _number_of_elements(dataset: Any) -> str:
    """Is it "known", "unknown" or "infinite"?"""
    found = tf.data.UNKNOWN_CARDINALITY
    if hasattr(dataset, "cardinality"):
        found = int(dataset.cardinality())
    if found == tf.data.INFINITE_CARDINALITY:
        return "infinite"
    # Keras counts the rows of arrays itself.
    return "known" if found != tf.data.UNKNOWN_CARDINALITY or _made_by_keras(dataset) else "unknown"


def _made_by_keras(dataset: Any, most: int = _MOST_STAGES) -> bool:
    """Whether Keras has made it of arrays."""
    stage = _stage_of(dataset)
    if stage.kind == "tagged" or most == 0:
        return stage.kind == "tagged"
    return any(_made_by_keras(source, most - 1) for source in stage.inputs)


def declared_shapes(dataset: Any) -> list[_sizes.Shape]:
    return [plain_shape(s) for s in _structure.get_flat_tensor_shapes(dataset.element_spec)]


def plain_shape(shape: tf.TensorShape) -> _sizes.Shape:
    return None if shape.rank is None else shape.as_list()


def _stage_of(dataset: Any) -> _sizes.Stage:
    tag = getattr(dataset, "_lms_sizes", None)
    if tag is not None:
        shapes, source = tag
        return _sizes.Stage("tagged", shapes=shapes, source=source)
    source = getattr(dataset, "_lms_source", None)
    if source is not None:
        return _sizes.Stage("same", (source,))
    name = type(dataset).__name__
    inputs: Any = dataset._inputs() if hasattr(dataset, "_inputs") else ()
    if isinstance(dataset, _dataset_ops.UnaryUnchangedStructureDataset):
        return _sizes.Stage("same", inputs)
    if name in ("_AutoShardDataset", "_LegacySnapshotDataset"):
        return _sizes.Stage("same", inputs)
    if isinstance(dataset, _dataset_ops.DatasetV1Adapter):
        return _sizes.Stage("same", (dataset._dataset,))
    if name in ("_BatchDataset", "_ParallelBatchDataset"):
        return _sizes.Stage("batch", inputs, size=_rows(dataset._batch_size, inputs[0]))
    if name == "_PaddedBatchDataset":
        padded = [tf.get_static_value(s) for s in tf.nest.flatten(dataset._padded_shapes)]
        inner: list[_sizes.Shape] = [
            None if s is None else [None if n < 0 else int(n) for n in s] for s in padded
        ]
        return _sizes.Stage(
            "batch", inputs, size=_rows(dataset._batch_size, inputs[0]), inner=inner
        )
    if name == "_RebatchDataset":
        sizes = tf.get_static_value(dataset._batch_sizes)
        largest = None if sizes is None or not sizes.size else int(sizes.max())
        return _sizes.Stage("rebatch", inputs, size=largest)
    if name == "_UnbatchDataset":
        return _sizes.Stage("unbatch", inputs)
    if name == "_ZipDataset":
        return _sizes.Stage("zip", inputs)
    if name == "_ConcatenateDataset":
        return _sizes.Stage("either", inputs)
    if name == "_DirectedInterleaveDataset":
        return _sizes.Stage("either", dataset._data_inputs)
    if name in ("_MapDataset", "_ParallelMapDataset"):
        function = dataset._map_func.function
        return _sizes.Stage("map", inputs, infer=functools.partial(_infer_shapes, function))
    return _sizes.Stage("unknown")


def _rows(batch_size: Any, rows: Any) -> int | None:
    """The size of a dataset's largest batch."""
    size = tf.get_static_value(batch_size)
    if size is None:
        return None
    asked = tf.executing_eagerly() and hasattr(rows, "cardinality")
    count = int(rows.cardinality()) if asked else -1  # in a graph it would be another node
    return min(int(size), count) if count >= 0 else int(size)


def _infer_shapes(function: Any, inputs: list[_sizes.Shape]) -> list[_sizes.Shape]:
    """The shapes that a dataset's function makes of these: by inference, nothing is run."""
    definition = type(function.function_def)()
    definition.CopyFrom(function.function_def)
    for attrs in definition.arg_attr.values():
        attrs.attr.pop("_output_shapes", None)  # as it was traced
    if len(definition.node_def) > _sizes.MAP_NODES:
        return []
    shapes = [tf.TensorShape(shape).as_proto() for shape in inputs]
    shapes += [tensor.shape.as_proto() for tensor in function.captured_inputs]
    graph = _function_def_to_graph.function_def_to_graph(definition, input_shapes=shapes)
    return [plain_shape(tensor.shape) for tensor in graph.outputs]


Patch(_iterator_ops, "_create_iterator", _wrap_create_iterator, "OwnedIterator").put()
Patch(_multi_device, "__init__", _wrap_multi_device, "OwnedMultiDeviceIterator").put()
