"""The stand-in GPU (README.md beside this file), for programs that run in a process of their own.

import standin
standin.load(memory_mb=64)  # before TensorFlow's context is made
import tensorflow as tf     # has a GPU:0 now
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Built with the C++ tests.
LIBRARY = Path(
    os.environ.get("STANDIN_LIBRARY")
    or HERE.parent.parent / "build/dev/tests/standin/liblms_standin.so"
)
OUT, IN, WITHIN = range(3)  # from a device to the host, to it, on it
_loaded: list[ctypes.CDLL] = []


@dataclasses.dataclass(frozen=True)
class Traffic:
    """What went one way over the link. Bytes, and microseconds that copies took."""

    copies: int
    bytes: int
    pageable_bytes: int
    wrong: int
    microseconds: int


@dataclasses.dataclass(frozen=True)
class Chunks:
    """A device's arena, in bytes: chunks in use, what was asked for of them, what is free."""

    in_use: int
    requested: int
    free: int
    largest_free: int


def available() -> bool:
    """Was it built? Only for x86-64 and TensorFlow 2.21."""
    return LIBRARY.exists()


def arena_bytes() -> int:
    """What each device has, by its settings."""
    return int(float(os.environ.get("STANDIN_MEMORY_MB", "1024")) * 2**20)


def load(**settings: object) -> None:
    """Makes the devices known to TensorFlow. `settings`: names of settings.h, in lower case.

    What the environment has set already (STANDIN_MEMORY_MB and others) stays where it is not given.
    """
    for name, value in settings.items():
        os.environ["STANDIN_" + name.upper()] = str(int(value) if value in (True, False) else value)
    os.environ.setdefault("STANDIN_KERNELS", str(HERE / "gpu_kernels.txt"))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf
    from tensorflow.python.framework import load_library

    load_library.load_pluggable_device_library(str(LIBRARY))
    _loaded.append(ctypes.CDLL(str(LIBRARY)))
    assert tf.config.list_physical_devices("GPU"), "the context was there before the stand-in"


def traffic(way: int) -> Traffic:
    return Traffic(*_figures("standin_traffic", 16)[5 * way : 5 * way + 5])


def pinned_bytes() -> int:
    """Pinned host memory in use, TensorFlow's pool included."""
    return _figures("standin_traffic", 16)[15]


def chunks(device: int = 0) -> Chunks:
    figures = (ctypes.c_int64 * 4)()
    _loaded[0].standin_chunks(device, figures)
    return Chunks(*figures)


def print_chunks(device: int = 0, least: int = 65536) -> None:
    """Writes the chunks in use of `least` bytes and more to stderr: bytes, bytes asked for, op."""
    _loaded[0].standin_print_chunks(device, ctypes.c_int64(least))


def first_address(device: int = 0) -> int:
    """An address of the device's memory, once it has an arena; 0 before."""
    function = _loaded[0].standin_first_address
    function.restype = ctypes.c_void_p
    return function(device) or 0


def fail_copy(way: int, after: int) -> None:
    """The `after`th copy from now in this direction fails, once; 0: none does."""
    _loaded[0].standin_fail_copy(way, ctypes.c_int64(after))


def _figures(function: str, count: int) -> list[int]:
    figures = (ctypes.c_int64 * count)()
    getattr(_loaded[0], function)(figures)
    return list(figures)
