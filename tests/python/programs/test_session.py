"""tf.compat.v1.Session, with and without enable(), with and without a config."""

import threading

import lms
import numpy as np
import pytest
import tensorflow as tf
from lms._tf import sessions as _sessions
from patience import HANGS
from tensorflow.core.protobuf import rewriter_config_pb2
from v1_session import train

v1 = tf.compat.v1


def ours(nodes):
    return [name for name in nodes if name.startswith("lms/")]


@pytest.fixture(scope="module")
def stock():
    losses, nodes = train(lambda graph: v1.Session(graph=graph))
    assert ours(nodes) == []
    return losses


def test_a_session_without_config(stock):
    lms.enable("min")
    losses, nodes = train(lambda graph: v1.Session(graph=graph))
    assert ours(nodes) != []
    assert losses == stock


def test_a_session_with_a_config_which_stays_as_it_is(stock):
    config = v1.ConfigProto(allow_soft_placement=True, intra_op_parallelism_threads=1)
    config.graph_options.rewrite_options.remapping = rewriter_config_pb2.RewriterConfig.OFF
    before = config.SerializeToString(deterministic=True)
    lms.enable("min")
    sessions = []

    def make(graph):
        sessions.append(v1.Session("", graph, config))
        return sessions[-1]

    losses, nodes = train(make)
    assert ours(nodes) != []
    assert losses == stock
    assert config.SerializeToString(deterministic=True) == before
    used = sessions[0]._config
    assert used.intra_op_parallelism_threads == 1
    assert used.graph_options.rewrite_options.remapping == rewriter_config_pb2.RewriterConfig.OFF


def test_a_session_after_disable(stock):
    lms.enable("min")
    lms.disable()
    losses, nodes = train(lambda graph: v1.Session(graph=graph))
    assert ours(nodes) == []
    assert losses == stock


def test_configure_without_enable(stock):
    config = lms.configure(v1.ConfigProto(), "min")
    losses, nodes = train(lambda graph: v1.Session(graph=graph, config=config))
    assert ours(nodes) != []
    assert losses == stock


def test_an_entry_written_by_hand_without_enable(stock):
    config = v1.ConfigProto()
    entry = config.graph_options.rewrite_options.custom_optimizers.add()
    entry.name = "LmsOptimizer"
    entry.parameter_map["memory_budget"].s = b"min"
    losses, nodes = train(lambda graph: v1.Session(graph=graph, config=config))
    assert ours(nodes) != []
    assert losses == stock


