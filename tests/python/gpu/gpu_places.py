"""Programs whose large tensors get places in the stand-in GPU's memory, run by gpu_child."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Any

import gpu_child
from gpu_child import standin

GPU = "GPU:0"
ROWS = 2048
# No two neighbours are of one size, so what one leaves the next does not fill.
WIDTHS = [96, 160, 64, 224, 128, 72, 192, 104, 256, 80, 144, 112] * 3


def _make(tf: Any, fails: bool = False) -> tuple[Callable, list[Any], Any]:
    """A step of layers of many sizes. `fails`: in its middle, where the argument is 2 or more."""
    pairs = list(zip(WIDTHS, WIDTHS[1:]))
    weights = [
        tf.Variable(tf.random.stateless_normal(pair, [3, i]) / pair[0] ** 0.5)
        for i, pair in enumerate(pairs)
    ]
    x = tf.random.stateless_normal([ROWS, WIDTHS[0]], [3, 99])

    @tf.function
    def step(scale: Any = 1.0) -> Any:
        with tf.GradientTape() as tape:
            y = x * scale
            for i, weight in enumerate(weights):
                y = tf.tanh(tf.matmul(y, weight))
                if fails and 2 * i == len(weights) - 1:
                    with tf.control_dependencies([tf.debugging.assert_less(scale, 2.0)]):
                        y = tf.identity(y)
            loss = tf.reduce_sum(y * y)
        gradients = tape.gradient(loss, weights)
        for weight, gradient in zip(weights, gradients):
            weight.assign_sub(1e-6 * gradient)
        return loss

    return step, weights, x


def _state(values: list[Any]) -> str:
    return hashlib.sha256(b"".join(value.numpy().tobytes() for value in values)).hexdigest()


def _facts(lms: Any, tf: Any, **more: Any) -> dict[str, Any]:
    from lms import _native

    report = lms.report()
    return {
        **more,
        "status": str(report.status),
        "reason": report.reason,
        "added": report.predicted_time_overhead,
        "predicted": report.peak_after_bytes,
        "lost": report.lost_after_bytes,
        "places": _native.place_counts(),
        "in_use": int(tf.config.experimental.get_memory_info(GPU)["current"]),
    }


def train(steps: int = 4, place: bool = True, budget: str = "auto") -> dict[str, Any]:
    import lms
    import tensorflow as tf

    step, weights, _ = _make(tf)
    peaks, losses = [], []
    with lms.enabled(memory_budget=budget, place=place):
        try:
            for _ in range(steps):
                tf.config.experimental.reset_memory_stats(GPU)
                losses.append(float(step(tf.constant(1.0))))
                peaks.append(int(tf.config.experimental.get_memory_info(GPU)["peak"]))
        except tf.errors.ResourceExhaustedError as error:
            return _facts(lms, tf, losses=losses, error=str(error)[:80])
    return _facts(lms, tf, losses=losses, peaks=peaks, state=_state(weights))


def predict_after_training() -> dict[str, Any]:
    """By a function whose operations have the names and sizes that the step's have."""
    import lms
    import tensorflow as tf
    from lms import _native

    step, weights, x = _make(tf)

    @tf.function
    def predict(scale: Any) -> Any:
        y = x * scale
        for weight in weights:
            y = tf.tanh(tf.matmul(y, weight))
        return tf.reduce_sum(y * y)

    with lms.enabled(memory_budget="auto"):
        step(tf.constant(1.0))
        trained = _native.place_counts()
        predict(tf.constant(1.0))
    return {"trained": trained, "predicted": _native.place_counts()}


def train_by_requests() -> dict[str, Any]:
    return train(place=False)


def at_once() -> dict[str, Any]:
    """Planned while others take three quarters of the device; then two steps at a time."""
    import lms
    import tensorflow as tf
    from lms import _native

    step, weights, _ = _make(tf)
    before = [weight.numpy() for weight in weights]
    with lms.enabled(memory_budget="auto"):
        with tf.device(GPU):
            ballast = [tf.zeros([2**18]) for _ in range(standin.arena_bytes() * 3 // 4 >> 20)]
        expected = float(step(tf.constant(1.0)))
        alone = _native.place_counts()
        del ballast
        losses = []
        for _ in range(4):
            for weight, value in zip(weights, before):
                weight.assign(value)
            threads = [
                threading.Thread(target=lambda: losses.append(float(step(tf.constant(1.0)))))
                for _ in range(2)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    return _facts(lms, tf, losses=losses, expected=expected, alone=alone)


def after_failure() -> dict[str, Any]:
    """Every other step fails in its middle."""
    import lms
    import tensorflow as tf

    step, weights, _ = _make(tf, fails=True)
    with lms.enabled(memory_budget="auto"):
        losses, failures, in_use = [], 0, []
        for _ in range(3):
            losses.append(float(step(tf.constant(1.0))))
            try:
                step(tf.constant(2.0))
            except tf.errors.InvalidArgumentError:
                failures += 1
            in_use.append(int(tf.config.experimental.get_memory_info(GPU)["current"]))
    return _facts(lms, tf, losses=losses, failures=failures, after=in_use, state=_state(weights))


def without_failures() -> dict[str, Any]:
    import lms
    import tensorflow as tf

    step, weights, _ = _make(tf, fails=True)
    with lms.enabled(memory_budget="auto"):
        losses = [float(step(tf.constant(1.0))) for _ in range(3)]
    return _facts(lms, tf, losses=losses, state=_state(weights))


if __name__ == "__main__":
    gpu_child.main(globals(), threads=2)
