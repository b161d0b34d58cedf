"""Sums that TensorFlow adds up in the order of arrival keep stock TensorFlow's order."""

import lms
import pytest
import sums
import tensorflow as tf
from forked import run_forked
from steps import descend, named
from tensorflow.python.eager import context


@pytest.mark.slow
def test_one_thread_of_each_kind_gives_the_bits_of_stock():
    """In a process of its own: the number of threads is fixed once TensorFlow has started."""
    status, output = run_forked("import sums; sums.main()")
    assert status == 0, output
    lines = [line for line in output.splitlines() if "repeatable=" in line]
    assert len(lines) == len(sums.BUDGETS) * len(sums.STEPS), output
    for line in lines:
        assert line.endswith("repeatable=True status=rewritten ok=True"), output


@pytest.mark.parametrize("means", ["order", "swap"])
def test_a_sum_takes_its_terms_as_in_stock(means, tmp_path):
    """Neither another order nor swaps change who has read a term when the sum runs."""
    code = f"import sum_holders; sum_holders.main({means!r}, {str(tmp_path)!r})"
    status, output = run_forked(code)
    assert status == 0, output
    lines = [line for line in output.splitlines() if line.startswith("early=")]
    assert len(lines) == 2, output
    for line in lines:
        assert line.endswith("repeats=True status=rewritten differ=[0, 0, 0]"), output


def test_the_sums_that_grappler_makes_are_held():
    """Grappler makes them where it estimates more than 0.8 * 256 MiB: 16 MiB an activation here."""
    rng = tf.random.Generator.from_seed(7)
    x = rng.normal([65536, 64])
    kernels = [tf.Variable(rng.normal([64, 64]) / 8) for _ in range(3)]

    def step():
        with tf.GradientTape() as tape:
            y = x
            for kernel in kernels:
                z = tf.matmul(y, kernel)
                centred = z - tf.reduce_mean(z, 0)
                norm = centred * tf.math.rsqrt(tf.reduce_mean(centred * centred, 0) + 1e-3)
                y = y + tf.nn.relu(norm) * tf.tanh(y)
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, kernels)
        return loss

    lms.enable("min")
    with context.collect_graphs(optimized=True) as graphs:
        named(step)()
    nodes = {node.name: node for graph in graphs for node in graph.node}
    sums_found = 0
    for name in [name for name in nodes if name.endswith("/tmp_var")]:
        adds = {other for other in nodes if other.startswith(f"{name}_accum_")}
        waits = [i for add in adds for i in nodes[add].input if i.lstrip("^") in adds]
        if len(adds) > 2:
            sums_found += 1
            assert len(waits) == len(adds) - 1  # of n: the third for two, each further one for one
    assert sums_found
