"""Training steps with sums that TensorFlow adds up in the order of arrival, and what they compute.

Grappler makes such sums of AddN where its own estimate of the memory runs high, which takes
hundreds of megabytes. Here gradients add up in temporary variables in the same way, but are small.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import lms
import tensorflow as tf
from steps import descend, inputs, named, weights

_numbers = itertools.count()
raw = tf.raw_ops


def accumulate(terms: tuple, first: tf.Tensor) -> tf.Tensor:
    """The sum of the terms as Grappler's memory optimizer makes it, begun once `first` is there."""
    name = f"sum_{next(_numbers)}"
    with tf.control_dependencies([first]):
        variable = raw.TemporaryVariable(shape=first.shape, dtype=first.dtype, var_name=name)
    zero = raw.Assign(ref=variable, value=tf.zeros_like(first))
    added = [raw.AssignAdd(ref=zero, value=term, use_locking=True) for term in terms]
    with tf.control_dependencies(added):
        return raw.DestroyTemporaryVariable(ref=zero, var_name=name)


def fan(x: tf.Tensor, readers: int, first: int) -> tuple:
    """x, for several readers. Its gradient is the sum of theirs, begun with the `first`."""

    @tf.custom_gradient
    def split(y):
        return tuple(tf.identity(y) for _ in range(readers)), lambda *g: accumulate(g, g[first])

    return split(x)


def branches(functions: tuple[Callable, ...], first: int, layers: int, where: str = "") -> Callable:
    """Layers whose output is a product of functions of their matrix product."""
    kernels, x = weights(layers), inputs()

    def step():
        loss = 0.0
        if where == "loop":
            for i in tf.range(2):
                loss += train(x + tf.cast(i, tf.float32))
        elif where == "branch":
            if tf.reduce_sum(x) > -1e9:
                loss = train(x)
        else:
            loss = train(x)
        return loss

    def train(x):
        with tf.GradientTape() as tape:
            y = x
            for kernel in kernels:
                parts = fan(tf.matmul(y, kernel), len(functions), first)
                y = functions[0](parts[0])
                for function, part in zip(functions[1:], parts[1:]):
                    y = y * function(part)
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, kernels)
        return loss

    return named(step)


def bent(x: tf.Tensor) -> tf.Tensor:
    return tf.sin(tf.tanh(x))


def centred(x: tf.Tensor) -> tf.Tensor:
    return x - tf.reduce_mean(x, 0)


def same(x: tf.Tensor) -> tf.Tensor:
    return x


# In each of these the order of a sum changed with any rewrite, before it was held.
STEPS = {
    "three terms, begun with the first": lambda: branches((tf.tanh, same, bent), 0, 3),
    "three terms, begun with the last": lambda: branches((tf.sigmoid, same, same), 2, 3),
    "four terms": lambda: branches((same, same, bent, bent), 2, 3),
    "in a loop": lambda: branches((tf.sigmoid, same, same), 2, 3, "loop"),
    "in a branch": lambda: branches((tf.sigmoid, same, same), 2, 3, "branch"),
    "a norm's moments": lambda: branches((tf.sigmoid, centred, centred), 2, 5),
}
BUDGETS = ("min", "60%")


def report_on(step: Callable, budget: str) -> str:
    """One line: is the step the same with lms as without?"""
    result = lms.verify(step, memory_budget=budget)
    status = result.report.status if result.report else "unseen"
    return f"{budget} repeatable={result.repeatable} status={status} ok={result.ok}"


def main() -> None:
    """One thread of each kind: with more, stock TensorFlow itself may differ from run to run."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for name, make in STEPS.items():
        step = make()
        for budget in BUDGETS:
            print(f"{name}: {report_on(step, budget)}")
