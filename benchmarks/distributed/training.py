"""One worker: trains a model by stock twice, then at each budget, always from the same weights.

Runs with the arguments and the TF_CONFIG that cluster.py gives it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import lms
import numpy as np
import tensorflow as tf
from _measure import one_thread_of_each_kind

from distributed.cluster import say

SIZE, CLASSES, IMAGES = 64, 100, 8  # of ResNet-50; images for each worker
WORDS, LENGTH, WIDTH, TEXTS = 512, 128, 128, 8  # of the transformer
WARM_UP = 4  # steps in which lms plans and measures, and pipelines fill their buffers

Trained = Callable[[int], dict[str, Any]]


def transformer(keras: Any) -> Any:
    layers = keras.layers
    inputs = keras.Input((LENGTH,), dtype="int32")
    y = layers.Embedding(WORDS, WIDTH)(inputs)
    for _ in range(4):
        attention = layers.MultiHeadAttention(4, WIDTH // 4)
        z = layers.LayerNormalization()(y)
        y = layers.Add()([y, attention(z, z, use_causal_mask=True)])
        z = layers.LayerNormalization()(y)
        z = layers.Dense(4 * WIDTH, "gelu")(z)
        y = layers.Add()([y, layers.Dense(WIDTH)(z)])
    return keras.Model(inputs, layers.Dense(WORDS)(y))


def resnet50(keras: Any) -> Any:
    shape = (SIZE, SIZE, 3)
    make = keras.applications.ResNet50
    return make(weights=None, input_shape=shape, classes=CLASSES, classifier_activation=None)


MODELS = {"resnet50": resnet50, "transformer": transformer}


def data_of(model: str, workers: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    if model == "resnet50":
        rows = IMAGES * workers
        images = rng.random((rows, SIZE, SIZE, 3), dtype="float32")
        return images, rng.integers(0, CLASSES, rows)
    words = rng.integers(0, WORDS, (TEXTS * workers, LENGTH + 1))
    return words[:, :-1], words[:, 1:]


class Peaks:
    """By how much the bytes in use rise in each step, and how long it takes."""

    def __init__(self) -> None:
        self.rises: list[int] = []
        self.seconds: list[float] = []

    def begin(self) -> None:
        lms.memory.reset_peak()
        self._base, self._start = lms.memory.bytes_in_use(), time.perf_counter()

    def end(self) -> None:
        self.seconds.append(time.perf_counter() - self._start)
        self.rises.append(lms.memory.peak_bytes() - self._base)

    def figures(self) -> dict[str, Any]:
        settled = self.seconds[WARM_UP:]
        return {"peak": max(self.rises[WARM_UP:]), "seconds": sum(settled) / len(settled)}


def hashed(losses: list[float], variables: list[Any]) -> str:
    bits = hashlib.sha256(json.dumps([loss.hex() for loss in losses]).encode())
    for variable in variables:
        bits.update(variable.numpy().tobytes())
    return bits.hexdigest()


def by_fit(strategy: Any, model_of: Callable[[Any], Any], data: Any) -> tuple[list[Any], Trained]:
    """Keras 2: Keras 3 has no fit for several workers."""
    keras = importlib.import_module("tf_keras")
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = model_of(keras)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(1e-3), loss, jit_compile=False)
        model.optimizer.build(model.trainable_variables)

    class Measured(keras.callbacks.Callback):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.peaks, self.losses = Peaks(), []

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.peaks.begin()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.peaks.end()
            self.losses.append(float(logs["loss"]))

    variables = [*model.variables, *model.optimizer.variables]

    def train(steps: int) -> dict[str, Any]:
        measured = Measured()
        model.fit(data, steps_per_epoch=steps, verbose=0, callbacks=[measured])
        return {"bits": hashed(measured.losses, variables), **measured.peaks.figures()}

    return variables, train


def by_own_loop(
    strategy: Any, model_of: Callable[[Any], Any], data: Any
) -> tuple[list[Any], Trained]:
    keras = importlib.import_module("keras")
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = model_of(keras)
        optimizer = keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)
    distributed = strategy.experimental_distribute_dataset(data)
    loss_of = tf.nn.sparse_softmax_cross_entropy_with_logits

    def replica(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(loss_of(y, model(x, training=True)))
            share = loss / strategy.num_replicas_in_sync
        slopes = tape.gradient(share, model.trainable_variables)
        optimizer.apply_gradients(zip(slopes, model.trainable_variables))
        return loss

    @tf.function
    def step(batch: Any) -> Any:
        return strategy.reduce("MEAN", strategy.run(replica, args=batch), axis=None)

    variables = [*model.variables, *optimizer.variables]

    def train(steps: int) -> dict[str, Any]:
        peaks, losses = Peaks(), []
        batches = iter(distributed)
        for _ in range(steps):
            batch = next(batches)
            peaks.begin()
            losses.append(float(step(batch)))
            peaks.end()
        return {"bits": hashed(losses, variables), **peaks.figures()}

    return variables, train


def main() -> None:
    task = json.loads(sys.argv[1])
    one_thread_of_each_kind()
    communication = tf.distribute.experimental
    ring = communication.CollectiveCommunication.RING
    options = communication.CommunicationOptions(task["pack_bytes"], implementation=ring)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
    x, y = data_of(task["model"], workers)
    sharding = tf.data.Options()
    by_data = tf.data.experimental.AutoShardPolicy.DATA
    sharding.experimental_distribute.auto_shard_policy = by_data
    data = tf.data.Dataset.from_tensors((x, y)).repeat().unbatch().batch(len(x), True)
    make = by_fit if task["loop"] == "fit" else by_own_loop
    variables, train = make(strategy, MODELS[task["model"]], data.with_options(sharding))
    start = [variable.numpy() for variable in variables]
    for budget in (None, None, *task["budgets"]):
        for variable, value in zip(variables, start):
            variable.assign(value)
        if budget is not None:
            lms.enable(budget)
        figures = train(task["steps"])
        report = lms.report() if budget is not None else None
        if report is not None:
            figures["status"] = report.status
            figures["allowed"] = report.budget_bytes - report.resident_bytes
            figures["predicted_overhead"] = report.predicted_time_overhead
        say(figures)


if __name__ == "__main__":
    main()
