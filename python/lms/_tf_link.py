"""The op that measures the way from a GPU to the host, run by its name.

Relies on this: `execute.execute` runs an op by its name in an eager context, and
`op_def_registry.get` says whether there is one of that name.
"""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.eager import context as _context
from tensorflow.python.eager import execute as _execute
from tensorflow.python.framework import op_def_registry as _op_def_registry

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
