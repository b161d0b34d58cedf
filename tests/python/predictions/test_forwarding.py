"""Kernels that write into an input that nobody else reads: predicted as the allocator has it."""

from __future__ import annotations

import gc
import inspect

import lms
import pytest
import tensorflow as tf

SIDE = 512
ONE_INPUT = [
    "Acos",
    "Acosh",
    "Asinh",
    "Atan",
    "Atanh",
    "BesselI0e",
    "Cosh",
    "Digamma",
    "Erfinv",
    "Exp",
    "Expint",
    "LeakyRelu",
    "Lgamma",
    "MatrixInverse",
    "Ndtri",
    "Neg",
    "OnesLike",
    "Rsqrt",
    "Sigmoid",
    "Sinh",
    "Softplus",
    "Spence",
    "Tan",
    "ZerosLike",
]
TWO_INPUTS = [
    "Atan2",
    "DivNoNan",
    "FloorMod",
    "Igamma",
    "InvGrad",
    "Mul",
    "NextAfter",
    "RandomGammaGrad",
    "SquaredDifference",
    "TruncateMod",
    "Xlogy",
    "Zeta",
]
WHOLE_NUMBERS = ["BitwiseAnd", "BitwiseXor", "LeftShift", "TruncateDiv"]
# Those that make a tensor of their own.
NEVER = {
    "Cumsum": lambda x: tf.raw_ops.Cumsum(x=x, axis=0),
    "ReverseV2": lambda x: tf.raw_ops.ReverseV2(tensor=x, axis=[0]),
    "Transpose": lambda x: tf.raw_ops.Transpose(x=x, perm=[1, 0]),
}
OTHERS = {
    "MatrixBandPart": lambda x: tf.raw_ops.MatrixBandPart(input=x, num_lower=1, num_upper=1),
    "MatrixSetDiagV3": lambda x: tf.raw_ops.MatrixSetDiagV3(input=x, diagonal=tf.ones([SIDE]), k=0),
    "TensorStridedSliceUpdate": lambda x: tf.raw_ops.TensorStridedSliceUpdate(
        input=x, begin=[0], end=[1], strides=[1], value=tf.ones([1, SIDE])
    ),
}


def drawn(count: int, dtype: tf.DType) -> list[tf.Tensor]:
    low, high = (1, 9) if dtype == tf.int32 else (0.1, 0.9)
    return [tf.random.uniform([SIDE, SIDE], low, high, dtype) for _ in range(count)]


def by_name(name: str):
    op = getattr(tf.raw_ops, name)
    arguments = list(inspect.signature(op).parameters)
    return lambda *tensors: op(**dict(zip(arguments, tensors)))


def peaks(op, inputs: int, dtype: tf.DType = tf.float32) -> tuple[float, float]:
    """Predicted and measured, in tensors."""

    @tf.function
    def step():
        made = op(*drawn(inputs, dtype))
        return tf.raw_ops.StridedSlice(input=made, begin=[0], end=[1], strides=[1])

    lms.clear_reports()
    with lms.enabled(memory_budget="1TiB"):
        step()
        gc.collect()  # what earlier tests have left
        before = lms.memory.bytes_in_use()
        lms.memory.reset_peak()
        step()
        taken = lms.memory.peak_bytes() - before
    tensor = SIDE * SIDE * 4
    report = lms.reports()[-1]
    return (report.peak_before_bytes - report.resident_bytes) / tensor, taken / tensor


CASES = [
    *((name, by_name(name), 1, tf.float32) for name in ONE_INPUT),
    *((name, by_name(name), 2, tf.float32) for name in TWO_INPUTS),
    *((name, by_name(name), 2, tf.int32) for name in WHOLE_NUMBERS),
    *((name, op, 1, tf.float32) for name, op in OTHERS.items()),
]


@pytest.mark.parametrize(("name", "op", "inputs", "dtype"), CASES, ids=[case[0] for case in CASES])
def test_no_tensor_beside_the_inputs(name, op, inputs, dtype):
    predicted, measured = peaks(op, inputs, dtype)
    assert measured == pytest.approx(inputs, abs=0.1)
    assert predicted == pytest.approx(measured, abs=0.1)


@pytest.mark.parametrize("name", NEVER)
def test_a_tensor_of_its_own(name):
    predicted, measured = peaks(NEVER[name], 1)
    assert measured > 1.9
    assert predicted == pytest.approx(measured, abs=0.1)
