"""Steps across several logical CPUs, each by stock TensorFlow and by lms. Run as a program.

One thread of each kind; two replicas still run side by side, each in a thread of its own.
"""

from __future__ import annotations

import json
import traceback
from typing import Any

import keras
import keras_forms
import lms
import numpy as np
import tensorflow as tf
from keras_forms import BATCH, STEPS, WIDTH
from steps import chain, descend

CPUS = ("CPU:0", "CPU:1")


def _weights(count: int = 6) -> list[tf.Variable]:
    rng = tf.random.Generator.from_seed(7)
    return [tf.Variable(rng.normal([WIDTH, WIDTH]) / 8) for _ in range(count)]


def _rows(count: int = BATCH) -> tf.Tensor:
    return tf.random.Generator.from_seed(8).normal([count, WIDTH])


def model_parallel() -> list:
    """The first half of the layers on one device, the second half on the other."""
    halves = []
    for device in CPUS:
        with tf.device(device):
            halves.append(_weights())
    x = _rows()

    @tf.function
    def halved_step():
        with tf.GradientTape() as tape:
            y = x
            for device, layers in zip(CPUS, halves):
                with tf.device(device):
                    y = chain(y, layers)
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, halves[0] + halves[1])
        return loss

    return keras_forms.loop(halved_step) + [v.numpy() for v in halves[0] + halves[1]]


def a_small_part_elsewhere() -> list:
    """Nearly all of the step on one device: that one is planned."""
    layers, x = _weights(), _rows()

    @tf.function
    def mostly_step():
        with tf.GradientTape() as tape:
            y = chain(x, layers)
            with tf.device("CPU:1"):
                noise = tf.reduce_mean(tf.sin(tf.reduce_sum(y, 1)))
            loss = tf.reduce_mean(chain(y, layers) ** 2) + noise
        descend(tape, loss, layers)
        return loss

    return keras_forms.loop(mostly_step) + [v.numpy() for v in layers]


def _own_loop(strategy: tf.distribute.Strategy) -> list:
    """strategy.run in a tf.function, gradients reduced by hand, a reduced loss."""
    with strategy.scope():
        layers = _weights()
    x = keras_forms.data(WIDTH)[0]
    data = tf.data.Dataset.from_tensor_slices(x).batch(2 * BATCH, drop_remainder=True)
    # Read beforehand: nothing is fetched beside the steps.
    batches = list(strategy.experimental_distribute_dataset(data.repeat().take(STEPS)))

    def replica_step(rows):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(chain(rows, layers) ** 2)
        slopes = tape.gradient(loss, layers)
        context = tf.distribute.get_replica_context()
        for layer, slope in zip(layers, context.all_reduce("mean", slopes)):
            layer.assign_sub(0.1 * slope)
        return loss

    @tf.function
    def replicated_step(rows):
        return strategy.reduce("mean", strategy.run(replica_step, (rows,)), None)

    losses = [replicated_step(batch).numpy() for batch in batches]
    values = [strategy.experimental_local_results(layer) for layer in layers]
    return losses + [part.numpy() for each in values for part in each]


def _fit(strategy: tf.distribute.Strategy) -> list:
    with strategy.scope():
        model = keras_forms.dense()
        model = keras.Sequential([keras.Input((keras_forms.INPUT,)), *model.layers])
        model.compile("adam", "mse")
    values = model.fit(
        *keras_forms.data(rows=2 * STEPS * BATCH), batch_size=2 * BATCH, verbose=0
    ).history
    return [np.array(values["loss"]), *(v.numpy() for v in model.trainable_variables)]


def _mirrored() -> tf.distribute.Strategy:
    """Two replicas whose gradients are added up on one device, without collectives."""
    to_one = tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(list(CPUS), cross_device_ops=to_one)


def mirrored_own_loop() -> list:
    return _own_loop(_mirrored())


def mirrored_fit() -> list:
    return _fit(_mirrored())


def mirrored_by_collectives() -> list:
    return _own_loop(tf.distribute.MirroredStrategy(list(CPUS)))


def one_device_own_loop() -> list:
    return _own_loop(tf.distribute.OneDeviceStrategy("CPU:0"))


def one_device_fit() -> list:
    return _fit(tf.distribute.OneDeviceStrategy("CPU:0"))


def one_worker_own_loop() -> list:
    return _own_loop(tf.distribute.MultiWorkerMirroredStrategy())


FORMS = {
    form.__name__: form
    for form in (
        model_parallel,
        a_small_part_elsewhere,
        mirrored_own_loop,
        mirrored_fit,
        mirrored_by_collectives,
        one_device_own_loop,
        one_device_fit,
        one_worker_own_loop,
    )
}


def outcome(name: str) -> dict[str, Any]:
    found = keras_forms.outcome(FORMS[name], "60%")
    steps = [r for r in lms.reports() if r.status != "skipped"]
    found["devices"] = sorted({r.device for r in steps})
    # What is run again, by the name of what it copies, without the replica.
    found["plans"] = [
        [(d["kind"], d["op"], d["before"]) for d in r.decisions if d["kind"] != "order"]
        for r in steps
    ]
    return found


def main(names: list[str]) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    keras_forms.watch_calls()
    for name in names:
        try:
            found = outcome(name)
        except Exception:
            found = {"error": traceback.format_exc()}
        print(keras_forms.MARK + json.dumps({"name": name, **found}), flush=True)
