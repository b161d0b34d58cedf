"""Calls of tf.functions: where the entry is added, and what is asked on the way.

Relies on this:

- `context.FunctionCallOptions.as_attrs()` is asked at every call of a tf.function, in
  every thread, for the ConfigProto that the call carries. Adding our entry to its answer
  reaches functions traced or run before, threads that exist already, and a context that is
  not initialised yet; settings that the user changes later are merged at the next call.
- `context.Context.call_function` is what every eager call of a tf.function goes through; it has
  the name and the inputs, and asks `as_attrs()` on its way. What one call tells of its function
  (`_learnt/sizes.py`) is put aside there and taken up in `as_attrs()`.
- `polymorphic_function.Function` keeps what the user asked about XLA in `_jit_compile`.
- Keras calls the functions by which XLA computes convolutions of groups `_COMPILED_BY_KERAS`.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import threading
import weakref
from typing import Any

import tensorflow as tf

from lms import _native
from lms._base.failure import fail_if_injected, shielded
from lms._base.planning_note import noted
from lms._learnt import feedback as _feedback
from lms._learnt import out_of_memory as _out_of_memory
from lms._tf import link as _tf_link
from lms._tf.arguments import batch_bytes, open_sizes, update_sizes
from lms._tf.entry import Entry, Told
from lms._tf.hints import hints_text
from lms._tf.oom_note import add_note
from lms._tf.patch import Patch, log, warn
from lms._tf.private import private_module
from lms._tf.sessions import SESSION_PATCH
from lms._tf.state import active

_context = private_module("tensorflow.python.eager.context")
_function = private_module("tensorflow.python.eager.polymorphic_function.polymorphic_function")


class _Call:
    """A call: the entry that it began with, and what it tells the optimizer."""

    def __init__(self, entry: Entry | None):
        self.entry = entry
        self.told = Told()
        self.first = False  # of its function: it may be planned

    def tell(self, **parts: str) -> None:
        self.told = self.told._replace(**parts)


class _Local(threading.local):
    """The call that is about to ask as_attrs(). Another thread may switch lms while it is on its
    way there: what it tells goes with the entry that it was asked for, or with none."""

    call: _Call | None = None


_local = _Local()
_in_flight: collections.deque[None] = collections.deque()  # one entry for each call
_begun = itertools.count()  # of calls
_warned_functions: weakref.WeakSet[Any] = weakref.WeakSet()
# Convolutions of groups, of Keras 3 and Keras 2: nobody has asked for these to be compiled, and
# what they take is known.
_COMPILED_BY_KERAS = ("_conv_xla", "_jit_compiled_convolution_op")


def _wrap_as_attrs(original: Any) -> Any:
    @functools.wraps(original)
    def as_attrs(self: Any) -> Any:
        attrs = original(self)
        with shielded("entry"):
            call, _local.call = _local.call, None
            fail_if_injected("entry")
            entry, told = (active(), Told()) if call is None else (call.entry, call.told)
            # Calls written into a graph keep the user's configuration: their bodies are inlined
            # into the caller's graph, and neither disable() nor a saved model must find our entry
            # there. (The price: a body marked _noinline is not seen.)
            silenced = self.config_proto_serialized is None
            if entry is None or silenced or not tf.executing_eagerly():
                return attrs
            merged = entry.merge_serialized(attrs["config_proto"], told)
            return {**attrs, "config_proto": merged}
        return attrs

    return as_attrs


def _begin(
    context: Any, call: _Call, entry: Entry, name: bytes, inputs: Any
) -> _feedback.Step | None:
    """Notes what the call tells of its function; the step that is measured with it, if any."""
    known, sizes, recorded = None, "", ""
    call.first = entry.note_call(name)
    entry.workers.called(context, name)
    with shielded("swap link"):
        fail_if_injected("swap link")
        if entry.swaps:
            _tf_link.measure_host_link()
    with shielded("hints"):
        fail_if_injected("hints")
        call.tell(hints=hints_text(context, name, inputs))
    with shielded("sizes"):
        fail_if_injected("sizes")
        known = open_sizes(context, name, inputs)
    with shielded("size check"):
        fail_if_injected("size check")
        entry.check_sizes(context, name, inputs)
    shown = ""
    with shielded("sizes"):
        if known is not None:
            shown = update_sizes(known, name, inputs)
            sizes = entry.held_sizes(context, name, shown) if shown else shown
            call.tell(seen_sizes=sizes, data_may_end="yes" if known.data_may_end else "")
            call.tell(seen_values=known.numbers)
    with shielded("sizes"):
        call.tell(keep_random=entry.keep_random(context, name))
        if entry.plans_again:
            call.tell(mark_changes=name.decode())
        recorded = _native.recorded_sizes(name.decode())
        call.tell(record_sizes="yes", recorded=recorded)
    with shielded("feedback"):
        fail_if_injected("feedback")
        _feedback.disturb()
        step = entry.step(context, name)
        if step is None:
            return None
        call.tell(feedback=step.parameter)
        # A smaller batch than planned for tells nothing of the plan.
        full = step.done or known is None or (sizes == shown and known.full(inputs))
        if step.done or not full:
            return None
        batch = batch_bytes(known, context, name, inputs)
        planned_for = f"{sizes} {recorded} {call.told.data_may_end}"
        if step.begin(planned_for, len(_in_flight) == 1, batch):
            return step
    return None


def _end(step: _feedback.Step | None, returned: bool) -> None:
    if step is not None:
        with shielded("feedback"):
            step.end(returned)


def _run_again(
    error: tf.errors.ResourceExhaustedError, context: Any, entry: Entry, name: bytes, alone: bool
) -> bool:
    """After a call that ran out of memory: may it be run again? Else the error says what would
    train."""
    with shielded("out of memory"):
        fail_if_injected("out of memory")
        again, words = False, ""
        if entry.plans_again:
            step = entry.step(context, name)
            again, words = _out_of_memory.planned_lower(error.message, step, alone)
        if again:
            log.warning("lms: %s", words)
            return True
        add_note(error, name.decode(), words)
    return False


def _wrap_call_function(original: Any) -> Any:
    def run(context: Any, call: _Call, *arguments: Any) -> Any:
        _local.call = call
        try:
            return original(context, *arguments)
        finally:
            _local.call = None  # where it did not come as far as as_attrs()

    def run_once(context: Any, entry: Entry, name: bytes, inputs: Any, num_outputs: int) -> Any:
        call = _Call(entry)
        measured = None
        try:
            if entry.plans_again:
                _native.forget_changes(name.decode())
            measured = _begin(context, call, entry, name, inputs)
            with noted() if call.first else contextlib.nullcontext():
                outputs = run(context, call, name, inputs, num_outputs)
        except BaseException:
            _end(measured, returned=False)
            raise
        _end(measured, returned=True)
        if entry.plans_again:
            _native.forget_changes(name.decode())
        return outputs

    @functools.wraps(original)
    def call_function(self: Any, name: bytes, tensor_inputs: Any, num_outputs: int) -> Any:
        entry = active()
        if entry is None:
            return run(self, _Call(None), name, tensor_inputs, num_outputs)
        _in_flight.append(None)
        try:
            while True:
                number = next(_begun)
                alone = len(_in_flight) == 1
                try:
                    return run_once(self, entry, name, tensor_inputs, num_outputs)
                except tf.errors.ResourceExhaustedError as error:
                    alone = alone and next(_begun) == number + 1
                    if not _run_again(error, self, entry, name, alone):
                        raise
        finally:
            _in_flight.pop()

    return call_function


def _wrap_function_call(original: Any) -> Any:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with shielded("jit warning"):
            fail_if_injected("jit warning")
            asked = self._jit_compile and self.name not in _COMPILED_BY_KERAS
            if asked and active() is not None and self not in _warned_functions:
                _warned_functions.add(self)
                warn(
                    f"{self.name} is compiled by XLA (jit_compile=True): its body is invisible to "
                    "lms, and the memory budget does not hold for it. Leave jit_compile=True out "
                    "(Keras: model.compile(..., jit_compile=False))."
                )
        return original(self, *args, **kwargs)

    return call


PATCHES = (
    Patch(_context, "as_attrs", _wrap_as_attrs, "FunctionCallOptions"),
    Patch(_context, "call_function", _wrap_call_function, "Context"),
    SESSION_PATCH,
    Patch(_function, "__call__", _wrap_function_call, "Function"),
)
