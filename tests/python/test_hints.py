"""Hints: each form changes the plan as it says, and no bit of what is computed."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import lms
import pytest
import tensorflow as tf
from helpers import reports_on, run_python
from lms._base import failure as _failure
from lms._tf import hints as _tf_hints
from steps import BATCH, TILE, WIDTH, descend, inputs, named, weights

AMPLE = 1 << 30  # a budget that any of these steps fits
_names = itertools.count()


def tf_context():
    from tensorflow.python.eager import context

    return context.context()


def blocks(count: int = 6) -> Callable:
    """A layer of a chain; `hint` sees each activation and its number."""
    layers, x = weights(count), inputs()

    def run(hint: Callable = lambda i, y: y):
        with tf.GradientTape() as tape:
            y = x
            for i, layer in enumerate(layers):
                y = hint(i, tf.tanh(tf.matmul(y, layer)))
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    return run


def verified(step: Callable, memory_budget: object = AMPLE, **options: object) -> lms.Report:
    """The report of a step, which computes the same with lms."""
    function = step if hasattr(step, "python_function") else named(step)
    result = lms.verify(function, memory_budget=memory_budget, **options)
    assert result.ok and result.repeatable, str(result)
    assert result.report is not None
    return result.report


def recomputed(report: lms.Report) -> list[str]:
    return [d["op"] for d in report.decisions if d["kind"] == "recompute"]


def peak_of(step: Callable, memory_budget: object) -> int:
    """The allocator's peak of a second call, over what was in use before."""
    function = named(step)
    if memory_budget is not None:
        lms.enable(memory_budget, replan=False)
    function()
    before = lms.memory.bytes_in_use()
    lms.memory.reset_peak()
    function()
    peak = lms.memory.peak_bytes() - before
    if memory_budget is not None:
        lms.disable()
    return peak


# ---- Tensors ----


def test_a_tensor_is_recomputed_though_the_step_fits():
    run = blocks()
    report = verified(lambda: run(lambda i, y: lms.recompute(y) if i == 2 else y))
    assert report.status == "rewritten"
    assert "hints are carried out" in report.reason and "lms.recompute" in report.reason
    assert recomputed(report) == ["MatMul_2", "Tanh_2"]  # its input is gone, and made again
    (hint,) = report.hints
    assert (hint["kind"], hint["tensors"], hint["bytes"]) == ("recompute", 1, TILE)
    assert hint["where"].startswith("test_hints.py:")
    assert hint["cost_us"] > 0 and hint["not_followed"] == 0
    assert hint["peak_bytes"] <= hint["peak_without_bytes"]


def test_recomputing_by_hint_lowers_what_the_allocator_sees():
    run = blocks(8)

    def hint(i, y):
        return y if i in (3, 7) else lms.recompute(y)

    stock = peak_of(lambda: run(hint), None)
    hinted = peak_of(lambda: run(hint), AMPLE)
    # Of eight activations two and, of each half, those of one half at a time are held.
    assert hinted <= stock - 2 * TILE


def test_kept_tensors_stay_where_others_are_recomputed():
    run = blocks()
    report = verified(lambda: run(lambda i, y: lms.keep(y) if i in (1, 3) else y), "70%")
    assert report.status == "rewritten"
    assert recomputed(report)
    assert not {"Tanh_1", "Tanh_3"} & set(recomputed(report))
    assert any(entry["reason"] == "hint: keep" for entry in report.kept)
    free = verified(lambda: run(), "70%")
    assert {"Tanh_1", "Tanh_3"} & set(recomputed(free))


def test_kept_tensors_win_over_the_budget_and_the_report_says_which_to_lift():
    run = blocks()
    report = verified(lambda: run(lambda i, y: lms.keep(y)), "55%")
    assert report.status == "infeasible"
    assert "without hints it could be met: lift lms.keep (test_hints.py:" in report.reason
    assert report.hints[0]["tensors"] == 6


def test_a_budget_that_no_hint_is_to_blame_for():
    run = blocks()
    report = verified(lambda: run(lambda i, y: lms.keep(y)), "5%")
    assert report.status == "infeasible"
    assert "without hints the least budget would be" in report.reason


