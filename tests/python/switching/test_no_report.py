"""Where TensorFlow's graph optimizers do not run: lms has them run, or says why."""

import logging

import lms
import numpy as np
import pytest
import tensorflow as tf
from forked import run_forked
from helpers import make_step

tf1 = tf.compat.v1


def training():
    """A training step in a v1 graph: its operation and its loss."""
    y = tf.constant(np.random.default_rng(3).normal(size=(512, 64)), tf.float32)
    weights = [tf1.get_variable(f"w{i}", [64, 64]) for i in range(8)]
    for weight in weights:
        y = tf.tanh(tf.matmul(y, weight))
    loss = tf.reduce_mean(y * y)
    return tf1.train.GradientDescentOptimizer(0.1).minimize(loss), loss


def statuses():
    return [report.status for report in lms.reports()]


@pytest.mark.parametrize("how", ["interactive", "asked for"])
def test_sessions_that_place_pruned_graphs(how):
    with tf.Graph().as_default():
        step, _ = training()
        lms.enable("60%")
        config = tf1.ConfigProto()
        if how == "interactive":
            session = tf1.InteractiveSession(config=config)
        else:
            config.graph_options.place_pruned_graph = True
            session = tf1.Session(config=config)
        try:
            session.run(tf1.global_variables_initializer())
            session.run(step)
            assert "rewritten" in statuses()
            assert not config.graph_options.rewrite_options.custom_optimizers
        finally:
            session.close()


def test_a_node_that_fits_no_device():
    """Stock TensorFlow trains there, so lms does: without a plan, and with a word about it."""
    with tf.Graph().as_default():
        step, loss = training()
        with tf.device("/device:GPU:7"):
            _ = loss + 1.0
        lms.enable("60%")
        session = tf1.InteractiveSession()
        try:
            with pytest.warns(UserWarning, match="can assign to no device"):
                session.run(tf1.global_variables_initializer())
            before = session.run(loss)
            session.run(step)
            assert session.run(loss) < before
            assert statuses() == []
        finally:
            session.close()


def test_such_a_node_added_to_a_session_that_has_trained():
    with tf.Graph().as_default():
        step, loss = training()
        lms.enable("60%")
        session = tf1.InteractiveSession()
        try:
            session.run(tf1.global_variables_initializer())
            session.run(step)
            with tf.device("/device:GPU:7"):
                _ = loss + 1.0
            warned = pytest.warns(UserWarning, match="make the session before lms.enable")
            with warned, pytest.raises(tf.errors.InvalidArgumentError):
                session.run(step)
        finally:
            session.close()


def reasons(caplog):
    caplog.clear()
    with caplog.at_level(logging.WARNING, "lms"):
        assert lms.report() is None
    return " | ".join(record.getMessage() for record in caplog.records)


def test_the_log_says_why(caplog):
    assert "lms is not enabled" in reasons(caplog)
    lms.enable("60%")
    assert "no tf.function has been called" in reasons(caplog)
    step, _ = make_step()
    tf.config.run_functions_eagerly(True)
    step()
    assert "functions run eagerly" in reasons(caplog)
    tf.config.run_functions_eagerly(False)
    small = tf.function(lambda: tf.constant(1.0))
    small()
    assert "fewer than 4 nodes" in reasons(caplog)

    @tf.function(jit_compile=True)
    def compiled():
        return tf.reduce_sum(tf.random.stateless_normal([8, 8], [1, 2]))

    with pytest.warns(UserWarning, match="jit_compile"):
        compiled()
    lms.clear_reports()
    assert "is compiled by XLA" in reasons(caplog)
    lms.enable("50%")
    step()
    with caplog.at_level(logging.WARNING, "lms"):
        caplog.clear()
        assert lms.report() is not None
    assert not caplog.records


def test_optimizers_that_are_switched_off():
    """In a process of its own: the switch is the process'."""
    code = """
import lms, tensorflow as tf, warnings
warnings.simplefilter("ignore")
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
lms.enable("60%")
tf.function(lambda x: tf.tanh(x) * 2.0 + 1.0)(tf.ones([4]))
assert lms.report() is None
"""
    status, output = run_forked(code)
    assert status == 0, output
    assert "graph optimizers are switched off" in output
