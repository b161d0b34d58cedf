"""Dimensions that a function leaves unknown: what its calls tell of them."""

import threading

import lms
import tensorflow as tf
from helpers import lms_nodes, make_open_step, measured_peak, reports_on, rows
from lms._tf import arguments as _tf_arguments
from lms._tf import context as _tf_context


def test_a_step_with_an_open_batch_keeps_its_budget(no_warning):
    x, last = rows(512), rows(100)
    stock, _ = make_open_step()
    expected = [stock(x).numpy(), stock(x).numpy(), stock(last).numpy()]
    step, _ = make_open_step()
    lms.enable("60%")
    assert step(x).numpy() == expected[0]
    (report,) = reports_on(step)
    assert report.status == "rewritten"
    assert report.sizes == ("x:0 = 512 (first call)",)
    # Eight layers, each with a product and a tanh of 128 KiB.
    assert report.peak_before_bytes - report.resident_bytes > 8 * 2**17
    allowed = report.budget_bytes - report.resident_bytes
    assert measured_peak(step, x) <= allowed
    with _tf_context.override(None):
        assert measured_peak(step, x) > allowed
    # The last, smaller batch runs by the same plan.
    lms.clear_reports()
    step, _ = make_open_step()
    assert [step(x).numpy(), step(x).numpy(), step(last).numpy()] == expected
    (report,) = reports_on(step)
    assert report.sizes == ("x:0 = 512 (first call)",)


def test_a_larger_batch_is_planned_again(no_warning):
    step, _ = make_open_step()
    lms.enable("60%")
    for count in (256, 512, 300, 512):
        step(rows(count))
    assert [report.sizes for report in reports_on(step)] == [
        ("x:0 = 256 (first call)",),
        ("x:0 = 512 (a later call)",),
    ]
    (first, second) = reports_on(step)
    assert second.peak_before_bytes > 1.5 * first.peak_before_bytes
    assert lms_nodes(step, rows(512)) != []


def test_a_batch_that_grows_all_the_time_is_not_planned_all_the_time():
    step, _ = make_open_step(layers=2)
    lms.enable("60%")
    for count in range(64, 128):
        step(rows(count))
    # Three times exactly, then by a quarter: 64, 65, 66, 67, 83, 103, 128.
    assert [report.sizes[0].split()[2] for report in reports_on(step)] == [
        "64", "65", "66", "67", "83", "103", "128",
    ]  # fmt: skip


def test_each_argument_has_sizes_of_its_own():
    @tf.function(input_signature=[tf.TensorSpec([None, None]), {"b": [tf.TensorSpec([None, 3])]}])
    def step_of_two(x, named):
        y = tf.tanh(tf.reshape(x, [-1]))
        return tf.reduce_sum(y) + tf.reduce_sum(tf.exp(named["b"][0]))

    lms.enable("1GiB")
    step_of_two(tf.ones([3, 7]), {"b": [tf.ones([11, 3])]})
    (report,) = reports_on(step_of_two)
    assert set(report.sizes) == {
        "x:0 = 3 (first call)",
        "x:1 = 7 (first call)",
        "named:0 = 11 (first call)",
    }
    # Arguments, and of what is made no more than tanh or exp beside the reshaped x.
    assert report.resident_bytes >= (21 + 33) * 4


def test_a_function_that_leaves_nothing_open_is_looked_at_once():
    @tf.function(input_signature=[tf.TensorSpec([4, 64])])
    def closed_step(x):
        return tf.reduce_sum(tf.tanh(x))

    lms.enable("min")
    closed_step(rows(4))
    name = closed_step.get_concrete_function().name
    assert _tf_arguments._functions[name if isinstance(name, bytes) else name.encode()] is None


def test_gradients_outside_the_function():
    # Run under a tape, the function is split: its backward half is called with open shapes, too.
    @tf.function(input_signature=[tf.TensorSpec([None, 64])])
    def forward_only(x):
        return tf.reduce_sum(tf.tanh(tf.tanh(x)))

    x = tf.Variable(rows(40))
    lms.enable("1GiB")
    with tf.GradientTape() as tape:
        loss = forward_only(x)
    tape.gradient(loss, x)
    assert lms.reports() != []
    for report in lms.reports():
        assert not report.warnings, report
        assert all("= 40 (first call)" in size for size in report.sizes)


def test_threads_that_call_one_function():
    step, _ = make_open_step(layers=3)
    lms.enable("60%")
    failures = []

    def work(count):
        try:
            for _ in range(5):
                step(rows(count))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(count,)) for count in (64, 128, 256)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert reports_on(step)[-1].sizes[0].startswith("x:0 = 256")


def test_a_function_called_by_a_function_that_is_called_by_a_function():
    inner, _ = make_open_step(layers=8)

    @tf.function(input_signature=[tf.TensorSpec([None, 64])])
    def middle(x):
        return inner(x) + 1

    @tf.function(input_signature=[tf.TensorSpec([None, 64])])
    def outer_step(x):
        return middle(x) * 2

    lms.enable("60%")
    outer_step(rows(512))
    assert reports_on(outer_step)[-1].sizes == ("x:0 = 512 (first call)",)
    assert reports_on(outer_step)[-1].status == "rewritten"
