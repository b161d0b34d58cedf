"""Hints on layers of Keras models, and which model they are of."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import lms
import pytest
import tensorflow as tf
from helpers import reports_on
from hint_steps import AMPLE, blocks, recomputed, verified
from lms._tf import hints as _tf_hints
from steps import BATCH, WIDTH, descend, inputs, named, weights

_names = itertools.count()


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
    return model, step_of(model)


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
