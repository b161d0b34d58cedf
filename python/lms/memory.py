"""Measured memory: lms.memory.reset_peak(), peak_bytes(), bytes_in_use().

On a CPU these are the bytes asked of TensorFlow's allocator, counted allocation by
allocation from the first call of any function here on; what was allocated before then is not
counted, until it is replaced (an update of a variable that is being read copies it: the copy
counts). Call reset_peak() before making a model to have all of it in bytes_in_use(). On a GPU
they are what TensorFlow's own allocator reports (get_memory_info), whose peak lms itself lets start
again where it measures a step (feedback): peak_bytes() keeps the higher one.

The device is "CPU" or "GPU:<number>", with or without the prefixes "/", "/device:" and the
like; None is the first GPU where there is one, else the CPU.
"""

from __future__ import annotations

import re

import tensorflow as tf

from lms import _native

# By GPU: the highest peak before one that lms itself let start again.
_higher: dict[str, int] = {}


class GpuPeak:
    """What a GPU's memory in use rises by from here on. `device`: as elsewhere in this module.

    anew: the peak starts again. Else it may be one that was before, and higher.
    """

    def __init__(self, device: str, anew: bool = True):
        gpu = _gpu(device)
        assert gpu is not None, device
        self._gpu = gpu
        info = tf.config.experimental.get_memory_info(gpu)
        self._before = int(info["current"])
        if anew:
            _higher[gpu] = max(_higher.get(gpu, 0), info["peak"])
            tf.config.experimental.reset_memory_stats(gpu)

    def rise(self) -> int:
        """Bytes from what was in use at the beginning to the highest since."""
        return int(tf.config.experimental.get_memory_info(self._gpu)["peak"]) - self._before


def reset_peak(device: str | None = None) -> None:
    """Lets the peak start again from what is in use now."""
    gpu = _gpu(device)
    if gpu is not None:
        _higher.pop(gpu, None)
        tf.config.experimental.reset_memory_stats(gpu)
    else:
        _native.memory_reset_peak()
        _check()


def peak_bytes(device: str | None = None) -> int:
    """The most that was in use at one time since reset_peak() (or the first call)."""
    gpu = _gpu(device)
    if gpu is not None:
        peak = int(tf.config.experimental.get_memory_info(gpu)["peak"])
        return max(peak, _higher.get(gpu, 0))
    value = _native.memory_peak_bytes()
    _check()
    return value


def bytes_in_use(device: str | None = None) -> int:
    """What is in use now."""
    gpu = _gpu(device)
    if gpu is not None:
        return int(tf.config.experimental.get_memory_info(gpu)["current"])
    value = _native.memory_bytes_in_use()
    _check()
    return value


def _check() -> None:
    problem = _native.memory_error()
    if problem:
        raise RuntimeError(f"lms cannot count the CPU's allocations: {problem}")


def _gpu(device: str | None) -> str | None:
    """The GPU's name as tf.config wants it; None for the CPU."""
    # Asking for physical devices does not initialise TensorFlow's context.
    gpus = []
    if tf.config.list_physical_devices("GPU"):
        gpus = [f"GPU:{index}" for index in range(len(tf.config.list_logical_devices("GPU")))]
    if device is None:
        return gpus[0] if gpus else None
    match = re.fullmatch(
        r"(?:/job:\w+/replica:\d+/task:\d+)?/?(?:device:)?(cpu|gpu)(?::(\d+))?",
        device if isinstance(device, str) else "",
        re.IGNORECASE,
    )
    if match:
        kind, number = match.group(1).upper(), int(match.group(2) or 0)
        if kind == "CPU" and number == 0:
            return None
        if f"{kind}:{number}" in gpus:
            return f"{kind}:{number}"
    raise ValueError(f"unknown device {device!r}; accepted: None, {', '.join(['CPU', *gpus])}")
