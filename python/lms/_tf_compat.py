"""The only file that touches private names of TensorFlow and Keras.

What it relies on (the same in TensorFlow 2.16 to 2.21 and Keras 3.0 to 3.15):

- `context.FunctionCallOptions.as_attrs()` is asked at every call of a tf.function, in
  every thread, for the ConfigProto that the call carries. Adding our entry to its answer
  reaches functions traced or run before, threads that exist already, and a context that is
  not initialised yet; settings that the user changes later are merged at the next call. No
  state of TensorFlow's is written, so taking the wrapper away restores everything.
- `context.Context.call_function` is what every eager call of a tf.function goes through; it has
  the name and the inputs, and asks `as_attrs()` on its way. What one call tells of its function
  (`_sizes`) is put aside there and taken up in `as_attrs()`.
- An `OwnedIterator` has its dataset in `_dataset`, datasets have their inputs in `_inputs()`,
  and a Keras data adapter its dataset from `get_tf_dataset()`.
- `session.BaseSession.__init__` takes the ConfigProto of a v1 session.
- `polymorphic_function.Function` keeps what the user asked about XLA in `_jit_compile`.
- `_pywrap_profiler.ProfilerSession` traces operations, and returns the events as a
  `trace_events_pb2.Trace`, in which those of kernels have a `long_name`, "node:type".
- Keras' `Trainer._resolve_auto_jit_compile()` answers what jit_compile="auto" means.

A wrapper is in place only while somebody needs it. Exceptions: Keras' `compile` and
`_resolve_auto_jit_compile` are wrapped from the import of lms on, so that a model compiled
before enable() is known to have said "auto", and what makes iterators and Keras' datasets, so
that those made before are known; while lms is off, they change nothing.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import inspect
import logging
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig as RewriterConfig
from tensorflow.python.client import session as _session
from tensorflow.python.data.ops import dataset_ops as _dataset_ops
from tensorflow.python.data.ops import iterator_ops as _iterator_ops
from tensorflow.python.data.util import structure as _structure
from tensorflow.python.eager import context as _context
from tensorflow.python.eager.polymorphic_function import polymorphic_function as _function
from tensorflow.python.framework import function_def_to_graph as _function_def_to_graph
from tensorflow.python.framework import tensor_util as _tensor_util
from tensorflow.python.profiler.internal import _pywrap_profiler
from tensorflow.tsl.profiler.protobuf import trace_events_pb2 as _trace_events

from lms import _feedback, _native, _sizes, _swap
from lms._errors import OptionError

OPTIMIZER = "LmsOptimizer"
_CACHED_CONFIGS = 1024
_KNOWN_FUNCTIONS = 4096

_log = logging.getLogger("lms")
_lock = threading.RLock()


class Entry:
    """The optimizer's entry as it is merged into the configurations of TensorFlow."""

    def __init__(self, config: RewriterConfig):
        self._config = config
        self._merged: dict[tuple[bytes, str, str], bytes] = {}
        self._warned: set[str] = set()
        # "" also where one number is for all: that contradicts nothing.
        self._named_sizes = ""
        for entry in config.custom_optimizers:
            if "unknown_dim" in entry.parameter_map:
                self._named_sizes = entry.parameter_map["unknown_dim"].s.decode()
        feedback = [
            entry.parameter_map["feedback"].b if "feedback" in entry.parameter_map else True
            for entry in config.custom_optimizers
        ]
        # By name; no dict at all where it is switched off.
        self._steps: dict[bytes, _feedback.Step] | None = {} if any(feedback) else None
        self._problems: dict[bytes, list[str]] = {}
        given = [
            {name: value.b for name, value in entry.parameter_map.items()}
            for entry in config.custom_optimizers
        ]
        self.swaps = any(map(_swap.wants_host_link, given))

    def merge(
        self, config: tf.compat.v1.ConfigProto, seen_sizes: str = "", feedback: str = ""
    ) -> tf.compat.v1.ConfigProto:
        """A copy of `config` with the entry added; an entry that it has already wins."""
        merged = tf.compat.v1.ConfigProto()
        merged.CopyFrom(config)
        rewrite = merged.graph_options.rewrite_options
        if any(entry.name == OPTIMIZER for entry in rewrite.custom_optimizers):
            return merged
        rewrite.custom_optimizers.extend(self._config.custom_optimizers)
        if seen_sizes:
            rewrite.custom_optimizers[-1].parameter_map["_seen_sizes"].s = seen_sizes.encode()
        if feedback:
            rewrite.custom_optimizers[-1].parameter_map["_feedback"].s = feedback.encode()
        if rewrite.disable_meta_optimizer:
            self._warn_once(
                "disable_meta_optimizer is set (tf.config.optimizer.set_experimental_options or "
                "a session's config): TensorFlow runs no graph optimizer at all, so lms cannot "
                "work. Set it to False."
            )
        if merged.graph_options.optimizer_options.global_jit_level > 0:
            self._warn_once(
                "XLA auto-clustering is on (tf.config.optimizer.set_jit): the operations that "
                "XLA compiles after lms has rewritten a step may be ordered anew, and the budget "
                "may not hold."
            )
        return merged

    def merge_serialized(self, config: bytes, seen_sizes: str = "", feedback: str = "") -> bytes:
        merged = self._merged.get((config, seen_sizes, feedback))
        if merged is None:
            proto = self.merge(tf.compat.v1.ConfigProto.FromString(config), seen_sizes, feedback)
            merged = proto.SerializeToString(deterministic=True)
            if len(self._merged) >= _CACHED_CONFIGS:
                self._merged.clear()
            self._merged[config, seen_sizes, feedback] = merged
        return merged

    def step(self, name: bytes) -> _feedback.Step | None:
        """What is measured of a function; None where feedback is switched off."""
        if self._steps is None:
            return None
        step = self._steps.get(name)
        if step is None:
            with _lock:
                if len(self._steps) >= _KNOWN_FUNCTIONS:
                    self._steps.clear()
                step = self._steps.setdefault(name, _feedback.Step(name.decode()))
        return step

    def check_sizes(self, context: Any, name: bytes, inputs: list[Any]) -> None:
        """Raises where unknown_dim contradicts what the function says of its arguments."""
        if not self._named_sizes:
            return
        problems = self._problems.get(name)
        if problems is None:
            if len(self._problems) >= _KNOWN_FUNCTIONS:
                self._problems.clear()
            problems = _size_problems(self._named_sizes, context, name, inputs)
            self._problems[name] = problems
        if problems:
            function = name.decode()
            raise OptionError([f"{problem} of {function}" for problem in problems])

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            _warn(text)


