"""Does the device compute and copy right, and how fast? A few seconds, before anything else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import _gpu
import tensorflow as tf

GPU, CPU = "GPU:0", "CPU:0"
COPY_BYTES = 64 << 20
TOLERANCE = 2e-3  # of the largest value: TensorFloat-32 has 10 bits
ROUNDS = 3


def _programs() -> dict[str, Callable[[], tf.Tensor]]:
    rows = tf.random.stateless_normal([256, 192], [1, 2])
    pictures = tf.random.stateless_normal([4, 24, 24, 16], [1, 3])
    kernel = tf.random.stateless_normal([3, 3, 16, 8], [1, 4])

    def gradient() -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            loss = tf.reduce_sum(tf.tanh(tf.nn.conv2d(pictures, kernel, 1, "SAME")))
        return tape.gradient(loss, kernel)

    return {
        "product of matrices": lambda: tf.matmul(rows, rows, transpose_a=True),
        "convolution": lambda: tf.nn.conv2d(pictures, kernel, 1, "SAME"),
        "gradient of a convolution": gradient,
        "pooling": lambda: tf.nn.max_pool2d(pictures, 2, 2, "VALID"),
        "sum": lambda: tf.reduce_sum(pictures, [0, 1, 2]),
        "softmax": lambda: tf.nn.softmax(rows),
    }


def _off(one: tf.Tensor, other: tf.Tensor) -> float:
    """The largest difference, over the largest value."""
    return float(tf.reduce_max(tf.abs(one - other)) / tf.reduce_max(tf.abs(other)))


def _seconds(run: Callable[[], object]) -> float:
    """The least of some runs, after one that does not count."""
    taken = []
    for _ in range(1 + ROUNDS):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return min(taken[1:])


def measure() -> dict[str, Any]:
    """Differences from the CPU, and rates: bytes/s each way (not pinned), operations/s."""
    off = {}
    for name, program in _programs().items():
        values = []
        for device in (GPU, CPU):
            with tf.device(device):
                values.append(tf.function(program)().numpy())
        off[name] = _off(*map(tf.constant, values))
    with tf.device(CPU):
        there = tf.zeros([COPY_BYTES // 4])
    with tf.device(GPU):
        into = _seconds(lambda: tf.identity(there)[:1].numpy())
        far = tf.identity(there)
        side = 1024 if _gpu.is_standin() else 8192
        square = tf.random.stateless_normal([side, side], [1, 5])
        product = _seconds(lambda: tf.matmul(square, square)[:1, :1].numpy())
    out = _seconds(far.numpy)
    return {
        "device": _gpu.name(),
        "differences": off,
        "wrong": [name for name, difference in off.items() if not difference <= TOLERANCE],
        "in_bytes_per_second": COPY_BYTES / into,
        "out_bytes_per_second": COPY_BYTES / out,
        "operations_per_second": 2 * side**3 / product,
    }


def in_words(found: dict[str, Any]) -> str:
    worst = max(found["differences"].values())
    return (
        f"{found['device']}: {len(found['differences'])} programs as on the CPU (at most "
        f"{worst:.1e} off), {found['operations_per_second'] / 1e12:.3g} TFLOP/s in a product of "
        f"matrices, copies from pageable memory {found['in_bytes_per_second'] / 1e9:.2g} GB/s in, "
        f"{found['out_bytes_per_second'] / 1e9:.2g} GB/s out"
    )
