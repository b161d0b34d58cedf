"""Gradients through loops: what stock TensorFlow holds of them, and what lms computes again.

For each program and length: the activation peak by the allocator and the CPU time of a step, stock
and with lms at several budgets in turn, whether losses and weights have the same bits, and what was
predicted. One thread of each kind, or more that run ops (--inter-op). Prints a table.

  ./run bench loops [PROGRAM ...] [--lengths 100,1000] [--budgets 60%,25%,min] [--rounds 5]
                  [--inter-op 1]
  ./run bench loops --longest 2 [PROGRAM ...]     how long sequences may be in 2 GiB of activations
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import lms
import numpy as np
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).resolve().parent))
from _machine import machine_facts, processor_text
from _measure import measured, one_thread_of_each_kind

layers = keras.layers
ROWS, FEATURES, UNITS = 32, 32, 128


def recurrent(*between: Callable[[], Any]) -> Callable[[int], keras.Model]:
    def make(length: int) -> keras.Model:
        inputs = keras.Input((length, FEATURES), batch_size=ROWS)
        y = inputs
        for layer in between:
            y = layer()(y)
        return keras.Model(inputs, layers.Dense(1)(y))

    return make


def images(length: int) -> keras.Model:
    inputs = keras.Input((length, FEATURES), batch_size=ROWS)
    y = layers.Dense(256)(inputs)
    y = layers.Reshape((length, 16, 16, 1))(y)
    y = layers.ConvLSTM2D(8, 3, padding="same")(y)
    return keras.Model(inputs, layers.Dense(1)(layers.GlobalAveragePooling2D()(y)))


@keras.saving.register_keras_serializable()
class Attending(layers.Layer):
    """A cell of a decoder: a GRU that looks at what an encoder has made, at every step."""

    def __init__(self, units: int, **options: Any) -> None:
        super().__init__(**options)
        self.cell = layers.GRUCell(units)
        self.query = layers.Dense(units)
        self.state_size = units

    def build(self, shape: Any) -> None:
        self.query.build((None, self.state_size))
        self.cell.build((None, shape[-1] + self.state_size))
        self.memory = self.add_weight(shape=(64, self.state_size), name="memory")

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        scores = tf.nn.softmax(self.query(states[0]) @ tf.transpose(self.memory))
        context = scores @ self.memory
        return self.cell(tf.concat([inputs, context], -1), states, training=training)


class Scan(keras.Model):
    """A cell of two layers in tf.scan."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.inner = [layers.Dense(UNITS, "tanh") for _ in range(3)]
        self.last = layers.Dense(1)
        self.length = length

    def build(self, shape: Any) -> None:
        self.inner[0].build((ROWS, UNITS + FEATURES))
        for layer in self.inner[1:]:
            layer.build((ROWS, UNITS))
        self.last.build((ROWS, UNITS))

    def call(self, inputs: Any) -> Any:
        def cell(state: Any, value: Any) -> Any:
            y = tf.concat([state, value], -1)
            for layer in self.inner:
                y = layer(y)
            return y

        states = tf.scan(cell, tf.transpose(inputs, [1, 0, 2]), tf.zeros([ROWS, UNITS]))
        return self.last(states[-1])


def scan(length: int) -> keras.Model:
    model = Scan(length)
    model.build((ROWS, length, FEATURES))
    return model


PROGRAMS: dict[str, Callable[[int], keras.Model]] = {
    "lstm": recurrent(lambda: layers.LSTM(UNITS)),
    "gru": recurrent(lambda: layers.GRU(UNITS)),
    "lstm_dropout": recurrent(lambda: layers.LSTM(UNITS, dropout=0.2, recurrent_dropout=0.2)),
    "bidirectional": recurrent(
        lambda: layers.Bidirectional(layers.LSTM(UNITS, return_sequences=True)),
        lambda: layers.Bidirectional(layers.LSTM(UNITS)),
    ),
    "conv_lstm": images,
    "attention": recurrent(lambda: layers.RNN(Attending(UNITS))),
    "scan": scan,
}


def step_of(model: keras.Model, optimizer: Any, inputs: Any) -> Any:
    """A step of its own: what TensorFlow has optimised without lms stays so."""

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(inputs, training=True) - 1))
        slopes = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(slopes, model.trainable_variables))
        return loss

    return step