class _Patch:
    """One attribute of a class that is replaced while it has users."""

    def __init__(self, owner: Any, name: str, wrap: Callable[[Any], Any]):
        self._owner, self._name, self._wrap = owner, name, wrap
        self._original: Any = None
        self._replacement: Any = None

    def put(self) -> None:
        if self._replacement is None:
            self._original = self._owner.__dict__[self._name]
            self._replacement = self._wrap(self._original)
            setattr(self._owner, self._name, self._replacement)

    def take_away(self) -> None:
        # Where somebody has wrapped ours since, it stays: it passes everything through.
        if self._owner.__dict__[self._name] is self._replacement:
            setattr(self._owner, self._name, self._original)
            self._original = self._replacement = None


class _Local(threading.local):
    overridden = False
    entry: Entry | None = None
    seen_sizes = ""  # of the call that is about to ask as_attrs()
    feedback = ""  # on it
    peeked: list[_sizes.Shape] | None = None


_global_entry: Entry | None = None
_local = _Local()
_users = 0
_warned_functions: weakref.WeakSet[Any] = weakref.WeakSet()


def _active() -> Entry | None:
    return _local.entry if _local.overridden else _global_entry


def _warn(text: str) -> None:
    _log.warning(text)
    warnings.warn(f"lms: {text}", stacklevel=3)


def _wrap_as_attrs(original: Any) -> Any:
    @functools.wraps(original)
    def as_attrs(self: Any) -> Any:
        attrs = original(self)
        entry = _active()
        # Calls written into a graph keep the user's configuration: their bodies are inlined
        # into the caller's graph, and neither disable() nor a saved model must find our entry
        # there. (The price: a body marked _noinline is not seen.)
        silenced = self.config_proto_serialized is None
        if entry is None or silenced or not _context.executing_eagerly():
            return attrs
        seen, _local.seen_sizes = _local.seen_sizes, ""
        feedback, _local.feedback = _local.feedback, ""
        merged = entry.merge_serialized(attrs["config_proto"], seen, feedback)
        return {**attrs, "config_proto": merged}

    return as_attrs


