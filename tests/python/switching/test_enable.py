"""lms.enable, disable and enabled on tf.functions."""

import logging

import lms
import pytest
import tensorflow as tf
from forked import run_forked
from helpers import lms_nodes, make_step, optimized_nodes, reports_on
from tensorflow.python.eager import context


def call_config() -> tf.compat.v1.ConfigProto:
    """The configuration that a function call of this thread carries now."""
    attrs = context.context().function_call_options.as_attrs()
    return tf.compat.v1.ConfigProto.FromString(attrs["config_proto"])


def entries(config: tf.compat.v1.ConfigProto) -> list:
    optimizers = config.graph_options.rewrite_options.custom_optimizers
    return [entry for entry in optimizers if entry.name == "LmsOptimizer"]


def test_a_function_that_ran_before_is_rewritten_at_its_next_call():
    step, _ = make_step()
    step()
    assert reports_on(step) == []
    lms.enable("min")
    assert lms_nodes(step) != []
    assert {report.budget for report in reports_on(step)} == {"min"}


def test_a_function_that_was_traced_only_is_rewritten():
    step, _ = make_step()
    step.get_concrete_function()
    lms.enable("min")
    assert lms_nodes(step) != []


def test_losses_are_the_same_with_and_without():
    (stock, stock_weights), (ours, our_weights) = make_step(), make_step()
    expected = [stock().numpy() for _ in range(3)]
    with lms.enabled("min"):
        assert [ours().numpy() for _ in range(3)] == expected
        assert reports_on(ours)[0].status == "rewritten"
    for a, b in zip(stock_weights, our_weights):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_disable_puts_everything_back():
    wrapped = [(context.FunctionCallOptions, "as_attrs")]
    wrapped += [
        (tf.compat.v1.Session.__mro__[1], "__init__"),
        (type(tf.function(print)), "__call__"),
    ]
    before = [owner.__dict__[name] for owner, name in wrapped]
    config = call_config()
    step, _ = make_step()
    nodes = optimized_nodes(step)
    lms.enable("min")
    assert [owner.__dict__[name] for owner, name in wrapped] != before
    assert optimized_nodes(step) != nodes
    lms.disable()
    assert [owner.__dict__[name] for owner, name in wrapped] == before
    assert call_config() == config
    assert optimized_nodes(step) == nodes


def test_disable_passes_through_under_a_wrapper_of_somebody_else(monkeypatch):
    lms.enable("min")
    ours = context.FunctionCallOptions.as_attrs
    theirs = lambda self: ours(self)  # noqa: E731
    context.FunctionCallOptions.as_attrs = theirs
    lms.disable()
    assert context.FunctionCallOptions.as_attrs is theirs
    assert entries(call_config()) == []
    lms.enable("min")
    assert len(entries(call_config())) == 1
    context.FunctionCallOptions.as_attrs = ours
    lms.disable()
    assert context.FunctionCallOptions.as_attrs is not ours


def test_other_settings_are_kept_before_and_after():
    tf.config.optimizer.set_experimental_options({"remapping": False})
    try:
        lms.enable("min")
        assert call_config().graph_options.rewrite_options.remapping == 2  # OFF
        tf.config.optimizer.set_experimental_options({"remapping": True, "min_graph_nodes": 3})
        tf.config.optimizer.set_jit(False)
        rewrite = call_config().graph_options.rewrite_options
        assert (rewrite.remapping, rewrite.min_graph_nodes) == (1, 3)
        assert len(entries(call_config())) == 1
    finally:
        tf.config.optimizer.set_experimental_options({"remapping": None, "min_graph_nodes": None})


