"""A sum of three terms of which two have other readers: who has read them decides its order.

Run as a program with two words, what is allowed ("order" or "swap") and a directory to swap to:
prints in how many places results differ from stock's.
"""

from __future__ import annotations

import sys

import lms
import numpy as np
import tensorflow as tf

SIDE = 512
TERMS = 10000


def make_step(early: bool):
    """`early`: what the readers of the terms need besides is there long before them."""

    @tf.function
    def step(x: tf.Tensor, v: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        first, second = tf.sin(x), tf.cos(x)
        b = x
        if early:
            b += 1e-9 * (tf.reduce_sum(first) + tf.reduce_sum(second))
        for _ in range(6):
            square = tf.reshape(b, [SIDE, SIDE])
            b = tf.reshape(tf.linalg.matmul(square, square) / SIDE, [-1])
        kept = [tf.tanh(b + float(i)) for i in range(14)]
        large = tf.reduce_sum(tf.stack([tf.reduce_sum(k * kept[0]) for k in kept[::-1]]))
        z = v + large * 1e-9
        terms = [tf.exp(z), tf.math.log1p(z * z), tf.sqrt(z * z + 0.1)]
        others = [tf.reduce_sum(tf.concat(pair, 0)) for pair in zip((first, second), terms)]
        return tf.add_n(terms), *others

    return step


def main(means: str, directory: str) -> None:
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    rng = np.random.default_rng(0)
    x = tf.constant(rng.standard_normal(SIDE * SIDE).astype("f"))
    v = tf.constant(rng.standard_normal(TERMS).astype("f"))
    options = {"memory_budget": "60%", "recompute": False}
    if means == "swap":
        link = lms.SwapOptions(in_bandwidth=1e9, out_bandwidth=1e9)
        options.update(memory_budget="90%", reorder=False, swap_to=directory, swap=link)
    for early in (False, True):
        step = make_step(early)
        stock = [[part.numpy() for part in step(x, v)] for _ in range(2)]
        repeats = all(np.array_equal(a, b) for a, b in zip(*stock))
        with lms.enabled(**options):
            ours = [part.numpy() for part in step(x, v)]
            status = lms.report().status
        differ = [int((a != b).sum()) for a, b in zip(stock[0], ours)]
        print(f"early={early} repeats={repeats} status={status} differ={differ}")


if __name__ == "__main__":
    main(*sys.argv[1:])
