"""Sizes that only the run decides: recorded by the step, known to the plan of the next one."""

import itertools

import lms
import numpy as np
import pytest
import tensorflow as tf
from helpers import measured_peak, reports_on, rows

_numbers = itertools.count()
WIDTH = 64


def some_rows(x, count):
    """Those of which the first element is 0: how many only the data says."""
    return tf.boolean_mask(x, x[:, 0] < tf.cast(count, tf.float32))


def by_unique(x, count):
    kept, _ = tf.unique(tf.minimum(tf.range(tf.shape(x)[0]), count - 1))
    return tf.gather(x, kept)


def by_python(x, count):
    (kept,) = tf.numpy_function(lambda x, n: x[:n], [x, count], [tf.float32])
    return tf.ensure_shape(kept, [None, WIDTH])


def by_ragged(x, count):
    ragged = tf.RaggedTensor.from_row_lengths(x[:count], [count // 2, count - count // 2])
    return tf.concat([ragged.to_tensor()[0, : count // 2], ragged.values[count // 2 :]], 0)


WAYS = (some_rows, by_python, by_ragged)


def make_pruned_step(way, noise=lambda y: y):
    """A training step of 8 layers on as many rows as its second argument says."""
    rng = tf.random.Generator.from_seed(7)
    weights = [tf.Variable(rng.normal([WIDTH, WIDTH]) / WIDTH**0.5) for _ in range(8)]

    def step(x, count):
        with tf.GradientTape() as tape:
            y = way(x, count)
            for weight in weights:
                y = noise(tf.tanh(tf.matmul(y, weight)))
            loss = tf.reduce_mean(y * y)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.1 * gradient)
        return loss

    step.__name__ = f"pruned_step_{next(_numbers)}_"
    signature = [tf.TensorSpec([2048, WIDTH]), tf.TensorSpec([], tf.int32)]
    return tf.function(step, input_signature=signature)


def numbered(count=2048):
    """Rows that begin with their own number."""
    x = rows(count).numpy()
    x[:, 0] = np.arange(count)
    return tf.constant(x)


@pytest.mark.parametrize("way", WAYS)
def test_the_second_call_is_planned_with_what_the_first_has_shown(way):
    x, counts = numbered(), [1024, 1024, 700, 1024]
    stock = make_pruned_step(way)
    expected = [stock(x, count).numpy() for count in counts]
    taken = measured_peak(stock, x, 1024)
    lms.enable("60%")
    step = make_pruned_step(way)
    assert [step(x, count).numpy() for count in counts] == expected
    first, second = reports_on(step)
    assert "assumed" in first.reason
    assert "the step records what" in first.warnings[0]
    assert second.warnings == () and "assumed" not in second.reason
    assert any("= 1024 (earlier steps)" in line for line in second.sizes)
    assert second.status == "rewritten"
    # Which of two ops runs first differs from one instance of a function to the next: one tensor.
    predicted = second.peak_before_bytes - second.resident_bytes
    assert -0.02 * taken < predicted - taken <= 2 * 1024 * WIDTH * 4 + 0.02 * taken
    assert measured_peak(step, x, 1024) <= second.budget_bytes - second.resident_bytes


def test_what_an_argument_tells_is_known_to_the_first_plan():
    x = numbered()
    counts = [1024, 1024, 700, 1600, 1600]
    stock = make_pruned_step(by_unique)
    expected = [stock(x, count).numpy() for count in counts]
    taken = {count: measured_peak(stock, x, count) for count in (1024, 1600)}
    lms.enable("60%")
    step = make_pruned_step(by_unique)
    assert [step(x, count).numpy() for count in counts] == expected
    first, *others = reports_on(step)
    assert "assumed" not in first.reason and first.status == "rewritten"
    assert any(line == "count = [1024] (first call)" for line in first.sizes)
    predicted = first.peak_before_bytes - first.resident_bytes
    assert (
        -0.02 * taken[1024] < predicted - taken[1024] <= 2 * 1024 * WIDTH * 4 + 0.02 * taken[1024]
    )
    # More rows than the first call told are recorded by the call that has them.
    last = others[-1]
    assert any("= 1600 (earlier steps)" in line for line in last.sizes)
    assert last.peak_before_bytes - last.resident_bytes > 0.98 * taken[1600]
    assert measured_peak(step, x, 1600) <= last.budget_bytes - last.resident_bytes


def test_a_sparse_arguments_dense_shape_is_known_to_the_first_plan():
    nodes = 3000
    ends = np.stack([np.arange(nodes), np.roll(np.arange(nodes), 1)], 1)
    links = tf.SparseTensor(ends, np.full(nodes, 0.5, np.float32), [nodes, nodes])
    weights = [tf.Variable(tf.eye(WIDTH)) for _ in range(6)]

    def make():
        @tf.function
        def sparse_step(x, links):
            with tf.GradientTape() as tape:
                y = x
                for weight in weights:
                    y = tf.tanh(tf.sparse.sparse_dense_matmul(links, tf.matmul(y, weight)))
                loss = tf.reduce_sum(y)
            return loss, tape.gradient(loss, weights)

        return sparse_step

    x = rows(nodes)
    stock, step = make(), make()
    expected = tf.nest.map_structure(lambda value: value.numpy(), stock(x, links))
    taken = measured_peak(stock, x, links)
    lms.enable("60%")
    found = tf.nest.map_structure(lambda value: value.numpy(), step(x, links))
    np.testing.assert_equal(found, expected)
    (first,) = reports_on(step)
    assert first.status == "rewritten" and first.warnings == ()
    assert any(line.endswith(f"= [{nodes}, {nodes}] (first call)") for line in first.sizes)
    assert first.peak_before_bytes - first.resident_bytes > 0.98 * taken
    # What it told is not recorded again, so the second call needs no other plan.
    step(x, links)
    assert len(reports_on(step)) == 1
    assert measured_peak(step, x, links) <= first.budget_bytes - first.resident_bytes


def test_numbers_that_count_steps_plan_nothing_anew():
    weight = tf.Variable(tf.eye(WIDTH))

    @tf.function(input_signature=[tf.TensorSpec([256, WIDTH]), tf.TensorSpec([], tf.int64)])
    def counted_step(x, number):
        rate = 1 / tf.cast(number + 1, tf.float32)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.tanh(tf.matmul(tf.tanh(x), weight)))
        weight.assign_sub(rate * tape.gradient(loss, weight))
        return loss

    lms.enable("1GiB")
    for number in range(5):
        counted_step(rows(256), number)
    assert len(reports_on(counted_step)) == 1
    assert reports_on(counted_step)[0].sizes == ()


def by_places(x, count):
    """Small numbers of which not even the rank is known, and the large rows that they choose."""
    (places,) = tf.numpy_function(np.arange, [tf.cast(count, tf.int64)], [tf.int64])
    return tf.gather(tf.concat([x, tf.sin(x)], 0), places)


def test_what_has_no_rank_is_said_and_recorded():
    x = numbered()
    stock = make_pruned_step(by_places)
    expected = [stock(x, 1024).numpy() for _ in range(3)]
    taken = measured_peak(stock, x, 1024)
    lms.enable("60%")
    step = make_pruned_step(by_places)
    assert [step(x, 1024).numpy() for _ in range(3)] == expected
    first, second = reports_on(step)
    assert any("not even the number of dimensions is known" in text for text in first.warnings)
    assert second.warnings == () and second.status == "rewritten"
    predicted = second.peak_before_bytes - second.resident_bytes
    assert -0.02 * taken < predicted - taken <= 2 * 1024 * WIDTH * 4 + 0.02 * taken
    assert measured_peak(step, x, 1024) <= second.budget_bytes - second.resident_bytes


def test_more_rows_than_before_are_planned_for():
    x = numbered()
    lms.enable("60%")
    step = make_pruned_step(some_rows)
    for count in (512, 512, 300, 1024, 1024, 600):
        step(x, count)
    sizes = [report.sizes for report in reports_on(step)]
    assert len(sizes) == 3
    assert any("= 512 (earlier steps)" in line for line in sizes[1])
    assert any("= 1024 (earlier steps)" in line for line in sizes[2])


def test_lengths_that_grow_are_not_planned_for_in_each_step():
    x = numbered()
    lms.enable("60%")
    step = make_pruned_step(some_rows)
    for count in range(500, 600, 2):
        step(x, count)
    assert 5 <= len(reports_on(step)) <= 7


def test_a_step_that_fits_records_too():
    lms.enable("1GiB")
    step = make_pruned_step(some_rows)
    x = numbered()
    expected = [make_pruned_step(some_rows)(x, 1024).numpy()]
    assert [step(x, 1024).numpy()] == expected
    step(x, 1024)
    first, second = reports_on(step)
    assert (first.status, second.status) == ("fits", "fits")
    assert second.peak_before_bytes > 10 * (first.peak_before_bytes - first.resident_bytes)


def test_elements_of_a_generator():
    def batches():
        for _ in range(4):
            yield np.ones([512, WIDTH], np.float32)

    data = tf.data.Dataset.from_generator(
        batches, output_signature=tf.TensorSpec([None, WIDTH], tf.float32)
    )
    weights = [tf.Variable(tf.eye(WIDTH)) for _ in range(6)]

    @tf.function
    def generated_step(iterator):
        with tf.GradientTape() as tape:
            y = next(iterator)
            for weight in weights:
                y = tf.tanh(tf.matmul(y, weight))
            loss = tf.reduce_sum(y)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.001 * gradient)
        return loss

    lms.enable("60%")
    iterator = iter(data)
    for _ in range(4):
        generated_step(iterator)
    first, *_, last = reports_on(generated_step)
    assert "assumed" in first.reason and "assumed" not in last.reason
    assert any(line.endswith("= 512 (earlier steps)") for line in last.sizes)
    activations = last.peak_before_bytes - last.resident_bytes
    assert activations > 6 * 512 * WIDTH * 4


def test_the_random_sequence_goes_on():
    def make():
        return make_pruned_step(some_rows, lambda y: tf.nn.dropout(y, 0.3, seed=5))

    x, counts = numbered(), (512, 512, 1024, 1024)
    stock, step = make(), make()
    expected = [stock(x, count).numpy() for count in counts]
    lms.enable("60%")
    assert [step(x, count).numpy() for count in counts] == expected
    assert len(reports_on(step)) == 3


def test_nothing_is_recorded_where_all_is_known():
    weight = tf.Variable(tf.eye(WIDTH))

    @tf.function
    def known_step(x):
        return tf.reduce_sum(tf.matmul(tf.tanh(x), weight))

    lms.enable("1GiB")
    known_step(rows(512))
    known_step(rows(512))
    assert len(reports_on(known_step)) == 1
    assert reports_on(known_step)[0].sizes == ()
