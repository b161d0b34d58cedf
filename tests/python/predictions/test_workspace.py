"""What kernels allocate for themselves is in the predicted peaks, measured with the allocator.

Which kernel runs depends on the processor. Predictions are held to what is measured on whichever
machine this is; figures that only TensorFlow's own kernels reach are asserted in processes without
oneDNN, where these run on every processor. A function that begins with check_ runs here and there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lms
import pytest
import tensorflow as tf
from helpers import reports_on, run_python

SHORT_FLOATS = ("float16", "bfloat16")
OWN_KERNELS = {"TF_ENABLE_ONEDNN_OPTS": "0"}


def peaks(function: Callable[..., Any], *arguments: Any) -> tuple[int, int]:
    """Predicted and measured: how far the bytes in use rise, with what the function returns."""
    lms.enable(memory_budget="1TiB", replan=False)
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


def predicted_well(op: Callable[..., Any], *arguments: tf.Tensor, blocks: int = 0) -> int:
    """Checks the prediction for one op; returns what was measured.

    `blocks`: bytes by which copies of blocks may differ, which depend on the processor.
    """

    # With less than four nodes Grappler would not look at it.
    @tf.function
    def function(number, *arguments):
        return op(*[tf.identity(argument) for argument in arguments]), tf.exp(number) * 2.0

    predicted, measured = peaks(function, tf.constant(1.0), *arguments)
    least = max(0.02 * measured, 32 << 10)
    assert abs(predicted - measured) <= least + blocks, (predicted, measured)
    return measured


def threads() -> int:
    """That share an op."""
    return tf.config.threading.get_intra_op_parallelism_threads() or os.cpu_count() or 1


def has_amx() -> bool:
    """Of bfloat16."""
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return bool(flags) and "amx_bf16" in flags[1].split()


def blocks_of_products(dtype: str) -> int:
    """oneDNN's products copy blocks of operands for each thread, by the processor's caches."""
    return 0 if dtype == "float64" else threads() * (800 << 10)


def check_gradients_of_convolutions(dtype: str, stride: int) -> int:
    """What the gradient of the filter took."""
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
    predicted_well(of_input, normal(weight, dtype), gradient)
    return measured


def check_products(dtype: str, own: bool = False) -> int:
    """What a product took that makes 65,536 numbers of two times 131,072."""
    blocks = 0 if own else blocks_of_products(dtype)
    x = normal([256, 512], dtype)
    measured = predicted_well(lambda x, y: tf.matmul(x, y), x, tf.transpose(x), blocks=blocks)
    bias = normal([256], dtype)

    def layer(x, y, bias):
        return tf.nn.relu(tf.nn.bias_add(tf.matmul(x, y), bias))

    predicted_well(layer, x, tf.transpose(x), bias, blocks=blocks if dtype == "float32" else 0)
    batch = normal([12, 96, 160], dtype)
    predicted_well(lambda x: tf.matmul(x, x, transpose_b=True), batch, blocks=blocks)
    return measured


def check_convolutions(dtype: str) -> None:
    x = normal([8, 28, 28, 64], dtype)
    for side, stride in ((1, 1), (1, 2), (3, 1)):
        weight = normal([side, side, 64, 128], dtype)
        # With AMX a larger filter has the input copied, in blocks of oneDNN's choice.
        copied = side > 1 and dtype == "bfloat16" and has_amx()
        blocks = threads() * (256 << 10) if copied else 0
        how = {"strides": stride, "padding": "SAME"}
        predicted_well(lambda x, y, how=how: tf.nn.conv2d(x, y, **how), x, weight, blocks=blocks)


def check_batch_norms(dtype: str) -> None:
    x, scale = normal([4, 28, 28, 48], dtype), tf.ones([48])
    small = [scale] * 3
    predicted_well(lambda x, s: tf.raw_ops.FusedBatchNormV3(
        x=x, scale=s, offset=s, mean=s, variance=s).y, x, scale)  # fmt: skip
    predicted_well(
        lambda x, s, *r: tf.raw_ops.FusedBatchNormGradV3(
            y_backprop=x, x=x, scale=s, reserve_space_1=r[0], reserve_space_2=r[1],
            reserve_space_3=r[2],
        )[:3], x, scale, *small,
    )  # fmt: skip


def in_child(code: str, **environment: str) -> None:
    """Runs the code in a process of its own, where this module is called t."""
    code = f"import test_workspace as t\n{code}"
    status, output = run_python(code, **environment)
    assert status == 0, output


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "float32"])
@pytest.mark.parametrize("stride", [1, 2])
def test_gradients_of_convolutions_take_what_is_predicted(dtype, stride):
    measured = check_gradients_of_convolutions(dtype, stride)
    if dtype == "float64":  # nobody's oneDNN has it
        assert measured > 10 << 20


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "float32"])
def test_products_take_what_is_predicted(dtype):
    check_products(dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_convolutions_take_what_is_predicted(dtype):
    check_convolutions(dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_batch_norms_take_what_is_predicted(dtype):
    check_batch_norms(dtype)


@pytest.mark.slow
def test_kernels_of_tensorflows_own_hold_patches_and_copies():
    in_child(
        """
