"""Sums of three terms and more in bodies of loops: their last bits depend on who else holds a term.

TensorFlow puts that term in front whose storage the sum may take over, which it may not while a
list holds it. So lists that hold terms stay, and the others go.
"""

from __future__ import annotations

import re

import pytest
import tensorflow as tf
from forms import compare
from steps import descend
from test_loop_segments import STEPS, WIDTH, small, start


def term(y, layer):
    """The gradient of the tanh reads what it makes: a list holds it."""
    return tf.tanh(tf.matmul(y, layer))


def flat(y, layer):
    """Nobody reads what it makes but who adds it up."""
    return tf.matmul(tf.tanh(tf.matmul(y, layer)), layer) * 0.9


def of_terms_that_lists_hold(y, i, layers):
    return 0.5 * tf.add_n([term(y, layer) for layer in layers])


def of_terms_that_nobody_holds(y, i, layers):
    return 0.5 * tf.add_n([flat(y, layer) for layer in layers])


def of_both(y, i, layers):
    return 0.5 * tf.add_n([flat(y, layers[0]), term(y, layers[1]), flat(y, layers[2])])


def with_the_state(y, i, layers):
    return 0.4 * tf.add_n([y, flat(y, layers[0]), flat(y, layers[1]), term(y, layers[2])])


def with_the_state_last(y, i, layers):
    return 0.4 * tf.add_n([flat(y, layers[0]), flat(y, layers[1]), y])


def as_the_state(y, i, layers):
    return tf.add_n([0.3 * flat(y, layer) for layer in layers])


def by_plus(y, i, layers):
    """TensorFlow makes one sum of these."""
    a = flat(y, layers[0])
    b = flat(y + 0.5 * a, layers[1])
    c = flat(y + 0.5 * b, layers[2])
    return y + (a + 2.0 * b + 2.0 * c + flat(y + c, layers[0])) / 6.0


def through_a_view(y, i, layers):
    parts = [tf.reshape(term(y, layer), [-1, 2, WIDTH // 2]) for layer in layers]
    return 0.5 * tf.reshape(tf.add_n(parts), tf.shape(y))


def of_rows(y, i, layers):
    halves = tf.split(term(y, layers[0]), 2)
    low = tf.add_n([halves[0], halves[1], flat(halves[0], layers[1])])
    return 0.3 * tf.concat([low, halves[1]], 0)


def of_what_is_the_same_in_all(y, i, layers):
    return 0.4 * tf.add_n([flat(y, layers[0]), tf.broadcast_to(layers[1][0], tf.shape(y)), y])


def twice(y, i, layers):
    once = tf.add_n([flat(y, layer) for layer in layers])
    return 0.3 * tf.add_n([once, term(once, layers[0]), flat(once, layers[1])])


def in_a_branch(y, i, layers):
    return tf.cond(
        i % 2 == 0,
        lambda: 0.4 * tf.add_n([flat(y, layer) for layer in layers]),
        lambda: term(y, layers[0]),
    )


def of_what_the_gradient_takes_off(y, i, layers):
    """The product's gradient adds up three terms that lists have brought."""
    a, b = term(y, layers[0]), term(y, layers[1])
    return 0.5 * tf.add_n([a * b, a * tf.tanh(b), b * tf.tanh(a)])


BODIES = [value for name, value in list(globals().items()) if getattr(value, "__code__", None)]
BODIES = [body for body in BODIES if body.__code__.co_varnames[:3] == ("y", "i", "layers")]


def training(body):
    layers = small()

    def step(y):
        with tf.GradientTape() as tape:
            _, last = tf.while_loop(
                lambda i, _: i < STEPS, lambda i, y: (i + 1, body(y, i, layers)), (0, y)
            )
            loss = tf.reduce_mean(last**2)
            loss += sum(tf.reduce_sum(layer**2) for layer in layers)  # not all bodies read all
        descend(tape, loss, layers)
        return loss, last

    return step


@pytest.mark.parametrize("budget", [pytest.param("min", marks=pytest.mark.slow), "45%"])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_the_same_bits(body, budget):
    _, _, report = compare(training(body), start(), budget=budget)
    assert report.status in ("rewritten", "infeasible")


@pytest.mark.parametrize("body", [of_terms_that_nobody_holds, by_plus])
def test_what_lists_hold_beside_the_terms_is_computed_again(body):
    stock, ours, report = compare(training(body), start())
    assert re.search(r"tensors of a loop's body are computed again in its gradient", report.reason)
    assert ours.peak <= 0.6 * stock.peak
    assert ours.peak <= 1.05 * (report.peak_after_bytes - report.resident_bytes)
