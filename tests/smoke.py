"""A small training run with and without lms: the same losses, and a lower peak.

No test framework, so that it runs wherever the package is installed (`./run matrix` uses it with
every TensorFlow version). The last line printed says what happened; the exit status is 0 when the
losses and weights are the same to the last bit and the step was rewritten under its budget.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import lms
import numpy as np
import tensorflow as tf

STEPS = 3
LAYERS = 10
SIZE = 32
CHANNELS = 16
# All of the layers' outputs, 16 * 32 * 32 * 16 floats = 1 MiB each, live until the backward pass:
# with one for the convolution and one for its activation that is far more than any one layer needs.
BATCH = 16


def make_step() -> tuple[tf.types.experimental.GenericFunction, list[tf.Variable]]:
    """A training step of a convolutional net, with weights that are the same each time."""
    random = np.random.default_rng(0)

    def weight(*shape: int) -> tf.Variable:
        scale = np.sqrt(2.0 / np.prod(shape[:-1]))
        return tf.Variable(random.normal(0, scale, shape).astype("float32"))

    stem = weight(3, 3, 3, CHANNELS)
    kernels = [weight(3, 3, CHANNELS, CHANNELS) for _ in range(LAYERS)]
    dense = weight(CHANNELS, 10)
    weights = [stem, *kernels, dense]

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            x = tf.nn.conv2d(images, stem, 1, "SAME")
            for kernel in kernels:
                x = tf.nn.conv2d(tf.tanh(x), kernel, 1, "SAME")
            logits = tf.matmul(tf.reduce_mean(x, [1, 2]), dense)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        for variable, gradient in zip(weights, tape.gradient(loss, weights)):
            variable.assign_sub(0.01 * gradient)
        return loss

    return step, weights


def train() -> tuple[list[float], list[np.ndarray], int]:
    """Losses, final weights, and the measured peak of one step in bytes, from the same start."""
    random = np.random.default_rng(1)
    images = tf.constant(random.normal(size=(BATCH, SIZE, SIZE, 3)).astype("float32"))
    labels = tf.constant(random.integers(0, 10, BATCH))
    step, weights = make_step()
    losses = [float(step(images, labels)) for _ in range(STEPS)]
    lms.memory.reset_peak()
    losses.append(float(step(images, labels)))
    return losses, [weight.numpy() for weight in weights], lms.memory.peak_bytes()


def main() -> int:
    # Kernels with several threads may add in another order from run to run.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    losses, weights, stock_peak = train()
    with lms.enabled(memory_budget="60%"):
        lms_losses, lms_weights, lms_peak = train()
    rewritten = [report for report in lms.reports() if report.status == "rewritten"]
    for report in lms.reports():
        print(report)

    problems = []
    if lms_losses != losses:
        problems.append(f"losses differ: {losses} and {lms_losses}")
    if not all(np.array_equal(a, b) for a, b in zip(weights, lms_weights)):
        problems.append("weights differ")
    if not rewritten:
        problems.append(f"not rewritten: {[report.reason for report in lms.reports()]}")
    if lms_peak >= stock_peak:
        problems.append("the peak did not fall")
    measured = f"measured peak {stock_peak / 2**20:.1f} -> {lms_peak / 2**20:.1f} MiB"
    print(
        f"FAILED: {'; '.join(problems)}; {measured}" if problems else f"ok: rewritten, {measured}"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
