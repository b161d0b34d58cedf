"""Models of sound, of texts, of tables and of graphs."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from zoo.case import Case, classifier, descend, floats, integers

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


def speech(batch: int = 4, frames: int = 96, width: int = 48) -> Case:
    """Spectrograms to letters: strided convolutions, a GRU in both directions, CTC; Adam."""
    keras.utils.set_random_seed(1)
    letters, most = 29, 12
    x = sound = keras.Input((frames, 40))
    for _ in range(2):
        x = layers.Conv1D(width, 5, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Conv1D(width, 3, 2, padding="same", activation="relu")(x)
    x = layers.Bidirectional(layers.GRU(width, return_sequences=True, dropout=0.1))(x)
    model = keras.Model(sound, layers.Dense(letters)(x))
    optimizer = keras.optimizers.Adam(1e-3, clipvalue=1.0)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(sounds: tf.Tensor, texts: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(sounds, training=True)
            times = tf.fill([batch], tf.shape(logits)[1])
            losses = tf.nn.ctc_loss(
                texts, logits, lengths, times, logits_time_major=False, blank_index=letters - 1
            )
            loss = tf.reduce_mean(losses)
        descend(tape, loss, model, optimizer)
        return loss

    texts = integers(letters - 1, batch, most)
    lengths = 1 + integers(most, batch, seed=2)
    return Case(step, tuple(map(tf.constant, (floats(batch, frames, 40), texts, lengths))))


def word_vectors(batch: int = 256, words: int = 4000, width: int = 64) -> Case:
    """Words from their neighbours, against words drawn at random (noise contrast); plain SGD."""
    keras.utils.set_random_seed(1)
    start = tf.random.Generator.from_seed(2)
    vectors, contexts = (tf.Variable(0.1 * start.normal([words, width])) for _ in range(2))
    biases = tf.Variable(tf.zeros([words]))
    weights = [vectors, contexts, biases]
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(weights)

    @tf.function
    def step(word: tf.Tensor, neighbour: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.nce_loss(
                contexts,
                biases,
                tf.cast(neighbour, tf.int64)[:, None],
                tf.gather(vectors, word),
                num_sampled=64,
                num_classes=words,
            )
            loss = tf.reduce_mean(losses)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    data = integers(words, batch), integers(words, batch, seed=2)
    return Case(step, tuple(map(tf.constant, data)))


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
