"""Training steps inside loops and branches: with lms as without, and within the budget?

Run as a program, with one thread of each kind: then the order of execution is the same every time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection

import keras
import lms
import numpy as np
import tensorflow as tf
from helpers import kernels_need_more
from steps import BATCH, LAYERS, WIDTH, chain, descend, weights

ROUNDS = 4
_numbers = itertools.count()
Step = Callable[[list, list, tf.Tensor], tf.Tensor]


def gradients(layers: list, x: tf.Tensor) -> tuple:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(chain(x, layers) ** 2)
    return loss, tape.gradient(loss, layers)


def train(layers: list, x: tf.Tensor) -> tf.Tensor:
    loss, slopes = gradients(layers, x)
    for layer, slope in zip(layers, slopes):
        layer.assign_sub(0.1 * slope)
    return loss


def accumulate(layers: list, sums: list, x: tf.Tensor) -> tf.Tensor:
    """Adds the gradients to sums, which are variables."""
    loss, slopes = gradients(layers, x)
    for acc, slope in zip(sums, slopes):
        acc.assign_add(slope)
    return loss


def use_up(layers: list, sums: list) -> None:
    for layer, acc in zip(layers, sums):
        layer.assign_sub(0.1 * acc)
        acc.assign(0.0 * acc)


def steps_in_a_loop(layers: list, sums: list, x: tf.Tensor) -> tf.Tensor:
    total = 0.0
    for i in tf.range(ROUNDS):
        total += train(layers, x[i])
    return total


def accumulated_in_variables(layers: list, sums: list, x: tf.Tensor) -> tf.Tensor:
    total = 0.0
    for i in tf.range(ROUNDS):
        total += accumulate(layers, sums, x[i])
    use_up(layers, sums)
    return total


def accumulated_in_tensors(layers: list, sums: list, x: tf.Tensor) -> tf.Tensor:
    """Nothing in the loop has an effect: TensorFlow lets its iterations overlap."""
    total, collected = 0.0, [tf.zeros_like(layer) for layer in layers]
    for i in tf.range(ROUNDS):
        loss, slopes = gradients(layers, x[i])
        total += loss
        collected = [acc + slope for acc, slope in zip(collected, slopes)]
    for layer, slope in zip(layers, collected):
        layer.assign_sub(0.1 * slope)
    return total


def in_a_branch(layers: list, sums: list, x: tf.Tensor) -> tf.Tensor:
    loss = 0.0
    if tf.reduce_sum(x) > -1e9:
        loss = train(layers, x[0])
    return loss


def in_a_branch_not_taken(layers: list, sums: list, x: tf.Tensor) -> tf.Tensor:
    loss = 0.0
    if tf.reduce_sum(x) > 1e9:
        loss = train(layers, x[0])
    return loss + tf.reduce_mean(chain(x[1], layers[:1]))


def in_a_loop_in_a_loop(layers: list, sums: list, x: tf.Tensor) -> tf.Tensor:
    total = 0.0
    for i in tf.range(2):
        for j in tf.range(2):
            total += accumulate(layers, sums, x[2 * i + j])
        use_up(layers, sums)
    return total


def with_a_loop_in_its_forward_pass(layers: list, sums: list, x: tf.Tensor) -> tf.Tensor:
    total = 0.0
    for i in tf.range(2):
        with tf.GradientTape() as tape:
            y = chain(x[i], layers)
            for _ in tf.range(2):
                y = tf.tanh(tf.matmul(y, layers[0]))
            loss = tf.reduce_mean(chain(y, layers) ** 2)
        descend(tape, loss, layers)
        total += loss
    return total


def in_two_loops(layers: list, sums: list, x: tf.Tensor) -> tf.Tensor:
    """The second one is small enough as it is."""
    total = 0.0
    for i in tf.range(2):
        total += train(layers, x[i])
    for i in tf.range(2):
        total += train(layers, x[i][: BATCH // 8])
    return total


STEPS: tuple[Step, ...] = (
    steps_in_a_loop,
    accumulated_in_variables,
    accumulated_in_tensors,
    in_a_branch,
    in_a_branch_not_taken,
    in_a_loop_in_a_loop,
    with_a_loop_in_its_forward_pass,
    in_two_loops,
)


def measured(function: Callable, calls: int = 3) -> tuple[list, int]:
    """Results, and the highest activation peak of the calls after the first."""
    results, peaks = [], []
    for _ in range(calls):
        before = lms.memory.bytes_in_use()
        lms.memory.reset_peak()
        results.append(np.asarray(function()))
        peaks.append(lms.memory.peak_bytes() - before)
    return results, max(peaks[1:])


def run(step: Step, budget: str | None) -> tuple:
    layers = weights()
    sums = [tf.Variable(tf.zeros([WIDTH, WIDTH])) for _ in range(LAYERS)]
    x = tf.random.Generator.from_seed(8).normal([ROUNDS, BATCH, WIDTH])

    def function():
        return step(layers, sums, x)

    function.__name__ = f"loop_{next(_numbers)}_"
    traced = tf.function(function)
    if budget is None:
        results, peak = measured(traced)
    else:
        with lms.enabled(budget):
            results, peak = measured(traced)
    values = [variable.numpy() for variable in layers + sums]
    reports = [r for r in lms.reports() if function.__name__ in r.function]
    return results + values, peak, reports[-1] if reports else None


def fit(budget: str | None, optimizer: str, batch: int = 64, rows: int = 10) -> tuple:
    """Keras, four steps per execution: two executions of four and one of two, twice."""
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((16, 16, 3), batch_size=batch)])
    for _ in range(4):
        model.add(keras.layers.Conv2D(16, 3, padding="same", activation="relu"))
        model.add(keras.layers.BatchNormalization())
    model.add(keras.layers.GlobalAveragePooling2D())
    model.add(keras.layers.Dense(4))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, steps_per_execution=4)
    rng = np.random.default_rng(5)
    x = rng.random((batch * rows, 16, 16, 3), dtype="float32")
    y = rng.integers(0, 4, batch * rows)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch, drop_remainder=True)
    peaks = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            self.before = lms.memory.bytes_in_use()
            lms.memory.reset_peak()

        def on_train_batch_end(self, batch, logs=None):
            peaks.append(lms.memory.peak_bytes() - self.before)

    def train_it():
        history = model.fit(data, epochs=2, verbose=0, shuffle=False, callbacks=[Watch()])
        return history.history["loss"]

    if budget is None:
        losses = train_it()
    else:
        with lms.enabled(budget):
            losses = train_it()
    reports = [r for r in lms.reports() if "multi_step" in r.function]
    values = [np.asarray(losses)] + [variable.numpy() for variable in model.variables]
    return values, max(peaks[1:]), reports[-1] if reports else None


KERAS = {"keras_sgd": "sgd", "keras_adam": "adam"}

RECURRENT: dict[str, Callable] = {
    "lstm": lambda: [keras.layers.LSTM(64)],
    "gru": lambda: [keras.layers.GRU(64)],
    "bidirectional": lambda: [keras.layers.Bidirectional(keras.layers.LSTM(64))],
    "two_lstms": lambda: [keras.layers.LSTM(64, return_sequences=True), keras.layers.LSTM(64)],
}


def recurrent(kind: str, budget: str | int | None) -> tuple:
    keras.utils.set_random_seed(4)
    layers = [keras.Input((40, 32), batch_size=16), *RECURRENT[kind](), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)
    x = tf.random.Generator.from_seed(8).normal([16, 40, 32])

    def function():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True) ** 2)
        slopes = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(slopes, model.trainable_variables))
        return loss

    function.__name__ = f"recurrent_{next(_numbers)}_"
    traced = tf.function(function)
    if budget is None:
        results, peak = measured(traced)
    else:
        with lms.enabled(budget):
            results, peak = measured(traced)
    values = [variable.numpy() for variable in model.variables]
    reports = [r for r in lms.reports() if function.__name__ in r.function]
    return results + values, peak, reports[-1] if reports else None


def predict(kind: str) -> None:
    """One line: what is predicted of the step with its loops' iterations kept apart?"""
    _, peak, report = recurrent(kind, "min")
    resident = report.resident_bytes
    highest = (report.peak_after_bytes - resident) / peak
    usual = (report.usual_peak_after_bytes - resident) / peak
    orders = [(bytes_ - resident) / peak for bytes_ in report.order_peaks["after"]]
    nearest = min(orders, key=lambda ratio: abs(ratio - 1))
    hidden = any("loops" in warning for warning in report.warnings)
    fits = recurrent(kind, 2**40)[2].status
    print(
        f"predicted_{kind}: status={report.status} hidden={hidden} {fits} "
        f"highest={highest:.3f} usual={usual:.3f} nearest={nearest:.3f}"
    )


