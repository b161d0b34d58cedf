"""Replicas of a step on several stand-in GPUs (tests/standin), run by gpu_child."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import gpu_child
from gpu_programs import ROWS, WIDTH, _in_use, _peak, _state


def _replicas(tf: Any) -> tuple[Any, list[str]]:
    names = [device.name for device in tf.config.list_logical_devices("GPU")]
    by_one = tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(names, cross_device_ops=by_one), names


def _by_both(train: Callable[[], tuple[list[float], str, list[list[int]]]]) -> dict[str, Any]:
    """What train() returns (losses, weights, peaks of activations per device and step), by both."""
    import lms

    # First, as what ran before leaves each arena its own holes.
    with lms.enabled(memory_budget="60%"):
        ours = train()
    by_stock = train()
    reports = [
        {
            "device": report.device,
            "status": report.status,
            "plan": report.reason.partition(" lower")[0],
            "others": re.findall("the plan for .* would take (.*) here", report.reason),
            "after": report.peak_after_bytes,
            "budget": report.budget_bytes,
            "resident": report.resident_bytes,
        }
        for report in lms.reports()
        if "GPU" in report.device and report.status != "skipped"
    ]
    return {"stock": by_stock[:2], "lms": ours[:2], "peaks": ours[2], "reports": reports}


def mirrored_fit() -> dict[str, Any]:
    """MirroredStrategy over the devices, by Keras' fit."""
    import keras
    import numpy as np
    import tensorflow as tf

    strategy, names = _replicas(tf)
    data = np.random.default_rng(0).normal(size=(len(names) * ROWS, WIDTH)).astype(np.float32)

    def train() -> tuple[list[float], str, list[list[int]]]:
        keras.utils.set_random_seed(3)
        with strategy.scope():
            model = keras.Sequential([keras.Input((WIDTH,))])
            for _ in range(10):
                model.add(keras.layers.Dense(WIDTH, "tanh"))
            model.add(keras.layers.Dense(1))
            model.compile("sgd", "mse", jit_compile=False)
        history = model.fit(
            data, data[:, :1], batch_size=len(data), epochs=2, shuffle=False, verbose=0
        )
        return history.history["loss"], _state(model.trainable_variables), []

    return {**_by_both(train), "devices": names}


def mirrored_loop() -> dict[str, Any]:
    """The same by a loop of one's own, and what each device's steps take."""
    import tensorflow as tf

    strategy, names = _replicas(tf)
    data = tf.random.stateless_normal([ROWS, WIDTH], [1, 2])
    batch = strategy.experimental_distribute_values_from_function(
        lambda context: data * (1 + context.replica_id_in_sync_group)
    )

    def train() -> tuple[list[float], str, list[list[int]]]:
        widths = [*[WIDTH] * 11, 1]
        with strategy.scope():
            weights = [
                tf.Variable(0.1 * tf.random.stateless_normal([before, after], [3, layer]))
                for layer, (before, after) in enumerate(zip(widths, widths[1:]))
            ]

        def replica(x: Any) -> Any:
            with tf.GradientTape() as tape:
                y = x
                for weight in weights:
                    y = tf.tanh(y @ weight)
                loss = tf.reduce_mean((y - x[:, :1]) ** 2)
            gradients = tf.distribute.get_replica_context().all_reduce(
                tf.distribute.ReduceOp.SUM, tape.gradient(loss, weights)
            )
            for weight, gradient in zip(weights, gradients):
                weight.assign_sub(0.01 * gradient)
            return loss

        @tf.function
        def step() -> Any:
            losses = strategy.run(replica, [batch])
            return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, None)

        losses = [float(step()) for _ in range(9)]  # what is over its budget has been planned anew
        devices = [name.partition("device:")[2] for name in names]
        peaks: list[list[int]] = [[] for _ in devices]
        for _ in range(5):
            before = [_in_use(tf, device) for device in devices]
            losses.append(float(step()))
            for peak, device, used in zip(peaks, devices, before):
                peak.append(_peak(tf, device) - used)
        return losses, _state(weights), peaks

    return {**_by_both(train), "devices": names}


if __name__ == "__main__":
    gpu_child.main(globals())
