"""Kinds of tensors and ops: slices, ragged, sparse, arrays, complex, whole numbers, factorings."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from forms import compare, rewritten
from steps import BATCH, LAYERS, WIDTH, chain, inputs, weights

ROWS = np.random.default_rng(1)


def mean_square(y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(y * y)


def descend(tape: tf.GradientTape, loss: tf.Tensor, variables: list[tf.Variable]) -> None:
    """Of slices only their rows."""
    for variable, slope in zip(variables, tape.gradient(loss, variables)):
        if isinstance(slope, tf.IndexedSlices):
            variable.scatter_sub(tf.IndexedSlices(0.1 * slope.values, slope.indices))
        else:
            variable.assign_sub(0.1 * slope)


def trained(act):
    """A step on layers, with act applied to each matrix product."""
    layers = weights()

    def step(x):
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                y = act(tf.matmul(y, layer))
            loss = mean_square(y)
        descend(tape, loss, layers)
        return loss

    return step


def half(y):
    first, second = tf.split(y, 2, 1)
    y = tf.concat([tf.tanh(first), tf.sigmoid(second) * first], 1)
    return tf.reshape(tf.transpose(tf.reshape(y, [BATCH, 8, 8]), [0, 2, 1]), [BATCH, WIDTH])


def fourier(y):
    spectrum = tf.signal.fft(tf.cast(y, tf.complex64)) * tf.exp(tf.complex(0.0, 0.1))
    return tf.tanh(tf.math.real(tf.signal.ifft(spectrum)))


def by_bits(y):
    bits = tf.bitwise.bitwise_xor(tf.cast(y * 100, tf.int32) * 3 + 1, tf.cast(y > 0, tf.int32))
    return tf.where((bits % 2 == 0) | ~(y > 0), tf.tanh(y), tf.sin(y))


def placed(y):
    with tf.device("/job:localhost/replica:0/task:0/device:CPU:0"):
        z = tf.tanh(y)
    with tf.device("/CPU:0"):
        return tf.sin(z)


ACTS = {
    "split, concat, transpose": half,
    "complex": fourier,
    "real fft": lambda y: tf.tanh(tf.signal.irfft(tf.signal.rfft(y) * 0.5)),
    "whole numbers and booleans": by_bits,
    "sort": lambda y: tf.sort(tf.tanh(y), axis=1),
    "devices": placed,
}


@pytest.mark.parametrize("kind", ACTS)
def test_ops_of_one_tensor(kind):
    rewritten(trained(ACTS[kind]), inputs())


def test_integers_alone():
    def step(numbers):
        ys = [numbers]
        for k in range(8):
            ys.append(tf.bitwise.bitwise_xor(ys[-1] * 3, ys[-1] + k))
        total = tf.zeros_like(numbers)
        for y in ys[::-1]:
            total = total * 2 + y
        return total

    rewritten(step, tf.range(BATCH * WIDTH))


def test_factorings():
    """Ops with several results, of which some are read again."""
    a = tf.Variable(tf.random.Generator.from_seed(7).normal([8, 64, 64]) / 8)
    eye = tf.eye(64)

    def step():
        with tf.GradientTape() as tape:
            spread, u, _ = tf.linalg.svd(a)
            q, r = tf.linalg.qr(tf.matmul(u, tf.linalg.diag(tf.tanh(spread))) + a)
            values, vectors = tf.linalg.eigh(q + tf.linalg.matrix_transpose(q))
            square = tf.matmul(r, r, transpose_a=True) + eye
            lower = tf.linalg.cholesky(square)
            solved = tf.linalg.solve(square, vectors)
            loss = mean_square(values) + mean_square(solved) + tf.reduce_sum(tf.abs(spread))
            loss += tf.reduce_sum(tf.math.log(tf.linalg.diag_part(lower)))
        descend(tape, loss, [a])
        return loss, spread

    # Kernels of linear algebra copy what they work on: no promise is made for that.
    stock, ours, report = compare(step)
    assert report.status == "rewritten" and ours.peak < stock.peak


def test_shapes_that_the_run_decides():
    layers = weights()

    def step(x):
        with tf.GradientTape() as tape:
            y = chain(x, layers)
            some = chain(tf.boolean_mask(y, y[:, 0] > 0), layers)
            values, places, counts = tf.unique_with_counts(tf.cast(y[:, 1] * 10, tf.int32))
            means = tf.math.unsorted_segment_mean(y, places, tf.size(values))
            loss = mean_square(some) + mean_square(means)
        descend(tape, loss, layers)
        return loss, tf.where(y[:, 0] > 0), values, counts, tf.math.top_k(y[0], 8)

    stock, ours, report = compare(step, inputs())
    assert report.status == "rewritten" and ours.peak < stock.peak
    assert report.warnings == ()
    assert any("Where:0 = " in line and "(earlier steps)" in line for line in report.sizes)


def test_one_table_of_embeddings_in_three_places():
    """Looked up twice, and tied: the table is the output layer as well."""
    table, layers = weights(1, [1000, WIDTH])[0], weights()
    ids = tf.constant(ROWS.integers(0, 1000, BATCH))

    def step(ids, others):
        with tf.GradientTape() as tape:
            y = tf.nn.embedding_lookup(table, ids)
            y = chain(y + tf.sin(tf.nn.embedding_lookup(table, others)), layers)
            logits = tf.matmul(y, table, transpose_b=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(ids, logits)
            loss = tf.reduce_mean(losses)
        descend(tape, loss, [table, *layers])
        return loss

    stock, ours, report = compare(step, ids, ids[::-1])
    assert report.status == "rewritten" and ours.peak < stock.peak


def test_adam_on_slices():
    table, layers = weights(1, [1000, WIDTH])[0], weights()
    first = tf.Variable(tf.zeros([1000, WIDTH]))
    second = tf.Variable(tf.zeros([1000, WIDTH]))

    def step(ids):
        with tf.GradientTape() as tape:
            y = chain(tf.nn.embedding_lookup(table, ids), layers)
            loss = mean_square(y + tf.nn.embedding_lookup(table, ids[::-1]))
        slices, *slopes = tape.gradient(loss, [table, *layers])
        assert isinstance(slices, tf.IndexedSlices)
        rows, places = tf.unique(slices.indices)
        added = tf.math.unsorted_segment_sum(slices.values, places, tf.size(rows))
        first.assign(0.9 * first)
        first.scatter_add(tf.IndexedSlices(0.1 * added, rows))
        second.assign(0.99 * second)
        second.scatter_add(tf.IndexedSlices(0.01 * added * added, rows))
        change = tf.gather(first, rows) / (tf.sqrt(tf.gather(second, rows)) + 1e-7)
        table.scatter_sub(tf.IndexedSlices(0.01 * change, rows))
        for layer, slope in zip(layers, slopes):
            layer.assign_sub(0.1 * slope)
        return loss

    stock, ours, report = compare(step, tf.constant(ROWS.integers(0, 1000, BATCH)))
    assert report.status == "rewritten" and ours.peak < stock.peak


def test_ragged_tensors():
    layers = weights()
    rows = tf.RaggedTensor.from_row_lengths(inputs(), [100, 12, 200, 200])

    def step(rows):
        with tf.GradientTape() as tape:
            y = tf.ragged.map_flat_values(chain, rows, layers)
            loss = tf.reduce_sum(tf.reduce_max(y, 1) ** 2)
        descend(tape, loss, layers)
        return loss, y

    stock, ours, report = compare(step, rows)
    assert report.status == "rewritten" and ours.peak < stock.peak


def test_sparse_matrices():
    """How large a product is, the dense shape of the argument says."""
    layers = weights()
    places = np.unique(ROWS.integers(0, BATCH, [2000, 2]), axis=0)
    values = tf.constant(ROWS.random(len(places)), tf.float32) / 4
    matrix = tf.SparseTensor(places, values, [BATCH, BATCH])

    def step(x, matrix):
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                y = tf.tanh(tf.sparse.sparse_dense_matmul(matrix, tf.matmul(y, layer)))
            loss = mean_square(y)
        descend(tape, loss, layers)
        return loss

    stock, ours, report = compare(step, inputs(), matrix)
    assert report.status == "rewritten" and ours.peak < stock.peak
    assert any("(first call)" in line for line in report.sizes)


@pytest.mark.parametrize("kind", ["TensorArray", "vectorized_map"])
def test_arrays(kind):
    layers = weights()

    def step(x):
        with tf.GradientTape() as tape:
            if kind == "vectorized_map":
                loss = mean_square(tf.vectorized_map(lambda a: chain(a, layers), tf.stack([x, -x])))
            else:
                array, y = tf.TensorArray(tf.float32, LAYERS, clear_after_read=False), x
                for i, layer in enumerate(layers):
                    y = tf.tanh(tf.matmul(y, layer))
                    array = array.write(i, y)
                loss = mean_square(array.stack()) + mean_square(array.read(2) * array.read(4))
        descend(tape, loss, layers)
        return loss

    rewritten(step, inputs())