def test_a_nest_of_tensors_comes_back_as_it_was():
    x = tf.ones([4])
    nest = {"a": [x, 3], "b": (x, None)}
    for hint in (lms.keep, lms.recompute, lms.swap, lms.checkpoints):
        assert hint(nest) is nest

    @tf.function
    def function(a):
        made = {"a": tf.exp(a), "b": [tf.sin(a), None, 2.0]}
        assert lms.keep(made) is made
        return made["a"] + made["b"][0]

    graph = function.get_concrete_function(x).graph
    marked = {op.name for op in graph.get_operations() if "_lms_hint" in op.node_def.attr}
    assert marked == {"Exp", "Sin"}


def test_what_is_no_nest_comes_back_as_it_was():
    mixed = {1: tf.constant(1.0), "b": object()}  # which has no order
    assert lms.keep(mixed) is mixed
    assert lms.recompute("x") == "x" and lms.swap(3) == 3 and lms.keep(None) is None


def test_what_cannot_be_followed_is_a_warning_with_the_reason():
    layers, x = weights(), inputs()

    def step():
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                mask = lms.recompute(tf.random.uniform([BATCH, WIDTH]))
                y = tf.tanh(tf.matmul(y, layer)) * mask
            y = lms.recompute(tf.exp(y))  # used again at once
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    function = named(step)
    lms.enable(AMPLE)
    function()
    report = reports_on(function)[-1]
    assert report.status in ("fits", "rewritten")
    said = "\n".join(report.warnings)
    assert "random_uniform" in said and "stays as it is" in said
    assert "test_hints.py:" in said
    assert sum(hint["not_followed"] for hint in report.hints) >= 5


def test_recompute_false_forbids_what_hints_ask_for():
    run = blocks()
    report = verified(lambda: run(lambda i, y: lms.recompute(y)), recompute=False)
    assert report.status == "fits"
    assert any("recompute=False" in warning for warning in report.warnings)


# ---- Regions ----


def test_a_region_is_recomputed_but_for_its_results():
    layers, x = weights(9), inputs()

    def step():
        with tf.GradientTape() as tape:
            y = x
            for i in range(3):
                with lms.recompute():
                    for layer in layers[3 * i : 3 * i + 3]:
                        y = tf.tanh(tf.matmul(y, layer))
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    report = verified(step)
    again = set(recomputed(report))
    # The results are Tanh_2, _5 and _8; the last region's are read again at once.
    assert {"Tanh", "Tanh_1", "Tanh_3", "Tanh_4"} <= again
    assert not {"Tanh_2", "Tanh_5"} & again
    assert report.peak_after_bytes <= report.peak_before_bytes - 3 * TILE
    (hint,) = report.hints  # one line of the program
    assert hint["tensors"] >= 4
    assert "recompute test_hints.py:" in report.table()


def test_the_innermost_region_counts():
    run_layers, x = weights(6), inputs()

    def step():
        with tf.GradientTape() as tape:
            y = x
            with lms.recompute():
                for i, layer in enumerate(run_layers):
                    if i == 2:
                        with lms.keep():
                            y = tf.tanh(tf.matmul(y, layer))
                    else:
                        y = tf.tanh(tf.matmul(y, layer))
            y = tf.sin(y)
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, run_layers)
        return loss

    report = verified(step)
    again = set(recomputed(report))
    assert {"Tanh_1", "Tanh_3"} <= again and "Tanh_2" not in again
    assert sorted(hint["kind"] for hint in report.hints) == ["keep", "recompute"]


def test_a_region_as_a_decorator_and_the_tape_within():
    layers, x = weights(4), inputs()

    @lms.recompute()
    def step():
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                y = tf.tanh(tf.matmul(y, layer))
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    function = named(lambda: step())
    graph = function.get_concrete_function().graph
    marked = [op.name for op in graph.get_operations() if "_lms_hint" in op.node_def.attr]
    assert "Tanh" in marked
    assert not [name for name in marked if "gradient_tape" in name]
    assert set(recomputed(verified(function))) >= {"Tanh", "Tanh_1"}