_in_flight: collections.deque[None] = collections.deque()  # one entry for each call

# By name: None where its arguments leave nothing open.
_functions: dict[bytes, _sizes.FunctionSizes | None] = {}
_UNSEEN: Any = object()


def _wrap_call_function(original: Any) -> Any:
    @functools.wraps(original)
    def call_function(self: Any, name: bytes, tensor_inputs: Any, num_outputs: int) -> Any:
        entry = _active()
        if entry is None:
            return original(self, name, tensor_inputs, num_outputs)
        if entry.swaps:
            _swap.measure_host_link()
        known = _functions.get(name, _UNSEEN)
        if known is _UNSEEN:
            known = _learn(self, name, tensor_inputs)
        entry.check_sizes(self, name, tensor_inputs)
        sizes = "" if known is None else _update(known, name, tensor_inputs)
        _feedback.disturb()
        _in_flight.append(None)
        measured = None
        try:
            step = entry.step(name)
            feedback = ""
            if step is not None:
                feedback = step.parameter
                # A smaller batch than planned for tells nothing of the plan.
                full = step.done or known is None or known.full(tensor_inputs)
                if not step.done and full and step.begin(sizes, len(_in_flight) == 1):
                    measured = step
            _local.seen_sizes, _local.feedback = sizes, feedback
            outputs = original(self, name, tensor_inputs, num_outputs)
        except BaseException:
            if measured is not None:
                measured.end(returned=False)
            raise
        finally:
            _in_flight.pop()
        if measured is not None:
            measured.end(returned=True)
        return outputs

    return call_function


