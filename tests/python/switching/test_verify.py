"""lms.verify."""

import lms
import numpy as np
import pytest
import tensorflow as tf
from helpers import make_step
from lms import _native
from lms._control import verify as _verify
from lms._tf import context as _tf_context


def test_a_training_step_is_equal_and_its_variables_are_put_back():
    step, weights = make_step()
    step()
    before = [weight.numpy() for weight in weights]
    result = lms.verify(step)
    assert result and result.ok and result.repeatable, str(result)
    assert result.differences == ()
    assert result.compared == 1 + len(weights)
    assert result.report.status == "rewritten"
    for weight, value in zip(weights, before):
        assert weight.numpy().tobytes() == value.tobytes()
    assert "equal: 9 outputs and variables" in str(result)
    assert "(lms: rewritten)" in result.table()


def test_a_second_time_is_planned_anew():
    step, _ = make_step()
    assert lms.verify(step).report.sequence < lms.verify(step).report.sequence


def test_lms_is_left_as_it_was():
    step, _ = make_step()
    lms.verify(step)
    lms.clear_reports()
    step()
    assert lms.reports() == []


def test_the_options_in_force_are_used_unless_others_are_given():
    step, _ = make_step()
    assert lms.verify(step).report.budget == "min"
    assert lms.verify(step, memory_budget="80%").report.budget == "80%"
    lms.enable("70%")
    assert lms.verify(step).report.budget == "70%"
    with pytest.raises(lms.OptionError, match="unknown option 'rtoll'"):
        lms.verify(step, rtoll=1)


def test_a_wrong_rewrite_is_found(monkeypatch):
    """Without a wrong optimizer at hand: the function itself behaves otherwise under lms."""
    weight = tf.Variable([1.0, 2.0, 3.0, 4.0], name="weight")
    error = tf.Variable(0.0, name="error")

    @tf.function
    def step(x):
        weight.assign_add(x + error)
        return {"sum": tf.reduce_sum(weight), "count": tf.constant(4)}

    override = _tf_context.override

    def wrong(entry):
        if entry is not None:
            error.assign(0.5)
        return override(entry)

    monkeypatch.setattr(_tf_context, "override", wrong)
    result = lms.verify(step, tf.constant([1.0, 1.0, 1.0, 1.0]))
    assert not result and result.repeatable
    found = {difference.name: difference for difference in result.differences}
    assert set(found) == {"output['sum']", "variable weight:0", "variable error:0"}
    assert found["variable weight:0"].elements == found["variable weight:0"].total == 4
    assert found["variable weight:0"].max_abs == 0.5
    assert found["variable weight:0"].max_rel == 0.5 / 2.5  # 2 against 2.5
    assert found["output['sum']"].max_abs == 2
    assert found["output['sum']"].stock_repeats
    assert error.numpy() == 0 and weight.numpy().tolist() == [1, 2, 3, 4]
    assert "DIFFERENT: 3 of 4" in str(result) and "output['sum']" in result.table()
    assert lms.verify(step, tf.constant([1.0] * 4), atol=3)


def test_what_does_not_repeat_by_itself_is_named():
    scale = tf.Variable(1.0, name="scale")

    @tf.function
    def step(x):
        noise = tf.raw_ops.RandomUniform(shape=[4], dtype=tf.float32)  # no seed
        scale.assign_add(tf.reduce_sum(x))
        return {"noisy": x + noise, "exact": x * 2}

    result = lms.verify(step, tf.ones([4]))
    assert not result.repeatable and not result.ok
    assert result.unrepeatable == ("output['noisy']",)
    assert [d.name for d in result.differences] == ["output['noisy']"]
    assert not result.differences[0].stock_repeats
    assert "not repeatable by itself" in str(result) and "set seeds" in result.table()


def test_seeded_random_operations_repeat():
    generator = tf.random.Generator.from_seed(5)
    state = generator.state.numpy()

    @tf.function
    def step(x):
        stateful = tf.random.uniform([4], seed=3)
        return x + stateful + generator.normal([4]) + tf.random.stateless_normal([4], [1, 2])

    tf.random.set_seed(1)
    result = lms.verify(step, tf.ones([4]))
    assert result, str(result)
    assert generator.state.numpy().tolist() == state.tolist()