def test_an_entry_written_by_hand_wins_over_enable():
    config = lms.configure(None, "50%")
    lms.enable("min")
    train(lambda graph: v1.Session(graph=graph, config=config))
    assert {report.budget for report in lms.reports()} == {"50%"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_wrong_arguments_raise_as_ever():
    lms.enable("min")
    with pytest.raises(TypeError, match="config"):
        v1.Session(config="nonsense")


def test_grapplers_own_swapper_is_off():
    own = v1.ConfigProto().graph_options.rewrite_options
    configured = lms.configure(None, "1GiB").graph_options.rewrite_options
    assert configured.memory_optimization == own.SCHEDULING_HEURISTICS
    for kept in (own.NO_MEM_OPT, own.SWAPPING_HEURISTICS, own.MANUAL):
        config = v1.ConfigProto()
        config.graph_options.rewrite_options.memory_optimization = kept
        configured = lms.configure(config, "1GiB").graph_options.rewrite_options
        assert configured.memory_optimization == kept
    # XLA's clusters switch the default off as a whole.
    config = v1.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = v1.OptimizerOptions.ON_1
    configured = lms.configure(config, "1GiB").graph_options.rewrite_options
    assert configured.memory_optimization == own.DEFAULT_MEM_OPT


def test_configure_replaces_its_own_entry_and_keeps_the_rest():
    config = v1.ConfigProto(allow_soft_placement=True)
    config.graph_options.rewrite_options.custom_optimizers.add().name = "TheirOptimizer"
    first = lms.configure(config, "1GiB", strict=True)
    second = lms.configure(first, "2GiB")
    assert len(config.graph_options.rewrite_options.custom_optimizers) == 1
    assert second.allow_soft_placement
    names = [entry.name for entry in second.graph_options.rewrite_options.custom_optimizers]
    assert names == ["TheirOptimizer", "LmsOptimizer"]
    parameters = second.graph_options.rewrite_options.custom_optimizers[1].parameter_map
    assert {key: parameters[key].s for key in parameters} == {"memory_budget": b"2GiB"}
    assert len(first.graph_options.rewrite_options.custom_optimizers) == 2


def test_configure_rejects_what_is_no_config():
    with pytest.raises(TypeError, match=r"ConfigProto, not str"):
        lms.configure("2GiB")


def test_rewriter_config_has_the_types_of_the_options():
    rewrite = lms.rewriter_config(
        2**31, recompute=True, reorder=False, unknown_dim=8, planner_seconds=2, safety_margin=0.25
    )
    (entry,) = rewrite.custom_optimizers
    assert entry.name == "LmsOptimizer"
    parameters = entry.parameter_map
    assert parameters["memory_budget"].i == 2**31
    assert parameters["recompute"].b is True
    assert parameters["reorder"].WhichOneof("value") == "b" and not parameters["reorder"].b
    assert parameters["unknown_dim"].i == 8
    assert parameters["safety_margin"].f == 0.25
    assert "strict" not in parameters


def test_ops_that_wait_for_each_other_are_not_ordered():
    # The queue is filled by the step that empties it: "dequeue waits for enqueue" is no edge of
    # the graph, and an order that contradicts it would never end.
    graph = tf.Graph()
    with graph.as_default():
        queue = v1.FIFOQueue(4, [tf.float32], shapes=[[256, 256]])
        taken = queue.dequeue()
        result = tf.reduce_sum(tf.matmul(tf.tanh(taken), taken))
        weight = v1.get_variable("w", [256, 256], use_resource=True)
        y = x = v1.placeholder(tf.float32, [256, 256])
        for _ in range(20):
            y = tf.tanh(tf.matmul(y, weight))
        update = v1.assign_sub(weight, 0.1 * tf.gradients(tf.reduce_sum(y), [weight])[0])
        fetches = [result, update, queue.enqueue([y])]
        init = v1.global_variables_initializer()
    config = lms.configure(v1.ConfigProto(operation_timeout_in_ms=int(1000 * HANGS)), "60%")
    with v1.Session(graph=graph, config=config) as session:
        session.run(init)
        lms.clear_reports()
        session.run(fetches, {x: [[0.5] * 256] * 256})
    (report,) = lms.reports()
    assert report.status == "skipped" and "may wait for another op" in report.reason


def test_reports_name_steps_as_the_note_on_an_error_does():
    """Which is made of what was run alone: four of something are three and dots."""
    lms.enable("1GiB")
    with tf.Graph().as_default(), v1.Session() as session:
        weights = [v1.get_variable(name, [64, 64]) for name in "dacb"]
        y = tf.random.stateless_normal([512, 64], [1, 2])
        for weight in weights:
            y = tf.tanh(tf.matmul(y, weight))
        loss = tf.reduce_mean(y * y)
        update = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        slopes = tf.gradients(loss, weights)
        session.run(v1.global_variables_initializer())
        for fetches, targets in ((slopes, []), ([loss], [update])):
            lms.clear_reports()
            session.run([*fetches, *targets])
            assert lms.reports()[-1].function == _sessions._step_name(fetches, targets)


def in_parts(session, graph):
    """The second part is all of the training: what it is fed with comes from the first one."""
    with graph.as_default():
        a, b = (v1.placeholder(tf.float32, (512, 64)) for _ in range(2))
        middle = tf.reduce_mean(tf.nn.softplus(tf.concat([tf.tanh(a * k) for k in range(1, 7)], 1)))
        y = a + b
        for layer in range(6):
            start = tf.random.stateless_normal([64, 64], [layer, 3]) / 8.0
            weight = v1.get_variable(f"w{layer}", initializer=start, use_resource=True)
            y = tf.nn.gelu(tf.matmul(y, weight))
        loss = tf.reduce_mean(y * y)
        with tf.control_dependencies([v1.train.AdamOptimizer(1e-3).minimize(loss)]):
            loss = loss + 0.0
        session.run(v1.global_variables_initializer())
    data, losses = np.ones([512, 64], "float32"), []
    for _ in range(2):
        handle = session.partial_run_setup([middle, loss], [a, b])
        factor = session.partial_run(handle, middle, {a: data})
        losses.append(session.partial_run(handle, loss, {b: data * factor}))
    # The same as one run, which may be planned.
    losses.append(session.run(loss, {a: data, b: data * factor}))
    return losses


def test_a_step_that_runs_in_parts_is_left_alone():
    graph = tf.Graph()
    expected = in_parts(v1.Session(graph=graph), graph)
    lms.enable("min")
    graph = tf.Graph()
    session = v1.Session(graph=graph)
    found = []
    thread = threading.Thread(target=lambda: found.append(in_parts(session, graph)), daemon=True)
    thread.start()
    thread.join(HANGS)
    assert found == [expected]
    statuses = {report.status: report.reason for report in lms.reports()}
    assert "in parts (Session.partial_run)" in statuses["skipped"]
    assert "rewritten" in statuses
