"""What kernels allocate for themselves is in the predicted peaks, measured with the allocator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lms
import pytest
import tensorflow as tf
from helpers import reports_on, run_python


def peaks(function: Callable[..., Any], *arguments: Any) -> tuple[int, int]:
    """Predicted and measured: how far the bytes in use rise, with what the function returns."""
    lms.enable(memory_budget="1TiB", feedback=False)
    function(*arguments)
    lms.memory.reset_peak()
    before = lms.memory.bytes_in_use()
    result = function(*arguments)
    measured = lms.memory.peak_bytes() - before
    lms.disable()
    report = reports_on(function)[-1]
    assert report.status == "fits" and result is not None
    return report.peak_before_bytes - report.resident_bytes, measured


def normal(shape: Sequence[int], dtype: str) -> tf.Tensor:
    return tf.cast(tf.random.Generator.from_seed(3).normal(shape), dtype)


def predicted_well(op: Callable[..., Any], *arguments: tf.Tensor) -> int:
    """Checks the prediction for one op; returns what was measured."""

    # With less than four nodes Grappler would not look at it.
    @tf.function
    def function(number, *arguments):
        return op(*[tf.identity(argument) for argument in arguments]), tf.exp(number) * 2.0

    predicted, measured = peaks(function, tf.constant(1.0), *arguments)
    assert predicted == pytest.approx(measured, rel=0.02, abs=32 << 10)
    return measured


@pytest.mark.parametrize("dtype", ["float16", "float64", "float32"])
@pytest.mark.parametrize("stride", [1, 2])
def test_gradients_of_convolutions_hold_patches(dtype, stride):
    side = 24 // stride
    x, weight = [4, 24, 24, 16], [3, 3, 16, 24]
    gradient = normal([4, side, side, 24], dtype)
    how = {"strides": [1, stride, stride, 1], "padding": "SAME"}

    def of_filter(x, gradient):
        return tf.raw_ops.Conv2DBackpropFilter(
            input=x, filter_sizes=weight, out_backprop=gradient, **how
        )

    def of_input(weight, gradient):
        return tf.raw_ops.Conv2DBackpropInput(
            input_sizes=x, filter=weight, out_backprop=gradient, **how
        )

    measured = predicted_well(of_filter, normal(x, dtype), gradient)
    if dtype != "float32":
        assert measured > 10 << 20  # of tensors of less than 600 KB
    predicted_well(of_input, normal(weight, dtype), gradient)


def test_products_of_halves_are_computed_in_float():
    x = normal([256, 512], "float16")
    # In floats: both operands, 0.5 MB each, and the result, 1 MB; in halves: the result.
    measured = predicted_well(lambda x, y: tf.matmul(x, y), x, tf.transpose(x))
    assert measured > 1.3e6


def test_pooling_and_reductions_take_copies():
    x = normal([4, 32, 32, 32], "float32")
    pooled = normal([4, 16, 16, 32], "float32")
    how = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    predicted_well(lambda x: tf.raw_ops.MaxPool(input=x, **how), x)
    predicted_well(
        lambda x, y: tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=y, **how), x, pooled
    )
    assert predicted_well(lambda x: tf.reduce_sum(x, [0, 2]), x) > 4 * 32 * 32 * 32 * 4
    assert predicted_well(lambda x: tf.reduce_sum(x, [1, 2]), x) < 4 * 32 * 32 * 32 * 4


# With one thread of each kind; with more the gradients of two filters may run at a time, or not.
MIXED = """
import lms
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
rng = tf.random.Generator.from_seed(5)
shapes = [[3, 3, 3, 16], [3, 3, 16, 32], [3, 3, 32, 32]]
weights = [tf.Variable(0.1 * rng.normal(shape)) for shape in shapes]
images = rng.normal([8, 32, 32, 3])

@tf.function
def step():
    with tf.GradientTape() as tape:
        y = tf.cast(images, tf.float16)
        for weight in weights:
            y = tf.nn.relu(tf.nn.conv2d(y, tf.cast(weight, tf.float16), 1, "SAME"))
        loss = tf.reduce_mean(tf.cast(y, tf.float32) ** 2)
    for weight, gradient in zip(weights, tape.gradient(loss, weights)):
        weight.assign_sub(0.1 * gradient)
    return loss

lms.enable(memory_budget="1TiB", feedback=False)
step()
lms.memory.reset_peak()
before = lms.memory.bytes_in_use()
step()
measured = lms.memory.peak_bytes() - before
report = [r for r in lms.reports() if "step" in r.function][-1]
print("PEAKS", report.peak_before_bytes - report.resident_bytes, measured)
"""


def test_a_step_of_mixed_precision_takes_what_is_predicted():
    status, output = run_python(MIXED)
    assert status == 0, output
    line = next(line for line in output.splitlines() if line.startswith("PEAKS"))
    predicted, measured = map(int, line.split()[1:])
    assert predicted == pytest.approx(measured, rel=0.1)
    assert measured > 25 << 20  # the activations themselves are less than 3 MB
