"""The only file that touches private names of TensorFlow and Keras.

What it relies on (the same in TensorFlow 2.16 to 2.21 and Keras 3.0 to 3.15):

- `context.FunctionCallOptions.as_attrs()` is asked at every call of a tf.function, in
  every thread, for the ConfigProto that the call carries. Adding our entry to its answer
  reaches functions traced or run before, threads that exist already, and a context that is
  not initialised yet; settings that the user changes later are merged at the next call. No
  state of TensorFlow's is written, so taking the wrapper away restores everything.
- `session.BaseSession.__init__` takes the ConfigProto of a v1 session.
- `polymorphic_function.Function` keeps what the user asked about XLA in `_jit_compile`.
- `_pywrap_profiler.ProfilerSession` traces operations, and returns the events as a
  `trace_events_pb2.Trace`, in which those of kernels have a `long_name`, "node:type".
- Keras' `Trainer._resolve_auto_jit_compile()` answers what jit_compile="auto" means.

A wrapper is in place only while somebody needs it. One exception: Keras' `compile` and
`_resolve_auto_jit_compile` are wrapped from the import of lms on, so that a model compiled
before enable() is known to have said "auto"; while lms is off, they change nothing.
"""

from __future__ import annotations

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
from tensorflow.python.eager import context as _context
from tensorflow.python.eager.polymorphic_function import polymorphic_function as _function
from tensorflow.python.profiler.internal import _pywrap_profiler
from tensorflow.tsl.profiler.protobuf import trace_events_pb2 as _trace_events

OPTIMIZER = "LmsOptimizer"
_CACHED_CONFIGS = 64

_log = logging.getLogger("lms")
_lock = threading.RLock()


class Entry:
    """The optimizer's entry as it is merged into the configurations of TensorFlow."""

    def __init__(self, config: RewriterConfig):
        self._config = config
        self._merged: dict[bytes, bytes] = {}
        self._warned: set[str] = set()

    def merge(self, config: tf.compat.v1.ConfigProto) -> tf.compat.v1.ConfigProto:
        """A copy of `config` with the entry added; an entry that it has already wins."""
        merged = tf.compat.v1.ConfigProto()
        merged.CopyFrom(config)
        rewrite = merged.graph_options.rewrite_options
        if any(entry.name == OPTIMIZER for entry in rewrite.custom_optimizers):
            return merged
        rewrite.custom_optimizers.extend(self._config.custom_optimizers)
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

    def merge_serialized(self, config: bytes) -> bytes:
        merged = self._merged.get(config)
        if merged is None:
            proto = self.merge(tf.compat.v1.ConfigProto.FromString(config))
            merged = proto.SerializeToString(deterministic=True)
            if len(self._merged) >= _CACHED_CONFIGS:
                self._merged.clear()
            self._merged[config] = merged
        return merged

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            _warn(text)


class _Patch:
    """One attribute of a class that is replaced while it has users."""

    def __init__(self, owner: type, name: str, wrap: Callable[[Any], Any]):
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
        return {**attrs, "config_proto": entry.merge_serialized(attrs["config_proto"])}

    return as_attrs


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


def watch_keras() -> None:
    """Starts to note which models leave jit_compile to Keras, once Keras 3 is imported."""
    module = sys.modules.get("keras.src.trainers.trainer")
    trainer = getattr(module, "Trainer", None)
    if trainer is None or _keras_patches or not hasattr(trainer, "_resolve_auto_jit_compile"):
        return
    _keras_patches.append(_Patch(trainer, "_resolve_auto_jit_compile", _wrap_resolve))
    _keras_patches.append(_Patch(trainer, "compile", _wrap_compile))
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
