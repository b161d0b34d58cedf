"""Does a prediction for a batch that is left open agree with that for the same batch, given?

For each model of the accuracy table the step is planned twice, without running it: for inputs of a
known number of rows, and for inputs whose number of rows is open and told by name. What the graph
computes from shapes must then come out the same.

  ./run bench open_batch [MODEL ...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import lms
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).resolve().parent))
from accuracy import zoo


def make(name: str, open_batch: bool) -> tuple[Any, int]:
    """The step as a tf.function, whose arguments are described."""
    problem = zoo.problem(name)
    model, optimizer, loss_of = problem.model, problem.optimizer, problem.loss
    optimizer.build(model.trainable_variables)
    batch = len(problem.labels)

    def described(array: Any) -> tf.TensorSpec:
        array = tf.convert_to_tensor(array)
        return tf.TensorSpec([None if open_batch else batch, *array.shape[1:]], array.dtype)

    signature = [described(problem.inputs), described(problem.labels)]

    @tf.function(input_signature=signature)
    def step(inputs, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(inputs, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return step, batch


def planned(name: str, open_batch: bool) -> tuple[lms.Report, float, int]:
    step, batch = make(name, open_batch)
    options = {"unknown_dim": {"inputs": batch, "labels": batch}} if open_batch else {}
    start = time.process_time()
    report = lms.plan(step, memory_budget="10TiB", **options)
    return report, time.process_time() - start, batch


def main(names: list[str]) -> None:
    print(f"{'model':20} {'batch':>5} {'given':>11} {'open':>11} {'ratio':>6}")
    worst = 1.0
    for name in names or zoo.FAMILIES:
        peaks = []
        for open_batch in (False, True):
            report, _, batch = planned(name, open_batch)
            peaks.append(report.peak_before_bytes - report.resident_bytes)
            if report.assumption or any("unknown_dim" in line for line in report.warnings):
                print(f"{name}: {report.assumption} {report.warnings}")
        ratio = peaks[1] / peaks[0]
        worst = max(worst, ratio, 1 / ratio)
        print(
            f"{name:20} {batch:5} {peaks[0] / 1e6:8.1f} MB {peaks[1] / 1e6:8.1f} MB {ratio:6.3f}",
            flush=True,
        )
        tf.keras.backend.clear_session()
    print(f"the largest difference is {worst - 1:.1%}")


if __name__ == "__main__":
    main(sys.argv[1:])
