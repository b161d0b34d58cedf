"""Dimensions of what v1 sessions are fed, and of what datasets in their graphs hand out."""

import lms
import numpy as np
import pytest
import tensorflow as tf
from helpers import ONEDNN

tf1 = tf.compat.v1
ROWS, WIDTH = 640, 64


def data():
    return np.random.default_rng(5).normal(size=(ROWS, WIDTH)).astype("float32")


def train(x):
    y = x
    for number in range(8):
        y = tf.tanh(tf.matmul(y, tf1.get_variable(f"w{number}", [WIDTH, WIDTH])))
    step = tf1.train.get_or_create_global_step()
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    return optimizer.minimize(tf.reduce_mean(y * y), global_step=step)


def planned():
    return [report for report in lms.reports() if report.status == "rewritten"]


def test_what_is_fed(no_warning):
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None, WIDTH], name="images")
        step = train(x)
        lms.enable("60%")
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(step, {x: data()})
            session.run(step, {x: data()[:100]})
    (report,) = planned()
    assert report.sizes == ("images:0 = 640 (unknown_dim)",)
    assert report.function == f"session.run({step.name})"


@pytest.mark.parametrize("made", ["Session", "InteractiveSession"])
def test_what_is_fed_where_only_the_config_is_ours(no_warning, made):
    config = lms.configure(tf1.ConfigProto(), "60%")
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, WIDTH], name="images")
        step = train(x)
        session = getattr(tf1, made)(config=config, graph=graph)
        session.run(tf1.global_variables_initializer())
        session.run(step, {x: data()})
        session.close()
    (report,) = planned()
    assert report.sizes == ("images:0 = 640 (unknown_dim)",)


def test_more_than_was_planned_for_is_told_once(caplog):
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None, WIDTH], name="images")
        step = train(x)
        lms.enable("60%")
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            for rows in (64, 32, 64):
                session.run(step, {x: data()[:rows]})
            assert "is fed more" not in caplog.text
            for rows in (128, 640):
                session.run(step, {x: data()[:rows]})
    assert caplog.text.count("is fed more than its step was planned for") == 1
    assert "images:0 was 64 and is 128" in caplog.text and "unknown_dim=128" in caplog.text


def test_what_the_user_says_goes_before(caplog):
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None, WIDTH], name="images")
        step = train(x)
        lms.enable("60%", unknown_dim={"images": 512})
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(step, {x: data()[:100]})
            session.run(step, {x: data()})
    assert planned()[-1].sizes == ("images:0 = 512 (unknown_dim)",)
    assert "is fed more" not in caplog.text


@pytest.mark.parametrize("made", ["one shot", "initializable", "reinitializable"])
def test_datasets_in_the_graph(no_warning, made):
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.from_tensor_slices(data()).repeat().batch(128)
        starts = []
        if made == "one shot":
            iterator = tf1.data.make_one_shot_iterator(dataset)
        elif made == "initializable":
            iterator = tf1.data.make_initializable_iterator(dataset)
            starts = [iterator.initializer]
        else:
            iterator = tf1.data.Iterator.from_structure(
                tf1.data.get_output_types(dataset), tf1.data.get_output_shapes(dataset)
            )
            starts = [iterator.make_initializer(dataset)]
        step = train(iterator.get_next())
        lms.enable("60%")
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer(), *starts])
            session.run(step)
    (report,) = planned()
    assert [text.split(" = ")[1] for text in report.sizes] == ["128 (unknown_dim)"]


def test_a_loop_in_a_monitored_session():
    """As tf.estimator trains."""
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.from_tensor_slices(data()).repeat().batch(128)
        step = train(tf1.data.make_one_shot_iterator(dataset).get_next())
        lms.enable("60%")
        hooks = [tf1.train.StopAtStepHook(3)]
        with tf1.train.MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                session.run(step)
    assert planned()
    assert all("= 128 " in text for report in planned() for text in report.sizes)


@pytest.mark.skipif(not ONEDNN, reason="TensorFlow's own kernel keeps nothing")
@pytest.mark.parametrize("channels", [32, 20])
def test_what_a_batch_normalization_keeps_for_its_gradient(no_warning, channels):
    """With oneDNN and a Relu behind it that is half a byte for each element, or, of channels that
    make up no whole vector, as much as its result; no shape says so."""
    rows, side, layers = 16, 32, 6
    images = np.random.default_rng(6).normal(size=(rows, side, side, 3)).astype("float32")
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [rows, side, side, 3], name="images")
        y = x
        for number in range(layers):
            kernel = tf1.get_variable(f"k{number}", [3, 3, y.shape[-1], channels])
            scale = tf1.get_variable(f"s{number}", [channels])
            offset = tf1.get_variable(f"o{number}", [channels])
            y = tf.nn.conv2d(y, kernel, 1, "SAME")
            y, _, _ = tf1.nn.fused_batch_norm(y, scale, offset, is_training=True)
            y = tf.nn.relu(y)
        step = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(y * y))
        lms.enable("60%")
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(step, {x: images})
            before = lms.memory.bytes_in_use()
            lms.memory.reset_peak()
            session.run(step, {x: images})
            took = lms.memory.peak_bytes() - before
    (report,) = planned()
    assert not report.warnings and not report.sizes
    predicted = report.peak_after_bytes - report.resident_bytes
    assert 0.97 * took <= predicted <= 1.08 * took
    assert took <= report.budget_bytes - report.resident_bytes