def test_types_of_operations_are_kept_in_a_region():
    layers, x = weights(5), inputs()

    def step():
        with tf.GradientTape() as tape:
            y = x
            with lms.recompute(keep_ops=["MatMul"]):
                for layer in layers:
                    y = tf.exp(tf.sin(tf.matmul(y, layer)))
            loss = tf.reduce_mean(y * tf.cos(y))
        descend(tape, loss, layers)
        return loss

    report = verified(step)
    assert recomputed(report)
    assert not [name for name in recomputed(report) if "MatMul" in name]
    assert {hint["kind"] for hint in report.hints} == {"keep", "recompute"}
    with pytest.raises(TypeError, match="types of operations"):
        lms.recompute(keep_ops=[3])
    with pytest.raises(TypeError, match="not with tensors"):
        lms.recompute(x, keep_ops=["MatMul"])


def test_fused_operations_keep_their_hints():
    """Conv2D, BiasAdd and Relu become one node that has no attribute of theirs."""
    random = tf.random.Generator.from_seed(1)
    filters = [tf.Variable(random.normal([3, 3, 8, 8]) / 9) for _ in range(3)]
    biases = [tf.Variable(tf.zeros([8]) + 0.1) for _ in filters]
    images = tf.random.Generator.from_seed(5).normal([4, 24, 24, 8])

    def step():
        with tf.GradientTape() as tape:
            y = images
            for i, (kernel, bias) in enumerate(zip(filters, biases)):
                y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(y, kernel, 1, "SAME"), bias))
                y = lms.recompute(y) if i < 2 else y
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, [*filters, *biases])
        return loss

    report = verified(step)
    assert recomputed(report) == ["Relu", "Relu_1"]
    types = {d["op_type"] for d in report.decisions if d["kind"] == "recompute"}
    assert types == {"_FusedConv2D"}


# ---- Checkpoints ----


def test_all_but_the_checkpoints_is_recomputed():
    run = blocks(8)
    report = verified(lambda: run(lambda i, y: lms.checkpoints(y) if i in (2, 5) else y))
    again = set(recomputed(report))
    assert {"Tanh", "Tanh_1", "Tanh_3", "Tanh_4"} <= again
    assert not {"Tanh_2", "Tanh_5"} & again
    assert {
        (hint["kind"], hint["where"] == "all but the checkpoints") for hint in report.hints
    } == {
        ("keep", False),
        ("recompute", True),
    }
    assert report.peak_after_bytes < report.peak_before_bytes


# ---- Functions in functions, loops and branches ----


def test_hints_in_functions_that_are_called():
    layers, x = weights(6), inputs()

    @tf.function
    def block(y, layer):
        return lms.recompute(tf.tanh(tf.matmul(y, layer)))

    def step():
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                y = block(y, layer)
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    report = verified(step)
    assert report.status == "rewritten"
    assert len(recomputed(report)) >= 4


def test_hints_in_a_training_loop():
    layers, x = weights(6), inputs()

    def step():
        loss = tf.constant(0.0)
        for _ in tf.range(3):
            with tf.GradientTape() as tape:
                y = x
                for layer in layers:
                    y = lms.recompute(tf.tanh(tf.matmul(y, layer)))
                loss = tf.reduce_mean(y * y)
            descend(tape, loss, layers)
        return loss

    report = verified(step)
    assert report.status == "rewritten", report.reason
    assert len(recomputed(report)) >= 4


def test_hints_in_a_branch():
    layers, x = weights(6), inputs()

    def step(flag):
        loss = tf.constant(0.0)
        if flag > 0:
            with tf.GradientTape() as tape:
                y = x
                for layer in layers:
                    y = lms.recompute(tf.tanh(tf.matmul(y, layer)))
                loss = tf.reduce_mean(y * y)
            descend(tape, loss, layers)
        return loss

    function = named(step)
    result = lms.verify(function, tf.constant(1.0), memory_budget=AMPLE)
    assert result.ok and result.repeatable, str(result)
    assert result.report.status == "rewritten", result.report.reason
    assert len(recomputed(result.report)) >= 4


