"""Dimensions of what an iterator yields: what its dataset tells of them."""

import lms
import numpy as np
import pytest
import tensorflow as tf
from helpers import reports_on


def train_on(dataset, width=64):
    """A function that takes an iterator, after one call with an iterator on the dataset."""

    @tf.function
    def iterator_step(iterator):
        (x,) = next(iterator)
        return tf.reduce_sum(tf.tanh(tf.reshape(x, [-1, width])))

    lms.clear_reports()
    iterator_step(iter(dataset))
    return reports_on(iterator_step)[-1].sizes


def numbers(count=100, width=64):
    return tf.data.Dataset.from_tensor_slices((np.ones([count, width], np.float32),))


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda d: d.batch(32), 32),
        (lambda d: d.batch(32, num_parallel_calls=2).prefetch(1), 32),
        (lambda d: d.batch(400), 100),  # all rows there are
        (lambda d: d.repeat().batch(400), 400),
        (lambda d: d.shuffle(10).batch(8).cache().repeat(2).take(9).skip(1).shard(2, 0), 8),
        (lambda d: d.batch(8).filter(lambda x: True), 8),
        (lambda d: d.batch(8).with_options(tf.data.Options()), 8),
        (lambda d: d.batch(8).map(lambda x: (tf.concat([x, 2 * x], 0),)), 16),
        (lambda d: d.batch(8).map(lambda x: (x + 1,), num_parallel_calls=2), 8),
        (lambda d: d.batch(8).batch(3), 3),
        (lambda d: d.batch(8).unbatch().batch(5), 5),
        (lambda d: d.batch(8).concatenate(d.batch(12)), 12),
        (lambda d: d.batch(8).rebatch(20), 20),
        (lambda d: d.padded_batch(8, padded_shapes=([None],)), 8),
        (lambda d: tf.data.Dataset.sample_from_datasets([d.batch(8), d.batch(9)]), 9),
    ],
)
def test_the_batch_of_a_dataset(make, size):
    lms.enable("1GiB")
    sizes = train_on(make(numbers()))
    assert sizes[0] == f"iterator[0]:0 = {size} (dataset)"


def test_enumerate_and_zip():
    @tf.function
    def zipped_step(iterator):
        _, ((x,), (y,)) = next(iterator)
        return tf.reduce_sum(tf.tanh(x)) + tf.reduce_sum(tf.exp(y))

    lms.enable("1GiB")
    data = tf.data.Dataset.zip((numbers().batch(8), numbers(50).batch(12))).enumerate()
    zipped_step(iter(data))
    assert reports_on(zipped_step)[-1].sizes == (
        "iterator[1]:0 = 8 (dataset)",
        "iterator[2]:0 = 12 (dataset)",
    )


def test_what_cannot_be_known_is_assumed_and_said():
    lms.enable("1GiB")
    generator = tf.data.Dataset.from_generator(
        lambda: iter([(np.ones([5, 64]),)]), output_signature=(tf.TensorSpec([None, 64]),)
    )
    assert train_on(generator) == ("iterator[0]:0 = 32 (assumed)",)
    (warning,) = lms.reports()[-1].warnings
    assert "iterator[0]:0" in warning and "set unknown_dim" in warning
    with lms.enabled("1GiB", unknown_dim={"iterator": 5}):
        assert train_on(generator) == ("iterator[0]:0 = 5 (unknown_dim)",)
        assert lms.reports()[-1].warnings == ()


def test_nothing_of_the_data_is_consumed():
    @tf.function
    def take(iterator):
        return next(iterator)

    lms.enable("1GiB")
    iterator = iter(tf.data.Dataset.range(10).map(lambda i: i + 1).batch(4))
    assert [list(take(iterator).numpy()) for _ in range(3)] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


def test_a_dataset_with_larger_batches_later(no_warning):
    @tf.function
    def iterator_step(iterator):
        (x,) = next(iterator)
        return tf.reduce_sum(tf.tanh(x))

    lms.enable("1GiB")
    for size in (8, 4, 20, 8):
        iterator_step(iter(numbers().batch(size)))
    assert [report.sizes[0] for report in reports_on(iterator_step)] == [
        "iterator[0]:0 = 8 (dataset)",
        "iterator[0]:0 = 20 (dataset)",
    ]
