"""Models of sound, of texts, of tables and of graphs."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from zoo.case import Case, classifier, floats, integers

layers = keras.layers


def wavenet(batch: int = 2, length: int = 1024, width: int = 24) -> Case:
    """Dilated causal convolutions with gates and skips, the next of 256 levels; Adam."""
    keras.utils.set_random_seed(1)
    sound = keras.Input((length,), dtype="int32")
    x = layers.Embedding(256, width)(sound)
    skips = []
    for dilation in [1 << power for power in range(8)]:
        gate, signal = (
            layers.Conv1D(width, 2, padding="causal", dilation_rate=dilation, activation=activation)
            for activation in ("sigmoid", "tanh")
        )
        y = layers.Multiply()([gate(x), signal(x)])
        skips.append(layers.Conv1D(width, 1)(y))
        x = layers.Add()([x, layers.Conv1D(width, 1)(y)])
    x = layers.ReLU()(layers.Add()(skips))
    x = layers.Conv1D(256, 1)(layers.Conv1D(width, 1, activation="relu")(x))
    levels = integers(256, batch, length + 1)
    model = keras.Model(sound, x)
    return classifier(model, keras.optimizers.Adam(1e-3), levels[:, :-1], levels[:, 1:])


def text_cnn(batch: int = 16, length: int = 120, width: int = 64) -> Case:
    """Convolutions of several widths side by side, the maximum over time of each; Adadelta."""
    keras.utils.set_random_seed(1)
    text = keras.Input((length,), dtype="int32")
    x = layers.SpatialDropout1D(0.2)(layers.Embedding(3000, width)(text))
    found = [layers.Conv1D(96, size, activation="relu")(x) for size in (3, 4, 5)]
    x = layers.Concatenate()([layers.GlobalMaxPooling1D()(part) for part in found])
    model = keras.Model(text, layers.Dense(5)(layers.Dropout(0.5)(x)))
    data = integers(3000, batch, length), integers(5, batch)
    return classifier(model, keras.optimizers.Adadelta(1.0), *data)


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


def accumulated(batch: int = 32, parts: int = 4, width: int = 192) -> Case:
    """Gradients of several parts of the batch are added up in a loop, clipped, applied; Lion."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((64, 32))])
    for _ in range(3):
        model.add(layers.Dense(width, activation="gelu"))
        model.add(layers.LayerNormalization())
    model.add(layers.GlobalAveragePooling1D())
    model.add(layers.Dense(10))
    optimizer = keras.optimizers.Lion(1e-4)
    optimizer.build(model.trainable_variables)
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    weights = model.trainable_variables

    @tf.function
    def step(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        total = 0.0
        sums = [tf.zeros(weight.shape) for weight in weights]
        for part in tf.range(parts):
            with tf.GradientTape() as tape:
                loss = entropy(labels[part], model(x[part], training=True)) / parts
            sums = [a + b for a, b in zip(sums, tape.gradient(loss, weights))]
            total += loss
        sums, norm = tf.clip_by_global_norm(sums, 1.0)
        optimizer.apply_gradients(zip(sums, weights))
        return total, norm

    x, labels = floats(parts, batch // parts, 64, 32), integers(10, parts, batch // parts)
    return Case(step, (tf.constant(x), tf.constant(labels)))