def test_custom_gradients_and_gradients_are_not_marked():
    @tf.custom_gradient
    def double(a):
        return 2.0 * a, lambda upstream: tf.sin(upstream) * 2.0

    @tf.function
    def function(a):
        with tf.GradientTape() as tape:
            tape.watch(a)
            with lms.recompute():
                b = double(tf.exp(a))
            c = tf.reduce_sum(b * b)
        return tape.gradient(c, a)

    graph = function.get_concrete_function(tf.ones([3])).graph
    marked = {op.type for op in graph.get_operations() if "_lms_hint" in op.node_def.attr}
    assert "Exp" in marked and "Sin" not in marked


def test_gradients_of_a_graph_are_not_the_regions():
    @tf.function
    def function(a):
        with lms.recompute():
            b = tf.reduce_sum(tf.exp(tf.sin(a)))
            return tf.gradients(b, a)[0]

    graph = function.get_concrete_function(tf.ones([3])).graph
    marked = {op.type for op in graph.get_operations() if "_lms_hint" in op.node_def.attr}
    assert "Exp" in marked and "Cos" not in marked


def test_a_region_of_which_nothing_can_be_recomputed_changes_nothing():
    (layer,), x = weights(1), inputs()

    def step():
        with tf.GradientTape() as tape:
            tape.watch(x)
            made = [tf.sin(x), tf.cos(x)]
            with lms.recompute():
                for _ in range(30):  # AddN may add into a term that nobody else holds
                    made.append(tf.tanh(tf.add_n(made[-20:]) * 0.05))
            loss = tf.reduce_mean(tf.matmul(made[-1], layer))
        return tape.gradient(loss, x)

    report = verified(step)
    assert report.status == "fits", report.reason
    (hint,) = report.hints
    assert hint["tensors"] == 0 and hint["not_followed"] > 0
    assert any("none of its" in warning for warning in report.warnings), report.warnings


def test_functions_that_call_twice_are_read_once(monkeypatch):
    def leaf(a):
        return lms.keep(tf.tanh(a))

    called = tf.function(leaf)
    for _ in range(10):
        called = tf.function(lambda a, inner=called: inner(a) + inner(a * 2.0))
    plain = tf.function(tf.sin)
    for _ in range(10):
        plain = tf.function(lambda a, inner=plain: inner(a) + inner(a * 2.0))
    function = tf.function(lambda a: called(a) + plain(a))
    read = []

    class Context:
        has_function = tf_context().has_function

        @staticmethod
        def get_function_def(name):
            read.append(name)
            return tf_context().get_function_def(name)

    name = function.get_concrete_function(tf.ones([3])).name
    lines = _tf_hints.hints_text(Context, name).splitlines()
    assert len(lines) == 1024 and all(line.startswith("node\t") for line in lines)
    assert len(read) == len(set(read)) == 23


# ---- Swapping ----


def test_a_tensor_is_swapped_to_disk(tmp_path):
    run = blocks()
    report = verified(
        lambda: run(lambda i, y: lms.swap(y) if i == 1 else y),
        swap_to=f"{tmp_path}/",
        swap=lms.SwapOptions(out_bandwidth="1GB", in_bandwidth="1GB"),
    )
    assert report.status == "rewritten"
    assert [d["op"] for d in report.decisions if d["kind"] == "swap_out"] == ["Tanh_1"]
    assert not recomputed(report)
    assert report.hints[0]["kind"] == "swap" and report.hints[0]["tensors"] == 1


def test_swapping_to_nowhere_is_a_warning_with_what_to_do():
    run = blocks()
    report = verified(lambda: run(lambda i, y: lms.swap(y) if i == 1 else y))
    assert report.status == "fits"
    assert any("lms.swap" in text and "swap_to" in text for text in report.warnings)


# ---- Keras ----


def model_and_step(depth: int = 4):
    keras = tf.keras
    keras.utils.set_random_seed(3)
    x = y = keras.Input((WIDTH,))
    for i in range(depth):
        block = keras.Sequential(
            [
                keras.layers.Dense(WIDTH, "tanh", name="in"),
                keras.layers.Dense(WIDTH, "tanh", name="out"),
            ],
            name=f"block_{i}",
        )
        y = block(y)
    model = keras.Model(x, keras.layers.Dense(1, name="head")(y), name=f"hinted{next(_names)}")
    data = inputs()

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(data, training=True) ** 2)
        descend(tape, loss, model.trainable_variables)
        return loss

    return model, step