def least(kind: str) -> None:
    """One line: is the least budget that a report names one that is met?"""
    named = recurrent(kind, 1)[2]
    _, peak, report = recurrent(kind, named.min_budget_bytes)
    within = peak <= report.budget_bytes - report.resident_bytes
    print(f"least_{kind}: status={named.status} {report.status} within={within}")


def compare(name: str, stock: tuple, ours: tuple) -> None:
    """One line of what matters. The margin: 5% of the budget."""
    report = ours[2]
    same = all(np.array_equal(a, b) for a, b in zip(stock[0], ours[0]))
    budget = report.budget_bytes - report.resident_bytes
    predicted = report.peak_before_bytes - report.resident_bytes
    print(
        f"{name}: status={report.status} same={same} within={ours[1] <= 1.05 * budget} "
        f"lower={ours[1] < stock[1]} region={'loop' * ('loop' in report.reason)} "
        f"hidden={any('inside loops' in warning for warning in report.warnings)} "
        f"enough={not kernels_need_more(report.status, predicted, stock[1])} "
        f"stock={stock[1]} peak={ours[1]} budget={budget} {report.reason}"
    )


def main(names: Collection[str]) -> None:
    """names: of STEPS, KERAS and RECURRENT."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for step in STEPS:
        if step.__name__ in names:
            compare(step.__name__, run(step, None), run(step, "60%"))
    for name, optimizer in KERAS.items():
        if name in names:
            fit(None, optimizer)  # what Keras and tf.data allocate once
            compare(name, fit(None, optimizer), fit("60%", optimizer))
    for kind in RECURRENT:
        if kind not in names:
            continue
        compare(kind, recurrent(kind, None), recurrent(kind, "30%"))
        predict(kind)
        least(kind)