for dtype in ("float16", "bfloat16", "float64", "float32"):
    for stride in (1, 2):
        # Of tensors of less than 1.2 MB.
        assert t.check_gradients_of_convolutions(dtype, stride) > 10 << 20, dtype
for dtype in t.SHORT_FLOATS:
    # In float: both operands, 0.5 MB each, and the result, 0.25 MB.
    assert t.check_products(dtype, own=True) > 1.3e6, dtype
for dtype in ("float16", "bfloat16", "float32"):
    t.check_batch_norms(dtype)
for dtype in ("float64", "float32"):
    assert t.check_products(dtype, own=True) < 1.3e6, dtype
""",
        **OWN_KERNELS,
    )


# As on processors that have AVX-512 and nothing for bfloat16 (TensorFlow gives that to oneDNN all
# the same). Where there is no AVX-512 at all, these are TensorFlow's own.
@pytest.mark.slow
def test_products_of_bfloat16_without_instructions_for_it_add_up_in_float():
    in_child(
        """
assert t.check_products("bfloat16", own=True) > (3 * 256 * 256 * 2)
t.check_convolutions("bfloat16")
x = t.normal([4, 75, 700], "bfloat16")
weight = t.normal([700, 500], "bfloat16")
t.predicted_well(lambda x, y: t.tf.einsum("abc,cd->abd", x, y), x, weight)
bias = t.normal([500], "bfloat16")
x = t.tf.reshape(x, [300, 700])
t.predicted_well(
    lambda x, y, z: t.tf.nn.relu(t.tf.nn.bias_add(t.tf.matmul(x, y), z)), x, weight, bias
)
""",
        ONEDNN_MAX_CPU_ISA="AVX512_CORE",
    )


@pytest.mark.slow
def test_floats_take_as_much_with_avx2_alone():
    in_child(
        """
t.check_gradients_of_convolutions("float32", 1)
t.check_products("float32")
t.check_convolutions("float32")
""",
        ONEDNN_MAX_CPU_ISA="AVX2",
    )


def test_pooling_and_reductions_take_copies():
    x = normal([4, 32, 32, 32], "float32")
    pooled = normal([4, 16, 16, 32], "float32")
    how = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    predicted_well(lambda x: tf.raw_ops.MaxPool(input=x, **how), x)
    predicted_well(
        lambda x, y: tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=y, **how), x, pooled
    )

    def pooled_and_back(x, gradient):
        made = tf.raw_ops.MaxPool(input=x, **how)
        # Its result is read again: without oneDNN the gradient would do its work in it.
        return tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=made, grad=gradient, **how), made

    predicted_well(pooled_and_back, x, pooled)
    assert predicted_well(lambda x: tf.reduce_sum(x, [0, 2]), x) > 4 * 32 * 32 * 32 * 4
    assert predicted_well(lambda x: tf.reduce_sum(x, [1, 2]), x) < 4 * 32 * 32 * 32 * 4


def test_cross_entropy_takes_a_number_for_each_example():
    logits = normal([65536, 3], "float32")
    labels = tf.zeros([65536], tf.int32)
    sparse = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits
    assert (
        predicted_well(lambda x, y: sparse(features=x, labels=y), logits, labels) >= 5 * 65536 * 4
    )
    dense = tf.raw_ops.SoftmaxCrossEntropyWithLogits
    targets = tf.nn.softmax(logits)
    assert (
        predicted_well(lambda x, y: dense(features=x, labels=y), logits, targets) >= 5 * 65536 * 4
    )


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

lms.enable(memory_budget="1TiB", replan=False)
step()
lms.memory.reset_peak()
before = lms.memory.bytes_in_use()
step()
measured = lms.memory.peak_bytes() - before
report = [r for r in lms.reports() if "step" in r.function][-1]
print("PEAKS", report.peak_before_bytes - report.resident_bytes, measured)
"""


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{}, OWN_KERNELS], ids=["as it is", "without oneDNN"])
def test_a_step_of_mixed_precision_takes_what_is_predicted(environment):
    status, output = run_python(MIXED, **environment)
    assert status == 0, output
    line = next(line for line in output.splitlines() if line.startswith("PEAKS"))
    predicted, measured = map(int, line.split()[1:])
    assert predicted == pytest.approx(measured, rel=0.1)
    if environment:
        assert measured > 25 << 20  # the activations themselves are less than 3 MB