def test_layers_by_name():
    model, step = model_and_step()
    function = named(step)
    lms.hint_layers(model, recompute=["re:block_[0-2]"])
    report = verified(function)
    assert report.status == "rewritten"
    again = recomputed(report)
    # The inner activation of each block; its result stays.
    assert len([name for name in again if "/in_" in name or "/in/" in name]) >= 3
    assert not [name for name in again if "/out_" in name or "/out/" in name]
    assert report.hints[0]["where"] == "recompute=re:block_[0-2]"
    lms.hint_layers(model)
    assert verified(function).status == "fits"


def test_layers_that_are_kept_and_plain_ones_that_are_recomputed():
    model, step = model_and_step()
    lms.hint_layers(model, recompute=["block_1/out"], keep=["re:block_[023]"])
    report = verified(step)
    again = recomputed(report)
    assert again and all("block_1" in name and "/out" in name for name in again)


def test_layers_as_checkpoints():
    model, step = model_and_step()
    lms.hint_layers(model, checkpoints=["block_1"])
    report = verified(step)
    again = recomputed(report)
    assert [name for name in again if "block_0" in name]
    assert not [name for name in again if "block_1" in name and "/out" in name]


def test_hints_of_one_model_are_not_the_others():
    model, _ = model_and_step()
    _, other_step = model_and_step()
    lms.hint_layers(model, recompute=["re:.*"])
    assert verified(other_step).status == "fits"


def twins():
    """Two models, the scopes of which look like each other's: Keras gives them numbers."""
    made = []
    for name, layers in (("twin", ("dense", "dense_1")), ("twin_1", ("dense_1", "dense_3"))):
        hidden = [tf.keras.layers.Dense(WIDTH, "tanh", name=layer) for layer in layers]
        head = tf.keras.layers.Dense(1, name="head")
        made.append(tf.keras.Sequential([tf.keras.Input((WIDTH,)), *hidden, head], name=name))
    return made


def step_of(model: tf.keras.Model) -> Callable:
    data = inputs()

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(data, training=True) ** 2)
        descend(tape, loss, model.trainable_variables)
        return loss

    return named(step)


@pytest.mark.parametrize("hinted", [0, 1])
def test_scopes_that_look_alike_are_told_apart(hinted):
    models = twins()
    steps = [step_of(model) for model in models]
    lms.hint_layers(models[hinted], recompute=["re:dense.*"])
    found = [verified(step) for step in steps]
    assert found[hinted].status == "rewritten" and found[hinted].hints
    assert found[1 - hinted].status == "fits" and found[1 - hinted].hints == ()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_scopes_that_look_alike_in_one_function_are_told_apart_by_what_they_read(order):
    models, data = twins(), inputs()
    variables = [v for model in models for v in model.trainable_variables]

    def step():
        with tf.GradientTape() as tape:
            # Called twice, the one's scopes have the numbers that are in the other's name.
            outputs = [models[i](data, training=True) for i in (*order, *order)]
            loss = tf.add_n([tf.reduce_mean(y**2) for y in outputs])
        descend(tape, loss, variables)
        return loss

    found = []
    for hinted in models:
        lms.hint_layers(hinted, recompute=["re:dense.*"])
        report = verified(named(step))
        assert not [text for text in report.warnings if "may be" in text]
        found.append(set(recomputed(report)))
        lms.hint_layers(hinted)
    assert [len([op for op in ops if op.endswith("Tanh")]) for ops in found] == [4, 4], found
    assert not found[0] & found[1], found


def test_hints_have_no_function_of_another_model_planned_anew():
    models = twins()
    steps = [step_of(model) for model in models]
    data = inputs()
    doubled = named(lambda: tf.reduce_sum(tf.tanh(data * 2.0)))
    lms.enable(AMPLE)
    for _ in range(2):
        for step in (*steps, doubled):
            step()
        lms.hint_layers(models[1], recompute=["dense_3"])
    assert [len(reports_on(step)) for step in (*steps, doubled)] == [1, 2, 1]
    lms.hint_layers(models[1])
    steps[1]()
    assert len(reports_on(steps[1])) == 2  # TensorFlow has the first plan still


