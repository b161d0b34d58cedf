"""Places in the CPU's pool of memory, with oneDNN.

oneDNN joins the gradients of convolutions' biases with those of their filters, and lms runs
residual sums as one with what comes before them.
"""

from __future__ import annotations

from typing import Any

import pytest
from helpers import found_by

MIB = 2**20
LIMIT = 60
PROGRAM = """
import json
import os
import lms
import keras
import tensorflow as tf
from lms import _native

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(THREADS)
keras.utils.set_random_seed(1)
assert _native.watch_pool() == ""
x = inputs = keras.Input((12, 12, 64))
for width in (128, 160, 224, 128, 288, 160, 192, 128):  # filters that are of the pool
    y = keras.layers.BatchNormalization()(keras.layers.Conv2D(width, 3, padding="same")(x))
    y = keras.layers.BatchNormalization()(keras.layers.Conv2D(64, 1)(keras.layers.ReLU()(y)))
    x = keras.layers.ReLU()(keras.layers.Add()([x, y]))
model = keras.Model(inputs, keras.layers.Dense(4)(keras.layers.GlobalAveragePooling2D()(x)))
optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
optimizer.build(model.trainable_variables)
images = tf.random.stateless_normal([32, 12, 12, 64], [1, 2])


@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(images, training=True) ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_variables))
    return loss


if BUDGET:
    lms.enable(memory_budget=BUDGET)
losses = [float(step()).hex()]
_native.start_arena_trace()
losses += [float(step()).hex() for _ in range(STEPS)]
found = {"losses": losses, "trace": _native.stop_arena_trace(), "places": _native.place_counts()}
found["state"] = [value.numpy().tobytes().hex() for value in model.variables + optimizer.variables]
if BUDGET:
    report = lms.report()
    found |= {"status": report.status, "predicted": report.peak_after_bytes}
print("found:" + json.dumps(found), flush=True)
os._exit(0)
"""


def found(budget: str, limit: int, threads: int = 1, steps: int = 4) -> dict[str, Any]:
    code = f"BUDGET, THREADS, STEPS = {budget!r}, {threads}, {steps}\n{PROGRAM}"
    environment = {"TF_ENABLE_ONEDNN_OPTS": "1", "TF_MKL_ALLOC_MAX_BYTES": str(limit * MIB)}
    return found_by(code, **environment)


@pytest.fixture(scope="module")
def stock() -> dict[str, Any]:
    return found("", 1024)


@pytest.fixture(scope="module")
def placed() -> dict[str, Any]:
    return found("auto", LIMIT)


def test_the_bits_are_those_of_stock(stock, placed):
    assert placed["status"] == "rewritten"
    assert placed["losses"] == stock["losses"]
    assert placed["state"] == stock["state"]


def test_with_one_thread_all_tensors_are_at_their_places(placed):
    assert placed["places"]["placed"] > 100
    others = ("displaced", "overflowed", "refused")
    assert [placed["places"][name] for name in others] == [0, 0, 0]


def test_the_model_of_the_allocator_does_what_the_allocator_does(stock, placed):
    for run in (stock, placed):
        trace = run["trace"]
        assert trace["requests"] > 0 and trace["differences"] == 0 and trace["same_map"]
        assert trace["model_peak_bytes"] == trace["peak_bytes"]


@pytest.mark.slow
def test_with_two_threads_it_trains_for_long():
    many = found("auto", LIMIT, threads=2, steps=300)
    assert many["places"]["placed"] > 300 * 25
