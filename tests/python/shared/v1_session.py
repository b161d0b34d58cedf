"""A training session of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def train(make_session: Callable[[tf.Graph], Any], steps: int = 2) -> tuple[list[float], list[str]]:
    """Losses, and the names of the nodes that really ran, of a v1 training session."""
    graph = tf.Graph()
    with graph.as_default():
        v1.set_random_seed(3)
        y = x = tf.random.stateless_normal([512, 64], [1, 2])
        for layer in range(8):
            weight = v1.get_variable(
                f"w{layer}",
                initializer=tf.random.stateless_normal([64, 64], [layer, 3]) / 8.0,
                use_resource=True,
            )
            y = tf.tanh(tf.matmul(y, weight))
        loss = tf.reduce_mean(y * y)
        update = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = v1.global_variables_initializer()
        assert x is not None
    options = v1.RunOptions(output_partition_graphs=True)
    metadata = v1.RunMetadata()
    with make_session(graph) as session:
        session.run(init)
        losses = [
            session.run([loss, update], options=options, run_metadata=metadata)[0]
            for _ in range(steps)
        ]
    return losses, [node.name for part in metadata.partition_graphs for node in part.node]
