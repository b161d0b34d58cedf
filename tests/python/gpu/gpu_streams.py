"""Programs on the stand-in GPU, run by gpu_child: copies that only the device waits for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import gpu_child
from gpu_child import standin

WIDTH, ROWS, LAYERS = 256, 64, 40


def _gradient(tf: Any, weights: list[Any], branched: bool) -> Callable:
    """Of a chain, with nothing in it that makes the host wait for the device."""

    def body(y: Any, i: Any) -> Any:
        del i
        for weight in weights:
            y = tf.tanh(tf.matmul(y, weight))
        return y

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = body(x, 0)
            if branched:
                y = tf.reshape(tf.reshape(y, [-1]), [ROWS, WIDTH])
                y = tf.cond(y[0, 0] < 2.0, lambda: body(y, 1), lambda: y)
            loss = tf.reduce_sum(y * y)
        return tape.gradient(loss, x)

    return step


def _timed(step: Callable, x: Any) -> tuple[float, float, str]:
    """Seconds until the host has handed the step over, until it has ended; its result."""
    begin = time.perf_counter()
    result = step(x)
    handed_over = time.perf_counter() - begin
    text = result.numpy().tobytes().hex()
    return handed_over, time.perf_counter() - begin, text


def _compare(branched: bool) -> dict[str, Any]:
    import lms
    import tensorflow as tf

    weights = [
        tf.constant(tf.random.stateless_normal([WIDTH, WIDTH], [1, i]) / WIDTH**0.5)
        for i in range(LAYERS)
    ]
    inputs = [tf.random.stateless_normal([ROWS, WIDTH], [7, i]) for i in range(12)]
    stock = _gradient(tf, weights, branched)
    expected = [_timed(stock, x)[2] for x in inputs]
    link = lms.SwapOptions(out_bandwidth=2e10, in_bandwidth=2e10)
    with lms.enabled(memory_budget="min", recompute=False, replan=False, swap=link):
        step = _gradient(tf, weights, branched)
        first = [_timed(step, x) for x in inputs]
        # Steps that begin while others run on the device.
        begin = standin.traffic(standin.OUT).bytes
        ahead = [step(x) for x in inputs]
        results = [result.numpy().tobytes().hex() for result in ahead]
        copied = standin.traffic(standin.OUT).bytes - begin
        end = time.monotonic() + 30
        while lms.swap_statistics().host_bytes and time.monotonic() < end:
            time.sleep(0.01)
    report, statistics = lms.report(), lms.swap_statistics()
    times = sorted(times[:2] for times in first)
    return {
        "status": report.status,
        "swapped": report.swapped_bytes,
        "same": [one[2] for one in first] == expected,
        "same_ahead": results == expected,
        "copied": copied / len(inputs),
        "handed_over": times[0][0],
        "took": min(took for _, took in times),
        "left": statistics.host_bytes,
        "most_pinned": statistics.peak_host_bytes,
    }


def chain() -> dict[str, Any]:
    return _compare(branched=False)


def branches() -> dict[str, Any]:
    return _compare(branched=True)


if __name__ == "__main__":
    gpu_child.main(globals(), threads=int(os.environ.get("TEST_THREADS", "1")))