def _learn(context: Any, name: bytes, inputs: list[Any]) -> _sizes.FunctionSizes | None:
    """Finds out what a function that is called for the first time leaves open."""
    known: _sizes.FunctionSizes | None = None
    try:
        arguments = _arguments(context, name)
        known = _sizes.FunctionSizes(arguments, _iterator_of, _element_shapes)
        known.update(inputs)
        if not known.settle(inputs):
            known = None
    except Exception as error:
        _log.warning("%s: the sizes of its arguments are not known: %s", name.decode(), error)
        known = None
    with _lock:
        if len(_functions) >= _KNOWN_FUNCTIONS:
            for old in list(_functions)[: _KNOWN_FUNCTIONS // 2]:
                del _functions[old]
        return _functions.setdefault(name, known)


def _update(known: _sizes.FunctionSizes, name: bytes, inputs: list[Any]) -> str:
    try:
        return known.update(inputs)
    except Exception as error:
        _log.warning("%s: the sizes of its arguments are not known: %s", name.decode(), error)
        _functions[name] = None
        return ""


def _arguments(context: Any, name: bytes) -> list[_sizes.Argument]:
    definition = context.get_function_def(name)
    arguments = []
    for number, argument in enumerate(definition.signature.input_arg):
        attrs = definition.arg_attr[number].attr if number in definition.arg_attr else {}
        shape: _sizes.Shape = None
        if "_output_shapes" in attrs and attrs["_output_shapes"].list.shape:
            shape = _plain_shape(tf.TensorShape(attrs["_output_shapes"].list.shape[0]))
        user_name = ""
        if "_user_specified_name" in attrs:
            user_name = attrs["_user_specified_name"].s.decode()
        handle = argument.type in (tf.resource.as_datatype_enum, tf.variant.as_datatype_enum)
        arguments.append(_sizes.Argument(argument.name, user_name, handle, shape))
    return arguments


def _size_problems(unknown_dim: str, context: Any, name: bytes, inputs: list[Any]) -> list[str]:
    try:
        described = []
        for argument, value in zip(_arguments(context, name), inputs):
            shapes, iterator = [argument.shape], None
            if argument.handle:
                iterator = _iterator_of(value)
                shapes = [] if iterator is None else _element_shapes(iterator)[0]
            numbers = [
                None if shape is None else [-1 if size is None else size for size in shape]
                for shape in shapes
            ]
            described.append((argument.name, argument.user_name, iterator is not None, numbers))
        return _native.unknown_dim_problems(unknown_dim, described)
    except Exception as error:
        _log.warning("%s: unknown_dim could not be checked: %s", name.decode(), error)
        return []


def _wrap_session_init(original: Any) -> Any:
    @functools.wraps(original)
    def init(self: Any, target: Any = "", graph: Any = None, config: Any = None) -> None:
        entry = _active()
        if entry is not None:
            if config is None:
                config = _context.context().config
            if isinstance(config, tf.compat.v1.ConfigProto):
                config = entry.merge(config)
        original(self, target, graph, config)

    return init


def _wrap_function_call(original: Any) -> Any:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._jit_compile and _active() is not None and self not in _warned_functions:
            _warned_functions.add(self)
            _warn(
                f"{self.name} is compiled by XLA (jit_compile=True): its body is invisible to "
                "lms, and the memory budget does not hold for it. Leave jit_compile=True out "
                "(Keras: model.compile(..., jit_compile=False))."
            )
        return original(self, *args, **kwargs)

    return call


_PATCHES = (
    _Patch(_context.FunctionCallOptions, "as_attrs", _wrap_as_attrs),
    _Patch(_context.Context, "call_function", _wrap_call_function),
    _Patch(_session.BaseSession, "__init__", _wrap_session_init),
    _Patch(_function.Function, "__call__", _wrap_function_call),
)


def _count_user(change: int) -> None:
    global _users
    with _lock:
        _users += change
        for patch in _PATCHES:
            if _users > 0:
                patch.put()
            else:
                patch.take_away()


def set_entry(entry: Entry | None) -> None:
    """From now on every call and every new session carries `entry`; None: as without lms."""
    global _global_entry
    with _lock:
        change = (entry is not None) - (_global_entry is not None)
        _global_entry = entry
        _count_user(change)
        watch_keras()
        _update_models()


@contextlib.contextmanager
def override(entry: Entry | None) -> Iterator[None]:
    """The same for this thread alone, whatever is set for the process. Keras is left alone."""
    _count_user(+1)
    before = (_local.overridden, _local.entry)
    _local.overridden, _local.entry = True, entry
    try:
        yield
    finally:
        _local.overridden, _local.entry = before
        _count_user(-1)


def forget_optimized_functions() -> None:
    """Drops what the runtime keeps of functions that ran: the next call optimises afresh."""
    _context.context().clear_kernel_cache()


def traced(call: Callable[[], float]) -> tuple[float, list[tuple[str, float]]]:
    """What `call` returns, and (name, microseconds) of each node that ran on the host meanwhile.

    Kernels that take next to no time (views, arguments) are left out.
    Raises:
      RuntimeError: where a profiler is at work already.
    """
    session = _pywrap_profiler.ProfilerSession()
    try:
        # Level 2: the kernels that TensorFlow counts as expensive.
        levels = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 0}
        session.start("", levels)
    except tf.errors.AlreadyExistsError as error:
        raise RuntimeError("a profiler of TensorFlow's is running: stop it first") from error
    try:
        result = call()
    finally:
        trace = _trace_events.Trace.FromString(session.stop())
    found = []
    for event in trace.trace_events:
        if "long_name" in event.args and trace.devices[event.device_id].name.startswith("/host:"):
            name = event.args["long_name"].rpartition(":")[0]
            found.append((name, event.duration_ps / 1e6))
    return result, found


# ---- Datasets ----


def _wrap_create_iterator(original: Any) -> Any:
    @functools.wraps(original)
    def create_iterator(self: Any, dataset: Any) -> None:
        original(self, dataset)
        if _context.executing_eagerly():
            # A function is handed the resource; this leads back to the dataset.
            self._iterator_resource._lms_iterator = weakref.ref(self)

    return create_iterator


def _iterator_of(tensor: Any) -> Any:
    """The iterator that a resource belongs to, as a weak reference that is the same each time."""
    return getattr(tensor, "_lms_iterator", None)


def _element_shapes(iterator: Any) -> tuple[list[_sizes.Shape], list[_sizes.Shape], str]:
    """Of an iterator's elements: the shapes declared, those found, and where they come from."""
    dataset = iterator()._dataset
    found = getattr(dataset, "_lms_found", None)
    if found is None:
        shapes, source = _sizes.walk(dataset, _declared_shapes, _stage_of)
        found = dataset._lms_found = (_declared_shapes(dataset), shapes, source)
    return found


