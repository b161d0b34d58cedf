"""Sessions of TensorFlow 1: optimizers and control flow of frames, switches and merges."""

from __future__ import annotations

from collections.abc import Callable

import lms
import numpy as np
import pytest
import tensorflow as tf
from forms import same
from patience import HANGS
from steps import BATCH, LAYERS, WIDTH, chain

v1 = tf.compat.v1


def layers(resource: bool = True) -> list:
    def value(i):
        return tf.random.stateless_normal([WIDTH, WIDTH], [i, 3]) / 8.0

    return [
        v1.get_variable(f"w{i}", initializer=value(i), use_resource=resource) for i in range(LAYERS)
    ]


def data() -> tf.Tensor:
    return tf.random.stateless_normal([BATCH, WIDTH], [1, 2])


def mean_square(y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(y * y)


def train(loss: tf.Tensor, weights: list) -> list:
    return [v1.assign_sub(w, 0.1 * g) for w, g in zip(weights, tf.gradients(loss, weights))]


def run(build: Callable, budget: str | None, **options) -> tuple:
    """All fetched and all variables of a session of its own; its peak; the report of its step."""
    graph = tf.Graph()
    v1.disable_control_flow_v2()
    try:
        with graph.as_default():
            fetches, weights, updates = build()
            init = v1.global_variables_initializer()
    finally:
        v1.enable_control_flow_v2()
    config = v1.ConfigProto(
        intra_op_parallelism_threads=1, operation_timeout_in_ms=int(1000 * HANGS)
    )
    config = config if budget is None else lms.configure(config, budget, **options)
    with v1.Session(graph=graph, config=config) as session:
        session.run(init)
        lms.clear_reports()
        values, peaks = [], []
        for _ in range(3):
            before = lms.memory.bytes_in_use()
            lms.memory.reset_peak()
            values += session.run(fetches + updates)[: len(fetches)]
            peaks.append(lms.memory.peak_bytes() - before)
        reports = lms.reports()
        values += session.run(weights)
    return [np.asarray(v) for v in values], max(peaks[1:]), reports[-1] if reports else None


def compare(build: Callable, **options) -> tuple:
    values, peak, _ = run(build, None)
    ours, our_peak, report = run(build, "min", **options)
    assert same(values, ours)
    return peak, our_peak, report


def optimized(make: Callable) -> Callable:
    def build():
        weights = layers()
        loss = mean_square(chain(data(), weights))
        return [loss], weights, [make().minimize(loss)]

    return build


OPTIMIZERS = {
    "Adam": lambda: v1.train.AdamOptimizer(0.01),
    "RMSProp": lambda: v1.train.RMSPropOptimizer(0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    peak, ours, report = compare(optimized(OPTIMIZERS[name]))
    assert report.status == "rewritten" and ours < peak


def in_a_loop():
    """A training step as the body; updates, so that iterations do not overlap."""
    weights, x = layers(), data()

    def body(i, total):
        loss = mean_square(chain(x * tf.cast(i + 1, tf.float32), weights))
        with tf.control_dependencies(train(loss, weights)):
            return i + 1, total + loss

    return [v1.while_loop(lambda i, _: i < 3, body, [0, 0.0])[1]], weights, []


def accumulated():
    weights, x = layers(), data()

    def body(i, total, *sums):
        loss = mean_square(chain(x * tf.cast(i + 1, tf.float32), weights))
        slopes = tf.gradients(loss, weights)
        return (i + 1, total + loss, *[a + b for a, b in zip(sums, slopes)])

    zeros = [tf.zeros([WIDTH, WIDTH])] * LAYERS
    _, total, *sums = v1.while_loop(lambda i, *_: i < 3, body, [0, 0.0, *zeros])
    return [total], weights, [v1.assign_sub(w, 0.1 * s) for w, s in zip(weights, sums)]


def in_a_branch():
    weights, x = layers(), data()
    switch = v1.get_variable("switch", initializer=1.0, use_resource=True)

    def taken():
        loss = mean_square(chain(x, weights))
        with tf.control_dependencies(train(loss, weights)):
            return tf.identity(loss)

    return [v1.cond(switch > 0.0, taken, lambda: tf.constant(0.0))], weights, []


def through_a_branch():
    weights, x = layers(), data()
    switch = v1.get_variable("switch", initializer=1.0, use_resource=True)
    y = v1.cond(switch > 0.0, lambda: chain(x, weights), lambda: tf.sin(x))
    loss = mean_square(chain(y, weights))
    return [loss], weights, [v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)]


def of_second_order():
    weights = layers()[:4]
    slopes = tf.gradients(mean_square(chain(data(), weights)), weights)
    loss = tf.add_n([tf.reduce_sum(slope * slope) for slope in slopes])
    return [loss], weights, [v1.train.GradientDescentOptimizer(0.01).minimize(loss)]


FORMS = [in_a_loop, accumulated, in_a_branch, through_a_branch, of_second_order]


@pytest.mark.parametrize("build", FORMS)
def test_control_flow_of_version_1(build):
    peak, ours, report = compare(build)
    assert report.status == "rewritten" and ours < peak
    where = {in_a_loop: "in the body of the loop", in_a_branch: "branch"}
    assert where.get(build, "") in report.reason


def test_a_gradient_through_a_loop_of_version_1_is_not_predicted():
    """Its stacks are of unknown size, and the report says that they are not counted."""

    def build():
        weights = layers()
        step = lambda i, y: (i + 1, chain(y, weights))  # noqa: E731
        loss = mean_square(v1.while_loop(lambda i, _: i < 4, step, [0, data()])[1])
        return [loss], weights, [v1.train.GradientDescentOptimizer(0.1).minimize(loss)]

    _, _, report = compare(build)
    assert report.status in ("rewritten", "fits")
    assert any("what is held there is not predicted" in warning for warning in report.warnings)


def test_reference_variables_are_read_where_they_are():
    """What derives from one is not recomputed."""

    def build():
        weights = layers(resource=False)
        loss = mean_square(chain(data(), weights))
        return [loss], weights, [v1.train.AdamOptimizer(0.01).minimize(loss)]

    peak, ours, report = compare(build)
    assert report.status in ("rewritten", "fits") and ours <= peak
    assert "reads a reference variable" in {item["reason"] for item in report.kept}
    assert not [
        d for d in report.decisions if d["op_type"] == "MatMul" and d["kind"] == "recompute"
    ]


def test_a_partitioned_table_with_slices():
    """What its parts are put together to has no known size: unknown_dim says it."""
    ids = np.random.default_rng(1).integers(0, 1000, BATCH)

    def build():
        weights = layers()
        table = v1.get_variable(
            "table",
            [1000, WIDTH],
            partitioner=v1.fixed_size_partitioner(4),
            initializer=v1.truncated_normal_initializer(seed=3),
            use_resource=True,
        )
        rows = tf.nn.embedding_lookup(table, ids)
        loss = mean_square(chain(rows, weights))
        return [loss], weights + list(table), [v1.train.AdagradOptimizer(0.01).minimize(loss)]

    peak, ours, report = compare(build, unknown_dim=BATCH)
    assert report.status == "rewritten" and ours < peak
