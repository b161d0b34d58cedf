"""Chains in sessions of TensorFlow 1, with what gradient-checkpointing published for them.

The figures are what its own tests of memory ask for (test/memory_test.py at 43444e0 of
github.com/cybertronai/gradient-checkpointing): megabytes at the peak, where each node holds one.
Theirs are with checkpoints found by it ("memory") or named by hand; here nothing is named.
"""

import lms
import pytest
import tensorflow as tf

v1 = tf.compat.v1

NODE = 250_000  # floats: a million bytes
MB = 1_000_000


def chain(start, length):
    y = start
    for _ in range(length):
        y = tf.tanh(y)
    return y


def residual(start, length):
    y = start
    for _ in range(length):
        y = y + tf.tanh(y)
    return y


def two_chains(start, length):
    return chain(start, length) + chain(tf.sin(start), length)


def gradient(make, length):
    """The gradient of the chain, and the bytes that its runs take. The first makes constants."""
    with tf.Graph().as_default() as graph:
        variable = v1.get_variable(
            "start", initializer=tf.linspace(-1.0, 1.0, NODE), use_resource=True
        )
        start = variable * 1.0
        end = make(start, length)
        result = v1.gradients(end, start)[0]
        init = v1.global_variables_initializer()
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    with v1.Session(graph=graph, config=config) as session:
        session.run(init)
        values = session.run(result)
        peaks = []
        for _ in range(3):
            before = lms.memory.bytes_in_use()
            lms.memory.reset_peak()
            session.run(result.op)
            peaks.append(lms.memory.peak_bytes() - before)
    return values, peaks


@pytest.mark.parametrize(
    ("make", "length", "published"),
    [
        (chain, 6, 6),
        pytest.param(chain, 100, 20, marks=pytest.mark.slow),
        (residual, 6, 7),
        (residual, 100, 20),
        (two_chains, 5, 9),
    ],
)
def test_no_more_than_was_published(make, length, published):
    stock, before = gradient(make, length)
    lms.enable("min")
    ours, peaks = gradient(make, length)
    report = max(lms.reports(), key=lambda report: report.peak_before_bytes)
    assert ours.tobytes() == stock.tobytes()
    assert report.status in ("rewritten", "fits"), report.reason
    assert max(peaks) <= published * MB, (peaks, before)
    assert report.peak_after_bytes - report.resident_bytes == pytest.approx(peaks[-1], rel=0.02)
    if length == 100:
        assert max(peaks) < 0.2 * max(before)