def _declared_shapes(dataset: Any) -> list[_sizes.Shape]:
    return [_plain_shape(s) for s in _structure.get_flat_tensor_shapes(dataset.element_spec)]


def _plain_shape(shape: tf.TensorShape) -> _sizes.Shape:
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
    return [_plain_shape(tensor.shape) for tensor in graph.outputs]


_Patch(_iterator_ops.OwnedIterator, "_create_iterator", _wrap_create_iterator).put()


# ---- Keras ----

# Models whose jit_compile came from "auto", with the answer that they were given; and those
# that asked for XLA themselves.
_auto_models: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
_xla_models: weakref.WeakSet[Any] = weakref.WeakSet()
_keras_patches: list[_Patch] = []
_resolve_originally: Any = None


def _wrap_resolve(original: Any) -> Any:
    global _resolve_originally
    _resolve_originally = original

    @functools.wraps(original)
    def resolve(self: Any) -> bool:
        answer = bool(original(self)) and _global_entry is None
        _auto_models[self] = answer
        return answer

    return resolve


def _wrap_compile(original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        _xla_models.discard(self)
        if signature.bind(self, *args, **kwargs).arguments.get("jit_compile", "auto") != "auto":
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
        try:
            _tag(dataset, self)
        except Exception as error:
            _log.warning("the batch size of a Keras data adapter is not known: %s", error)
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
        shapes = [[size, *shape[1:]] if shape else None for shape in _declared_shapes(dataset)]
    dataset._lms_sizes = (shapes, source)


def _wrap_get_tensor_spec(original: Any) -> Any:
    @functools.wraps(original)
    def get_tensor_spec(batches: Any) -> Any:
        spec = original(batches)
        columns = zip(*(tf.nest.flatten(batch) for batch in batches))
        _local.peeked = [
            _sizes.larger([_plain_shape(tf.TensorShape(item.shape)) for item in column])
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
            _keras_patches.append(_Patch(owner, "get_tf_dataset", _wrap_get_tf_dataset))
    utils: Any = sys.modules.get(f"{package}.data_adapter_utils")
    if hasattr(utils, "get_tensor_spec"):
        _keras_patches.append(_Patch(utils, "get_tensor_spec", _wrap_get_tensor_spec))


def watch_keras() -> None:
    """Starts to note what models leave to Keras and to their data, once Keras 3 is imported."""
    module = sys.modules.get("keras.src.trainers.trainer")
    trainer = getattr(module, "Trainer", None)
    if trainer is None or _keras_patches or not hasattr(trainer, "_resolve_auto_jit_compile"):
        return
    _keras_patches.append(_Patch(trainer, "_resolve_auto_jit_compile", _wrap_resolve))
    _keras_patches.append(_Patch(trainer, "compile", _wrap_compile))
    _watch_adapters()
    for patch in _keras_patches:
        patch.put()


def _remake(model: Any, name: str) -> None:
    """A model that cannot remake its function keeps the one it has: switching goes on."""
    try:
        getattr(model, f"make_{name}_function")(force=True)
    except Exception as error:
        _warn(f"the {name} function of {model.name!r} could not be made anew: {error}")


def _update_models() -> None:
    """Gives models compiled with "auto" the answer that they would be given now."""
    for model, given in list(_auto_models.items()):
        if model._jit_compile != given:  # set by hand since
            del _auto_models[model]
            continue
        answer = _global_entry is None and bool(_resolve_originally(model))
        if answer == given:
            continue
        _auto_models[model] = answer
        model.jit_compile = answer
        for name in ("train", "test", "predict"):
            if getattr(model, f"{name}_function", None) is not None:
                _remake(model, name)
    for model in list(_xla_models):
        traced = getattr(model, "train_function", None) is not None
        if _global_entry is not None and model._jit_compile and traced:
            _xla_models.discard(model)
            _warn(
                f"the model {model.name!r} was compiled with jit_compile=True: XLA hides its "
                "training step from lms, and the memory budget does not hold for it. Use "
                "model.compile(..., jit_compile=False)."
            )


watch_keras()