def rows_of(program: str, length: int, budgets: list[str], rounds: int) -> list[list[str]]:
    keras.utils.set_random_seed(7)
    model = PROGRAMS[program](length)
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)
    inputs = tf.random.Generator.from_seed(3).normal([ROWS, length, FEATURES])
    start = [variable.numpy() for variable in (*model.variables, *optimizer.variables)]

    def begin() -> None:
        for variable, value in zip((*model.variables, *optimizer.variables), start):
            variable.assign(value)

    def ends() -> list[bytes]:
        return [np.asarray(variable).tobytes() for variable in model.variables]

    def trained(step: Callable[[], Any]) -> tuple[list[str], list[bytes]]:
        begin()
        return [float(step()).hex() for _ in range(3)], ends()

    stock = step_of(model, optimizer, inputs)
    expected = trained(stock)
    rows = []
    for budget in budgets:
        ours = step_of(model, optimizer, inputs)

        def with_lms(ours: Any = ours, budget: str = budget) -> Any:
            with lms.enabled(budget):
                return ours()

        lms.clear_reports()
        same = trained(with_lms) == expected
        report = max(lms.reports(), key=lambda each: each.peak_before_bytes)
        pairs = [(measured(stock), measured(with_lms)) for _ in range(rounds)]
        before = max(pair[0].peak for pair in pairs)
        after = max(pair[1].peak for pair in pairs)
        times = sorted(pair[1].cpu / pair[0].cpu for pair in pairs)
        predicted = report.peak_after_bytes - report.resident_bytes
        budgeted = report.budget_bytes - report.resident_bytes
        rows.append(
            [
                program, str(length), budget, report.status, f"{before / 1e6:.1f}",
                f"{after / 1e6:.1f}", f"{after / before:.1%}", f"{predicted / after:.2f}",
                "yes" if after <= budgeted else "no",
                f"{statistics.median(times):.2f} ({times[0]:.2f} to {times[-1]:.2f})",
                f"{1 + report.predicted_time_overhead:.2f}", "equal" if same else "OTHER",
            ]
        )  # fmt: skip
    return rows


def peak_of(program: str, length: int, budget: str | None) -> int:
    """Bytes that a step takes at most above what is there before it, by the allocator."""
    keras.utils.set_random_seed(7)
    model = PROGRAMS[program](length)
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)
    inputs = tf.random.Generator.from_seed(3).normal([ROWS, length, FEATURES])
    step = step_of(model, optimizer, inputs)
    with contextlib.ExitStack() as stack:
        if budget is not None:
            stack.enter_context(lms.enabled(budget))
        step()
        peak = measured(step).peak
    tf.keras.backend.clear_session()
    return peak


def longest(program: str, limit: int) -> None:
    """Lines of a table: the longest sequence that stock trains within the limit, to 3%, and what
    lms takes for that one, and for longer ones, until it is over the limit, too."""

    def line(who: str, length: int, peak: int) -> None:
        within = "yes" if peak <= limit else "no"
        print(f"| {program} | {who} | {length} | {peak / 1e6:.1f} | {within} |", flush=True)

    length, peak = 1000, peak_of(program, 1000, None)
    line("stock", length, peak)
    for _ in range(4):
        length = int(length * limit / peak * 0.99)
        peak = peak_of(program, length, None)
        line("stock", length, peak)
        if 0.97 * limit <= peak <= limit:
            break
    for times in (1, 2, 4, 8, 16):
        peak = peak_of(program, times * length, "min")
        line("lms", times * length, peak)
        if peak > limit:
            break


HEADER = [
    "program", "steps in time", "budget", "status", "stock MB", "lms MB", "share",
    "predicted / measured", "within", "CPU time", "predicted time", "bits",
]  # fmt: skip


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--lengths", default="100,1000")
    parser.add_argument("--budgets", default="60%,25%,min")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inter-op", type=int, default=1, metavar="THREADS")
    parser.add_argument("--longest", type=float, metavar="GIB", help="of activations")
    options = parser.parse_args(arguments)
    unknown = set(options.programs) - set(PROGRAMS)
    if unknown:
        parser.error(f"there is no program {', '.join(sorted(unknown))}")
    one_thread_of_each_kind()
    tf.config.threading.set_inter_op_parallelism_threads(options.inter_op)
    facts = machine_facts(tensorflow=tf.__version__, keras=keras.__version__)
    print(f"{processor_text(facts)}; {facts['cores']} cores; {facts['date']}\n")
    if options.longest:
        print("| program | | steps in time | MB | within |\n|---|---|---|---|---|", flush=True)
        for program in options.programs or PROGRAMS:
            longest(program, int(options.longest * 2**30))
        return
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER), flush=True)
    for length in map(int, options.lengths.split(",")):
        for program in options.programs or PROGRAMS:
            rows = rows_of(program, length, options.budgets.split(","), options.rounds)
            for row in rows:
                print("| " + " | ".join(row) + " |", flush=True)
            tf.keras.backend.clear_session()


if __name__ == "__main__":
    main(sys.argv[1:])
