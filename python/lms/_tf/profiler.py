"""What TensorFlow's profiler tells of the operations that ran.

Relies on this: `_pywrap_profiler.ProfilerSession` traces operations, and returns the events as a
`trace_events_pb2.Trace`, in which those of kernels have a `long_name`, "node:type".
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import trace_events_pb2 as _trace_events

from lms._tf.private import private_module

_pywrap_profiler = private_module("tensorflow.python.profiler.internal._pywrap_profiler")


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
