"""Datasets and their iterators: the shapes of the elements that a function will be handed.

Relies on this: an `OwnedIterator` has its dataset in `_dataset`, and datasets have their inputs in
`_inputs()`.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops as _dataset_ops
from tensorflow.python.data.ops import iterator_ops as _iterator_ops
from tensorflow.python.data.util import structure as _structure
from tensorflow.python.eager import context as _context
from tensorflow.python.framework import function_def_to_graph as _function_def_to_graph
from tensorflow.python.framework import tensor_util as _tensor_util

from lms import _sizes
from lms._failure import fail_if_injected, shielded
from lms._tf_patch import Patch


def _wrap_create_iterator(original: Any) -> Any:
    @functools.wraps(original)
    def create_iterator(self: Any, dataset: Any) -> None:
        original(self, dataset)
        with shielded("iterator"):
            fail_if_injected("iterator")
            if _context.executing_eagerly():
                # A function is handed the resource; this leads back to the dataset.
                self._iterator_resource._lms_iterator = weakref.ref(self)

    return create_iterator


def iterator_of(tensor: Any) -> Any:
    """The iterator that a resource belongs to, as a weak reference that is the same each time."""
    return getattr(tensor, "_lms_iterator", None)


def element_shapes(iterator: Any) -> tuple[list[_sizes.Shape], list[_sizes.Shape], str]:
    """Of an iterator's elements: the shapes declared, those found, and where they come from."""
    dataset = iterator()._dataset
    found = getattr(dataset, "_lms_found", None)
    if found is None:
        shapes, source = _sizes.walk(dataset, declared_shapes, _stage_of)
        found = dataset._lms_found = (declared_shapes(dataset), shapes, source)
    return found


def declared_shapes(dataset: Any) -> list[_sizes.Shape]:
    return [plain_shape(s) for s in _structure.get_flat_tensor_shapes(dataset.element_spec)]


def plain_shape(shape: tf.TensorShape) -> _sizes.Shape:
    return None if shape.rank is None else shape.as_list()


def _stage_of(dataset: Any) -> _sizes.Stage:
    tag = getattr(dataset, "_lms_sizes", None)
    if tag is not None:
        shapes, source = tag
        return _sizes.Stage("tagged", shapes=shapes, source=source)
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
        padded = [_tensor_util.constant_value(s) for s in tf.nest.flatten(dataset._padded_shapes)]
        inner: list[_sizes.Shape] = [
            None if s is None else [None if n < 0 else int(n) for n in s] for s in padded
        ]
        return _sizes.Stage(
            "batch", inputs, size=_rows(dataset._batch_size, inputs[0]), inner=inner
        )
    if name == "_RebatchDataset":
        sizes = _tensor_util.constant_value(dataset._batch_sizes)
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
    size = _tensor_util.constant_value(batch_size)
    if size is None:
        return None
    count = int(rows.cardinality()) if hasattr(rows, "cardinality") else -1
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


Patch(_iterator_ops.OwnedIterator, "_create_iterator", _wrap_create_iterator).put()
