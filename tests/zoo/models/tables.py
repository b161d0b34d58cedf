"""Models of tables, of graphs, of experience."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from zoo.case import Case, floats, integers

layers = keras.layers


def wide_and_deep(batch: int = 256, fields: int = 12, width: int = 16) -> Case:
    """Tables of embeddings, whose gradients are sparse: FTRL for the wide part, Adagrad else."""
    keras.utils.set_random_seed(1)
    rows = 2000
    wide = [tf.Variable(tf.zeros([rows, 1]), name=f"wide_{field}") for field in range(fields)]
    start = tf.random.Generator.from_seed(2)
    tables = [
        tf.Variable(0.05 * start.normal([rows, width]), name=f"table_{field}")
        for field in range(fields)
    ]
    deep = keras.Sequential([keras.Input((fields * width + 13,))])
    for units in (256, 128, 64):
        deep.add(layers.Dense(units, activation="relu"))
        deep.add(layers.Dropout(0.1))
    deep.add(layers.Dense(1))
    weights: list[Any] = [*tables, *deep.trainable_variables]
    ftrl, adagrad = keras.optimizers.Ftrl(0.05), keras.optimizers.Adagrad(0.05)
    ftrl.build(wide)
    adagrad.build(weights)

    @tf.function
    def step(keys: tf.Tensor, numbers: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            columns = tf.unstack(keys, axis=1)
            linear = tf.add_n([tf.gather(part, key) for part, key in zip(wide, columns)])
            found = [tf.nn.embedding_lookup(part, key) for part, key in zip(tables, columns)]
            logits = linear + deep(tf.concat([*found, numbers], 1), training=True)
            error = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(error)
        gradients = tape.gradient(loss, [*wide, *weights])
        ftrl.apply_gradients(zip(gradients, wide))
        adagrad.apply_gradients(zip(gradients[fields:], weights))
        return loss

    labels = (floats(batch, 1, seed=3) > 0).astype("float32")
    data = integers(rows, batch, fields), floats(batch, 13), labels
    return Case(step, tuple(map(tf.constant, data)))


def graph_convolution(nodes: int = 1200, features: int = 128, width: int = 64) -> Case:
    """Nodes of a graph, some of them labelled: products with a sparse matrix; Adam."""
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(0)
    ends = rng.integers(0, nodes, size=(5 * nodes, 2))
    ends = np.unique(
        np.concatenate([ends, ends[:, ::-1], np.arange(nodes)[:, None] * [1, 1]]), axis=0
    )
    degree = np.bincount(ends[:, 0], minlength=nodes)
    values = 1 / np.sqrt(degree[ends[:, 0]] * degree[ends[:, 1]])
    links = tf.SparseTensor(ends, values.astype("float32"), [nodes, nodes])
    parts = [layers.Dense(width, use_bias=False) for _ in range(2)] + [layers.Dense(7)]
    for part, size in zip(parts, (features, width, width)):
        part.build((None, size))
    weights = [weight for part in parts for weight in part.trainable_weights]
    dropout = layers.Dropout(0.5, seed=3)
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(weights)

    @tf.function
    def step(x: tf.Tensor, links: tf.SparseTensor, labels: tf.Tensor, known: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            for part in parts:
                x = part(dropout(x, training=True))
                x = tf.sparse.sparse_dense_matmul(links, x)
                x = x if part is parts[-1] else tf.nn.relu(x)
            error = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x)
            loss = tf.reduce_mean(tf.boolean_mask(error, known))
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    known = tf.constant(rng.random(nodes) < 0.2)
    arguments = floats(nodes, features), links, integers(7, nodes), known
    return Case(step, tuple(tf.nest.map_structure(_constant, arguments)))


def _constant(value: Any) -> Any:
    return (
        value if tf.is_tensor(value) or isinstance(value, tf.SparseTensor) else tf.constant(value)
    )


def policy_gradient(batch: int = 512, width: int = 128) -> Case:
    """Actor and critic on a batch of experience, the clipped objective of PPO; Adam."""
    keras.utils.set_random_seed(1)
    actions = 6

    def network(outputs: int) -> keras.Model:
        x = seen = keras.Input((24,))
        for _ in range(3):
            x = layers.Dense(width, activation="tanh")(x)
        return keras.Model(seen, layers.Dense(outputs)(x))

    actor, critic = network(actions), network(1)
    weights = actor.trainable_variables + critic.trainable_variables
    optimizer = keras.optimizers.Adam(3e-4)
    optimizer.build(weights)

    @tf.function
    def step(
        seen: tf.Tensor, done: tf.Tensor, old: tf.Tensor, rewards: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        with tf.GradientTape() as tape:
            likely = tf.nn.log_softmax(actor(seen, training=True))
            value = critic(seen, training=True)[:, 0]
            gain = tf.stop_gradient(rewards - value)
            gain = (gain - tf.reduce_mean(gain)) / (tf.math.reduce_std(gain) + 1e-6)
            ratio = tf.exp(tf.gather(likely, done, axis=1, batch_dims=1) - old)
            clipped = tf.clip_by_value(ratio, 0.8, 1.2)
            losses = {
                "policy": -tf.reduce_mean(tf.minimum(ratio * gain, clipped * gain)),
                "value": 0.5 * tf.reduce_mean(tf.square(rewards - value)),
                "entropy": 0.01 * tf.reduce_mean(tf.reduce_sum(tf.exp(likely) * likely, -1)),
            }
            loss = tf.add_n(list(losses.values()))
        gradients, norm = tf.clip_by_global_norm(tape.gradient(loss, weights), 0.5)
        optimizer.apply_gradients(zip(gradients, weights))
        return {**losses, "norm": norm}

    old = np.full(batch, -np.log(actions), "float32")
    data = floats(batch, 24), integers(actions, batch), old, floats(batch, seed=2)
    return Case(step, tuple(map(tf.constant, data)))