def test_call_options_of_the_users_own_are_kept():
    before = context.context().function_call_options
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.custom_optimizers.add().name = "TheirOptimizer"
    lms.enable("min")
    try:
        context.context().function_call_options = context.FunctionCallOptions(config_proto=config)
        optimizers = call_config().graph_options.rewrite_options.custom_optimizers
        assert [entry.name for entry in optimizers] == ["TheirOptimizer", "LmsOptimizer"]
        # Theirs with an entry of ours, by hand: it wins.
        config = lms.configure(config, "3GiB")
        context.context().function_call_options = context.FunctionCallOptions(config_proto=config)
        assert [e.parameter_map["memory_budget"].s for e in entries(call_config())] == [b"3GiB"]
    finally:
        context.context().function_call_options = before


def test_calls_inside_a_graph_do_not_carry_the_entry():
    inner = tf.function(lambda x: x + 1)
    outer = tf.function(lambda x: inner(x) * 2)
    lms.enable("min")
    graph = outer.get_concrete_function(tf.constant(1.0)).graph
    calls = [op for op in graph.get_operations() if "PartitionedCall" in op.type]
    assert len(calls) == 1
    config = tf.compat.v1.ConfigProto.FromString(calls[0].get_attr("config_proto"))
    assert entries(config) == []


def test_enabling_twice_the_later_wins_and_the_log_says_so(caplog):
    lms.enable("60%")
    with caplog.at_level(logging.INFO, logger="lms"):
        lms.enable("60%")
        assert "replaces" not in caplog.text
        lms.enable("50%", unknown_dim=4)
    assert "memory_budget='50%', unknown_dim=4 replaces memory_budget='60%'" in caplog.text
    (entry,) = entries(call_config())
    assert entry.parameter_map["memory_budget"].s == b"50%"
    step, _ = make_step()
    step()
    assert reports_on(step)[0].budget == "50%"


def test_disable_without_enable_only_says_so(caplog):
    lms.disable()
    assert "not enabled" in caplog.text


def test_enabled_restores_what_was_before():
    lms.enable("60%")
    with lms.enabled("50%"):
        with lms.enabled("40%"):
            assert entries(call_config())[0].parameter_map["memory_budget"].s == b"40%"
        assert entries(call_config())[0].parameter_map["memory_budget"].s == b"50%"
    assert entries(call_config())[0].parameter_map["memory_budget"].s == b"60%"
    lms.disable()
    with pytest.raises(ZeroDivisionError), lms.enabled("50%"):
        raise ZeroDivisionError
    assert entries(call_config()) == []


def test_a_disabled_meta_optimizer_is_said():
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        lms.enable("min")
        step, _ = make_step(layers=1)
        with pytest.warns(UserWarning, match="disable_meta_optimizer is set"):
            step()
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


def test_functions_that_run_eagerly_are_said(caplog):
    tf.config.run_functions_eagerly(True)
    lms.enable("min")
    assert "run_functions_eagerly" in caplog.text


def test_enabling_before_the_context_is_initialised():
    code = """
import lms, tensorflow as tf
from tensorflow.python.eager import context
lms.enable("min")
assert not context.context()._initialized
tf.config.threading.set_intra_op_parallelism_threads(1)  # an error once it is initialised
function = tf.function(lambda x: tf.tanh(x) * 2 + x)
print(function(tf.zeros([2])).numpy(), [report.budget for report in lms.reports()])
"""
    status, output = run_forked(code)
    assert status == 0, output
    assert "[0. 0.] ['min'" in output


@pytest.mark.parametrize(("size", "status"), [(256, "fits"), (1 << 18, "rewritten")])
def test_the_least_is_left_alone_where_next_to_nothing_is_gained(size, status):
    """One operation needs 24 MiB. What is held beside it, and could be computed again, is 6 KiB or
    6 MiB."""
    weight = tf.Variable(tf.ones([size]))

    def step(x):
        with tf.GradientTape() as tape:
            y = weight
            for _ in range(6):
                y = tf.tanh(y)
            large = tf.reduce_sum(tf.sort(tf.stop_gradient(x + y[0])))
            loss = tf.reduce_sum(y) * large
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    function = tf.function(step)
    with lms.enabled("min"):
        function(tf.ones([2 << 20]))
    report = lms.report()
    assert report.status == status, report.reason
