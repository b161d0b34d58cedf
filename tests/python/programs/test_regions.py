"""Loops, branches and what is around them: each that is above the budget is planned."""

import forms
import numpy as np
import pytest
import tensorflow as tf

LAYERS, WIDTH, BATCH = 8, 64, 256


def weights(seed):
    random = np.random.default_rng(seed)
    return [
        tf.Variable(random.standard_normal((WIDTH, WIDTH)).astype("float32") * 0.1)
        for _ in range(LAYERS)
    ]


def chain(layers, x):
    for layer in layers:
        x = tf.tanh(tf.nn.gelu(x @ layer))
    return tf.reduce_mean(x**2)


def train(layers, x):
    with tf.GradientTape() as tape:
        loss = chain(layers, x)
    for layer, gradient in zip(layers, tape.gradient(loss, layers)):
        layer.assign_sub(0.01 * gradient)
    return loss


def slope(layers, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = chain(layers, x)
    return loss, tape.gradient(loss, x)


def a_step_before_its_loop():
    """As tfp.math.minimize does it."""
    layers = weights(0)

    def step(x):
        loss = train(layers, x)
        for _ in tf.range(3):
            loss = train(layers, x)
        return loss

    return step


def a_gradient_before_the_loop():
    """As Hamiltonian Monte Carlo takes it: no variable changes."""
    layers = weights(0)

    def step(x):
        loss, gradient = slope(layers, x)
        for _ in tf.range(4):
            x = x - 0.1 * gradient
            loss, gradient = slope(layers, x)
        return loss, x

    return step


def two_loops():
    first, second = weights(0), weights(1)

    def step(x):
        loss = other = tf.constant(0.0)
        for _ in tf.range(2):
            loss = train(first, x)
        for _ in tf.range(3):
            other = train(second, x + loss)
        return loss, other

    return step


def branches_in_a_loop():
    first, second = weights(0), weights(1)

    def step(x):
        loss = tf.constant(0.0)
        for i in tf.range(4):
            loss = tf.cond(i % 2 > 0, lambda: train(first, x), lambda: train(second, x))
        return loss

    return step


def four_branches():
    networks = [weights(seed) for seed in range(4)]
    chosen = tf.Variable(2)

    def step(x):
        branches = [lambda layers=layers: train(layers, x) for layers in networks]
        return tf.switch_case(chosen.read_value(), branches)

    return step


FORMS = {
    form.__name__: form
    for form in (
        a_step_before_its_loop,
        a_gradient_before_the_loop,
        two_loops,
        branches_in_a_loop,
        four_branches,
    )
}


def inputs():
    return tf.random.Generator.from_seed(8).normal([BATCH, WIDTH])


def activations(report):
    before = report.peak_before_bytes - report.resident_bytes
    return (report.peak_after_bytes - report.resident_bytes) / before


@pytest.mark.parametrize("name", FORMS)
def test_the_least_of_all_parts(name):
    report = forms.rewritten(FORMS[name](), inputs(), budget="min", replan=False)
    assert activations(report) < 0.6, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_a_budget_for_all_parts(name):
    report = forms.rewritten(FORMS[name](), inputs(), budget="70%", replan=False)
    assert report.peak_after_bytes <= report.budget_bytes


def test_of_branches_that_exclude_each_other_one_is_taken():
    """Predicted is what one branch takes, not four beside each other."""
    one = weights(0)
    alone = forms.rewritten(lambda x: train(one, x), inputs(), budget="60%", replan=False)
    report = forms.rewritten(four_branches(), inputs(), budget="60%", replan=False)
    before = [r.peak_before_bytes - r.resident_bytes for r in (alone, report)]
    assert before[1] <= 1.1 * before[0]