def test_a_model_without_weights_is_known_by_its_scope():
    middle = [tf.keras.layers.Activation("tanh", name=f"middle_{i}") for i in range(3)]
    model = tf.keras.Sequential([tf.keras.Input((WIDTH,)), *middle], name="weightless")
    lms.hint_layers(model, recompute=["middle_1"])
    layers, data = weights(2), inputs()

    @tf.function
    def called(y):
        return model(y)

    def step():
        with tf.GradientTape() as tape:
            y = called(tf.matmul(data, layers[0]))
            loss = tf.reduce_mean(tf.matmul(y, layers[1]) ** 2)
        descend(tape, loss, layers)
        return loss

    assert verified(step).hints
    plain = blocks()
    assert verified(lambda: plain()).hints == ()


def test_fit_with_hinted_layers():
    model, _ = model_and_step()
    lms.hint_layers(model, recompute=["re:block_.*"])
    model.compile("sgd", "mse", jit_compile=False)
    lms.enable(AMPLE)
    model.fit(inputs(), tf.zeros([BATCH, 1]), batch_size=BATCH, epochs=1, verbose=0)
    report = lms.report()
    assert report.status == "rewritten"
    assert report.hints[0]["tensors"] >= 3


def test_names_that_fit_no_layer():
    model, _ = model_and_step()
    with pytest.raises(ValueError, match="no layer of the model is 'blok_1'; near: block_1"):
        lms.hint_layers(model, keep=["blok_1"])
    with pytest.raises(ValueError, match="no regular expression"):
        lms.hint_layers(model, keep="re:(")
    with pytest.raises(TypeError, match="needs a Keras model"):
        lms.hint_layers(lambda x: x, keep="a")
    with pytest.raises(TypeError, match="must be names of layers"):
        lms.hint_layers(model, keep=[3])
    assert _tf_hints.layers_text() == "" or model.name not in _tf_hints.layers_text()


def test_a_symbolic_tensor_is_an_error_that_says_what_to_do():
    x = tf.keras.Input((4,))
    with pytest.raises(TypeError, match="hint_layers"):
        lms.keep(x)


# ---- Off, saved, failing ----


def test_without_lms_hints_do_nothing():
    run = blocks()
    hinted = named(lambda: run(lambda i, y: lms.recompute(y)))
    hinted()
    assert lms.reports() == []
    with lms.recompute():  # outside of a graph
        assert float(lms.keep(tf.constant(2.0)) * 2) == 4


def test_a_function_traced_while_lms_was_off_has_its_hints():
    run = blocks()
    hinted = named(lambda: run(lambda i, y: lms.recompute(y) if i == 2 else y))
    hinted()
    lms.enable(AMPLE)
    hinted()
    assert "Tanh_2" in recomputed(reports_on(hinted)[-1])


@pytest.mark.slow
def test_a_saved_model_loads_without_lms(tmp_path):
    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([4])])
        def run(self, a):
            with lms.recompute():
                b = tf.exp(a)
            return lms.keep(tf.sin(b))

    module = Module()
    expected = module.run(tf.ones([4])).numpy().tolist()
    tf.saved_model.save(module, str(tmp_path))
    status, output = run_python(
        "import tensorflow as tf, sys\n"
        f"loaded = tf.saved_model.load({str(tmp_path)!r})\n"
        "print('lms' in sys.modules, loaded.run(tf.ones([4])).numpy().tolist())\n"
    )
    assert status == 0, output
    assert output.splitlines()[-1] == f"False {expected}"


def test_a_failure_in_hints_leaves_the_program_as_it_is():
    run = blocks()
    _failure.inject("hints")
    function = named(lambda: run(lambda i, y: lms.recompute(y)))
    lms.enable(AMPLE)
    function()
    assert reports_on(function)[-1].status == "fits"


def test_plans_with_hints_are_the_same_each_time():
    run = blocks()
    plans = []
    for _ in range(2):
        report = verified(lambda: run(lambda i, y: lms.recompute(y) if i % 2 else y), "70%")
        plans.append([(d["kind"], d["op"], d["before"], d["position"]) for d in report.decisions])
    assert plans[0] == plans[1] and plans[0]
