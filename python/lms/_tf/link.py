"""The way from a GPU to the host, measured once by an op that is run by its name.

Relies on this: `execute.execute` runs an op by its name in an eager context, and
`op_def_registry.get` says whether there is one of that name.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

import tensorflow as tf

from lms import _native
from lms._tf.private import private_module

_context = private_module("tensorflow.python.eager.context")
_execute = private_module("tensorflow.python.eager.execute")
_op_def_registry = private_module("tensorflow.python.framework.op_def_registry")

_log = logging.getLogger("lms")
_lock = threading.Lock()
_host_link_known = False
_BYTES = 64 << 20  # of a copy at most


def first_gpu() -> str | None:
    """The full name of the first GPU that TensorFlow runs on; None where there is none."""
    devices = tf.config.list_logical_devices("GPU")
    return devices[0].name if devices else None


def run_measure_link(device: str) -> list[float] | None:
    """Runs the op that measures the way from this GPU to the host; None in a build without it.

    Returns bytes per microsecond out and in, the same while both are busy, and microseconds of
    latency.
    """
    if _op_def_registry.get("LmsMeasureLink") is None:
        return None
    with tf.device(device):
        (figures,) = _execute.execute(
            b"LmsMeasureLink",
            num_outputs=1,
            inputs=[],
            attrs=("bytes", _BYTES),
            ctx=_context.context(),
        )
    return [float(figure) for figure in figures.numpy()]


def wants_host_link(options: Mapping[str, object]) -> bool:
    """May these options swap from a GPU, over a link whose speed they do not give?"""
    given = "swap_out_bandwidth" in options and "swap_in_bandwidth" in options
    return bool(options.get("swap", True)) and not given


def measure_host_link(anew: bool = False) -> str:
    """Measures the way between the first GPU and the host where that is not known yet.

    Returns what was done in words, "" where nothing was to be done. Starts TensorFlow's devices,
    so it is for the first call of a function. Raises nothing: without a figure the planner
    takes the way to be slow.
    """
    global _host_link_known
    if _host_link_known and not anew:
        return ""
    with _lock:
        if _host_link_known and not anew:
            return ""
        _host_link_known = True  # once, whatever comes of it
        try:
            device = first_gpu()
            if device is None or not (anew or _native.needs_host_link(device)):
                return ""
            figures = run_measure_link(device)
            if figures is None:
                return ""
            problem = _native.store_host_link(device, figures)
            rates = f"{figures[0] / 1e3:.3g} GB/s to the host, {figures[1] / 1e3:.3g} GB/s back"
            if problem:
                _log.warning("what %s carries (%s) is not kept: %s", device, rates, problem)
            else:
                _log.info("%s: %s", device, rates)
            return f"{device}: {rates}"
        except Exception as error:
            _log.warning("the way from the GPU to the host could not be measured: %s", error)
            return ""