def test_a_plain_callable_and_a_concrete_function():
    weight = tf.Variable(2.0)

    def step(x):
        weight.assign_add(tf.reduce_sum(x))
        return [x * weight, (x,)]

    assert lms.verify(step, tf.ones([3])).compared == 3
    concrete = tf.function(step).get_concrete_function(tf.ones([3]))
    assert lms.verify(concrete, tf.ones([3])).compared == 3
    assert weight.numpy() == 2


def test_variables_that_the_first_call_creates():
    class Model(tf.Module):
        weight = None

        @tf.function
        def __call__(self, x):
            if self.weight is None:
                self.weight = tf.Variable(3.0)
            self.weight.assign_add(1.0)
            return x * self.weight

    model = Model()
    assert lms.verify(model.__call__, tf.ones([2])).compared == 2
    assert model.weight.numpy() == 3


def test_ragged_and_sparse_outputs():
    @tf.function
    def function(x):
        return tf.RaggedTensor.from_row_lengths(x, [1, 3]), tf.sparse.from_dense(x), None, 3

    result = lms.verify(function, tf.constant([1.0, 0.0, 2.0, 3.0]))
    assert result
    assert result.compared == 6  # values and splits; indices, values and shape; the number


def test_an_iterator_is_refused():
    iterator = iter(tf.data.Dataset.range(3))
    with pytest.raises(TypeError, match="cannot rewind an iterator"):
        lms.verify(lambda it: next(it), iterator)


def test_resources_that_cannot_be_put_back_are_named():
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a"], [1]), default_value=0
    )
    result = lms.verify(tf.function(lambda x: table.lookup(x)), tf.constant(["a", "b"]))
    assert result
    assert any("cannot be put back" in note for note in result.notes)


def test_inside_a_graph_is_refused():
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="v1 session, make two"):
        lms.verify(lambda: 1)

    @tf.function
    def step(x):
        with pytest.raises(RuntimeError, match="call it outside"):
            lms.verify(lambda: 1)
        return x

    step(tf.constant(1.0))


def test_where_stock_runs_out_of_memory_it_says_so_and_puts_variables_back():
    weight = tf.Variable(1.0)

    def run_out():
        raise MemoryError  # as TensorFlow's allocators do, which wait for ten seconds before

    @tf.function
    def step():
        weight.assign_add(1.0)
        with tf.control_dependencies([weight.read_value()]):
            return tf.numpy_function(run_out, [], tf.float32)

    with pytest.raises(RuntimeError, match="without lms, too, and that ran out of memory"):
        lms.verify(step)
    assert weight.numpy() == 1


def test_a_function_that_lms_never_saw_is_not_passed_off_as_verified(monkeypatch):
    monkeypatch.setattr(_native, "report_count", lambda: 0)
    result = lms.verify(make_step(layers=1)[0])
    assert result.report is None
    assert "lms has not seen the function" in str(result) and any(
        "XLA" in note for note in result.notes
    )


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], None),
        ([1.0, np.nan], [1.0, np.nan], None),
        ([0.0], [-0.0], (1, 1, 0.0, 0.0)),
        ([1.0, 2.0, 4.0], [1.0, 2.5, 2.0], (2, 3, 2.0, 0.5)),
        ([1.0, np.nan], [1.0, 2.0], (1, 2, np.inf, np.inf)),
        ([1.0], [1.0, 2.0], (2, 2, np.inf, np.inf)),
    ],
)
def test_comparing_bit_for_bit(a, b, expected):
    found = _verify._difference("x", np.array(a), np.array(b), True, rtol=0, atol=0)
    if expected is None:
        assert found is None
    else:
        assert (found.elements, found.total, found.max_abs, found.max_rel) == expected


def test_comparing_with_tolerance():
    a, b = np.float32([1, 2, 3]), np.float32([1.001, 2, 3.3])
    assert _verify._difference("x", a, b, True, rtol=0.01, atol=0).elements == 1
    assert _verify._difference("x", a, b, True, rtol=0.2, atol=0) is None
    assert _verify._difference("x", np.array(["a"]), np.array(["b"]), True, 1, 1).elements == 1
    half = tf.constant([1.0, 2.0], tf.bfloat16).numpy()
    assert _verify._difference("x", half, half + half, True, 0, 0).max_abs == 2
