"""Tables, recommendations, graphs and points: gathers, segments, sparse products."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

from zoo.case import floats, integers
from zoo.others.training import Training, dataset, fitted, stepped

layers = keras.layers
_FROM_LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def wide_and_deep_hashed() -> Training:
    """Strings hashed into buckets, crossed features, embeddings; a FeatureSpace-like dataset."""
    keras.utils.set_random_seed(81)
    inputs = {
        "age": keras.Input((1,), name="age"),
        "town": keras.Input((1,), name="town", dtype="int64"),
        "job": keras.Input((1,), name="job", dtype="int64"),
    }
    town = layers.Embedding(2000, 32)(inputs["town"])
    job = layers.Embedding(2000, 32)(inputs["job"])
    deep = layers.Concatenate()([layers.Flatten()(town), layers.Flatten()(job), inputs["age"]])
    for width in (256, 128):
        deep = layers.Dropout(0.2)(layers.BatchNormalization()(layers.Dense(width, "relu")(deep)))
    crossed = keras.layers.HashedCrossing(4000)
    wide = layers.Flatten()(layers.Embedding(4000, 1)(crossed((inputs["town"], inputs["job"]))))
    model = keras.Model(inputs, layers.Dense(1, "sigmoid")(layers.Concatenate()([deep, wide])))
    model.compile(keras.optimizers.Ftrl(0.05), "binary_crossentropy", metrics=["AUC"])
    hashing = layers.Hashing(2000)
    count = 4200
    columns = {
        "age": floats(count, 1),
        "town": np.array([[f"t{i}"] for i in integers(500, count)]),
        "job": np.array([[f"j{i}"] for i in integers(900, count, seed=3)]),
    }
    data = tf.data.Dataset.from_tensor_slices((columns, integers(2, count).astype("float32")))
    data = data.batch(512).map(
        lambda x, y: ({"age": x["age"], "town": hashing(x["town"]), "job": hashing(x["job"])}, y)
    )
    return fitted(keras, model, data)


def two_towers() -> Training:
    """Queries and candidates, in-batch negatives with a correction; sparse Adagrad, own loop."""
    keras.utils.set_random_seed(82)

    def tower(words: int) -> keras.Model:
        return keras.Sequential(
            [
                keras.Input((), dtype="int32"),
                layers.Embedding(words, 64),
                layers.Dense(256, "relu"),
                layers.Dense(64),
            ]
        )

    users, items = tower(3000), tower(5000)
    weights = users.trainable_variables + items.trainable_variables
    optimizer = keras.optimizers.Adagrad(0.1)
    optimizer.build(weights)

    @tf.function
    def step(user: Any, item: Any, often: Any) -> Any:
        with tf.GradientTape() as tape:
            scores = tf.matmul(users(user), items(item), transpose_b=True) - tf.math.log(often)
            same = tf.cast(item[:, None] == item[None], tf.float32)
            scores -= 1e9 * (same - tf.eye(tf.shape(item)[0]))
            labels = tf.range(tf.shape(user)[0])
            loss = tf.reduce_sum(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
            )
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    columns = integers(3000, 8600), integers(5000, 8600, seed=2), abs(floats(8600)) + 0.1
    return stepped(step, dataset(*columns, batch=1024), users, items, optimizer)


def deep_and_cross() -> Training:
    """Cross layers of low rank beside a deep part, in tf_keras; a float8 of columns by array."""
    tf_keras.utils.set_random_seed(83)
    keras2 = tf_keras.layers
    numbers = tf_keras.Input((13,))
    categories = tf_keras.Input((12,), dtype="int32")
    x = keras2.Flatten()(keras2.Embedding(1000, 16)(categories))
    x0 = x = keras2.Concatenate()([numbers, x])
    for _ in range(3):
        x = keras2.Add()([keras2.Multiply()([x0, keras2.Dense(205)(keras2.Dense(64)(x))]), x])
    y = x0
    for width in (256, 256):
        y = keras2.Dropout(0.2)(keras2.Dense(width, "relu")(y))
    model = tf_keras.Model(
        [numbers, categories], keras2.Dense(1, "sigmoid")(keras2.Concatenate()([x, y]))
    )
    model.compile("adam", "binary_crossentropy", metrics=["AUC"])
    return fitted(
        tf_keras, model, [floats(4300, 13), integers(1000, 4300, 12)], integers(2, 4300),
        batch_size=512,
    )  # fmt: skip


def mixture_of_experts() -> Training:
    """Top-1 routing with a capacity, tokens dispatched by one-hot products; a balance loss."""
    keras.utils.set_random_seed(84)
    experts, width, tokens = 4, 64, 32

    class Switch(layers.Layer):
        def build(self, shape: Any) -> None:
            self.route = self.add_weight(shape=(width, experts))
            self.grow = self.add_weight(shape=(experts, width, 4 * width))
            self.shrink = self.add_weight(shape=(experts, 4 * width, width))

        def call(self, x: Any) -> Any:
            flat = tf.reshape(x, (-1, width))
            count = tf.shape(flat)[0]
            capacity = count // experts
            chances = tf.nn.softmax(tf.matmul(flat, self.route))
            best = tf.argmax(chances, 1)
            chosen = tf.one_hot(best, experts)
            place = tf.cast(tf.cumsum(chosen, 0) * chosen, tf.int32) - 1
            place = tf.reduce_max(place, 1)
            mask = chosen[:, :, None] * tf.one_hot(place, capacity)[:, None]
            sent = tf.einsum("tec,td->ecd", mask, flat)
            made = tf.nn.gelu(tf.einsum("ecd,edf->ecf", sent, self.grow))
            made = tf.einsum("ecf,efd->ecd", made, self.shrink)
            share = tf.reduce_mean(chosen, 0) * tf.reduce_mean(chances, 0)
            self.add_loss(0.01 * experts * tf.reduce_sum(share))
            weight = tf.reduce_max(chances, 1)[:, None]
            return x + tf.reshape(weight * tf.einsum("tec,ecd->td", mask, made), tf.shape(x))

    inputs = keras.Input((tokens,), dtype="int32")
    x = layers.Embedding(1000, width)(inputs)
    for _ in range(2):
        y = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(4, 16)(y, y)])
        x = Switch()(layers.LayerNormalization()(x))
    model = keras.Model(inputs, layers.Dense(5)(layers.GlobalAveragePooling1D()(x)))
    model.compile(keras.optimizers.Adam(1e-3), _FROM_LOGITS)
    return fitted(keras, model, dataset(integers(1000, 136, tokens), integers(5, 136), batch=16))


def tab_transformer() -> Training:
    """Columns as tokens, attention over them, class weights; tf_keras."""
    tf_keras.utils.set_random_seed(85)
    keras2 = tf_keras.layers
    inputs = tf_keras.Input((20,), dtype="int32")
    x = keras2.Embedding(500, 32)(inputs)
    for _ in range(3):
        y = keras2.MultiHeadAttention(4, 32, dropout=0.2)(x, x)
        x = keras2.LayerNormalization(epsilon=1e-6)(keras2.Add()([x, y]))
        y = keras2.Dropout(0.2)(keras2.Dense(32)(keras2.Dense(64, tf_keras.activations.gelu)(x)))
        x = keras2.LayerNormalization(epsilon=1e-6)(keras2.Add()([x, y]))
    x = keras2.Dense(64, "selu")(keras2.BatchNormalization()(keras2.Flatten()(x)))
    model = tf_keras.Model(inputs, keras2.Dense(1, "sigmoid")(x))
    model.compile(tf_keras.optimizers.AdamW(1e-3), "binary_crossentropy", metrics=["accuracy"])
    return fitted(
        tf_keras, model, integers(500, 550, 20), integers(2, 550), batch_size=64,
        class_weight={0: 1.0, 1: 3.0},
    )  # fmt: skip


def _edges(nodes: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(8)
    return random.integers(0, nodes, count), np.sort(random.integers(0, nodes, count))


def graph_convolution_sparse() -> Training:
    """A normalised adjacency as tf.sparse, masked labels, one graph in every step; no seed."""
    nodes = 1500
    sources, targets = _edges(nodes, 9000)
    places = np.unique(np.stack([targets, sources], 1), axis=0)
    values = np.full(len(places), 1 / 6, "float32")
    graph = tf.sparse.SparseTensor(places, values, (nodes, nodes))
    kernels = [
        tf.Variable(floats(a, b, seed=a) / np.sqrt(a).astype("float32"))
        for a, b in ((300, 256), (256, 128), (128, 7))
    ]
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(kernels)

    @tf.function
    def step(features: Any, labels: Any, mask: Any) -> Any:
        with tf.GradientTape() as tape:
            x = features
            for number, kernel in enumerate(kernels):
                x = tf.sparse.sparse_dense_matmul(graph, tf.matmul(x, kernel))
                if number < 2:
                    x = tf.nn.dropout(tf.nn.relu(x), 0.5, seed=number)
            error = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x)
            loss = tf.reduce_sum(error * mask) / tf.reduce_sum(mask)
            loss += 5e-4 * tf.nn.l2_loss(kernels[0])
        optimizer.apply_gradients(zip(tape.gradient(loss, kernels), kernels))
        return loss

    batch = floats(nodes, 300), integers(7, nodes), np.float32(integers(2, nodes))
    return stepped(step, [tuple(map(tf.constant, batch))] * 8, *kernels, optimizer)


def graph_attention() -> Training:
    """Attention over edges: gathers, segment sums and maxima; a GAT as a Keras layer."""
    keras.utils.set_random_seed(87)
    nodes = 800
    sources, targets = _edges(nodes, 6000)

    class Attention(layers.Layer):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.width, self.heads = width, heads

        def build(self, shape: Any) -> None:
            self.kernel = self.add_weight(shape=(shape[0][-1], self.heads * self.width))
            self.score = self.add_weight(shape=(self.heads, 2 * self.width))

        def call(self, inputs: Any) -> Any:
            x, edges = inputs
            x = tf.reshape(tf.matmul(x, self.kernel), (-1, self.heads, self.width))
            pairs = tf.concat([tf.gather(x, edges[:, 0]), tf.gather(x, edges[:, 1])], -1)
            scores = tf.nn.leaky_relu(tf.reduce_sum(pairs * self.score, -1))
            highest = tf.math.segment_max(scores, edges[:, 1])
            scores = tf.exp(scores - tf.gather(highest, edges[:, 1]))
            total = tf.math.unsorted_segment_sum(scores, edges[:, 1], tf.shape(x)[0])
            shares = scores / (tf.gather(total, edges[:, 1]) + 1e-9)
            sent = tf.gather(x, edges[:, 0]) * shares[..., None]
            out = tf.math.unsorted_segment_sum(sent, edges[:, 1], tf.shape(x)[0])
            return tf.nn.elu(tf.reshape(out, (-1, self.heads * self.width)))

    x, edges = keras.Input((128,)), keras.Input((2,), dtype="int32")
    y = Attention(16, 4)([Attention(16, 4)([x, edges]), edges])
    model = keras.Model([x, edges], layers.Dense(7)(y))
    optimizer = keras.optimizers.Adam(5e-3)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(features: Any, pairs: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = _FROM_LOGITS(labels, model([features, pairs], training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    pairs = np.stack([sources, targets], 1).astype("int32")
    pairs = np.concatenate([pairs, np.stack([np.arange(nodes)] * 2, 1).astype("int32")])
    pairs = pairs[np.argsort(pairs[:, 1], kind="stable")]
    batch = floats(nodes, 128), pairs, integers(7, nodes)
    return stepped(step, [tuple(map(tf.constant, batch))] * 8, model, optimizer)


def message_passing() -> Training:
    """Molecules as ragged atoms and bonds, merged in the model; GRU updates; fit of tf_keras."""
    tf_keras.utils.set_random_seed(88)
    keras2 = tf_keras.layers

    class Passing(keras2.Layer):
        def build(self, shape: Any) -> None:
            self.kernel = self.add_weight(shape=(8, 32 * 32))
            self.cell = keras2.GRUCell(32)

        def call(self, inputs: Any) -> Any:
            atoms, bonds, pairs = inputs
            for _ in range(3):
                moved = tf.reshape(tf.matmul(bonds, self.kernel), (-1, 32, 32))
                sent = tf.matmul(moved, tf.gather(atoms, pairs[:, 1])[..., None])[..., 0]
                heard = tf.math.unsorted_segment_sum(sent, pairs[:, 0], tf.shape(atoms)[0])
                atoms, _ = self.cell(heard, [atoms])
            return atoms

    class Molecules(tf_keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.passing = keras2.Dense(32), Passing()
            self.out = tf_keras.Sequential([keras2.Dense(64, "relu"), keras2.Dense(1)])

        def call(self, inputs: Any) -> Any:
            atoms, bonds, pairs = inputs
            counts = atoms.row_lengths()
            offsets = tf.cumsum(counts, exclusive=True)
            shift = tf.repeat(offsets, pairs.row_lengths())[:, None]
            flat = tf.cast(pairs.merge_dims(0, 1), tf.int64) + shift
            x = self.passing([self.embed(atoms.merge_dims(0, 1)), bonds.merge_dims(0, 1), flat])
            owner = tf.repeat(tf.range(tf.shape(counts)[0]), counts)
            return self.out(tf.math.segment_mean(x, owner))

    random = np.random.default_rng(2)
    sizes = random.integers(8, 20, 140)
    atoms = tf.ragged.constant(
        [random.random((n, 16)) for n in sizes], ragged_rank=1, dtype="float32"
    )
    bonds = tf.ragged.constant(
        [random.random((2 * n, 8)) for n in sizes], ragged_rank=1, dtype="float32"
    )
    pairs = [random.integers(0, n, (2 * n, 2)) for n in sizes]
    pairs = tf.ragged.constant(pairs, ragged_rank=1, dtype="int64")
    model = Molecules()
    loss = tf_keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(tf_keras.optimizers.Adam(5e-4), loss)
    data = tf.data.Dataset.from_tensor_slices(((atoms, bonds, pairs), integers(2, 140)))
    return fitted(tf_keras, model, data.batch(16))


def point_net() -> Training:
    """Clouds of points, a learnt transform with an orthogonal regulariser; jittered data."""
    keras.utils.set_random_seed(89)

    class Orthogonal(keras.regularizers.Regularizer):
        def __init__(self, size: int) -> None:
            self.size = size

        def __call__(self, x: Any) -> Any:
            x = tf.reshape(x, (-1, self.size, self.size))
            apart = tf.matmul(x, x, transpose_b=True) - tf.eye(self.size)
            return tf.reduce_sum(0.001 * apart**2)

    def convolved(x: Any, width: int) -> Any:
        x = layers.BatchNormalization(momentum=0.0)(layers.Conv1D(width, 1)(x))
        return layers.Activation("relu")(x)

    def transformed(x: Any, size: int) -> Any:
        y = convolved(convolved(x, 32), 128)
        y = layers.Dense(64, "relu")(layers.GlobalMaxPooling1D()(y))
        bias = keras.initializers.Constant(np.eye(size).flatten())
        y = layers.Dense(
            size * size, kernel_initializer="zeros", bias_initializer=bias,
            activity_regularizer=Orthogonal(size),
        )(y)  # fmt: skip
        return layers.Dot(axes=(2, 1))([x, layers.Reshape((size, size))(y)])

    inputs = keras.Input((512, 3))
    x = convolved(convolved(transformed(inputs, 3), 32), 32)
    x = convolved(convolved(transformed(x, 32), 64), 128)
    x = layers.GlobalMaxPooling1D()(x)
    x = layers.Dropout(0.3)(layers.Dense(64, "relu")(x))
    model = keras.Model(inputs, layers.Dense(10, "softmax")(x))
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy")
    data = dataset(floats(68, 512, 3), integers(10, 68), batch=8)
    jitter = lambda x, y: (x + tf.random.stateless_uniform(tf.shape(x), (1, 2), -0.005, 0.005), y)  # noqa: E731
    return fitted(keras, model, data.map(jitter))


def edge_convolution() -> Training:
    """Neighbours by top_k of distances in every layer, gathered with batch_dims; open batch."""
    keras.utils.set_random_seed(90)

    class EdgeConv(layers.Layer):
        def __init__(self, width: int, count: int = 8) -> None:
            super().__init__()
            self.dense, self.count = layers.Dense(width, "relu"), count

        def call(self, x: Any) -> Any:
            square = tf.reduce_sum(x**2, -1)
            away = square[:, :, None] + square[:, None] - 2 * tf.matmul(x, x, transpose_b=True)
            _, nearest = tf.math.top_k(-away, self.count)
            around = tf.gather(x, nearest, batch_dims=1)
            own = tf.repeat(x[:, :, None], self.count, axis=2)
            return tf.reduce_max(self.dense(tf.concat([own, around - own], -1)), 2)

    x = inputs = keras.Input((200, 3))
    x = EdgeConv(48)(x)
    x = EdgeConv(48)(x)
    x = layers.GlobalMaxPooling1D()(x)
    model = keras.Model(inputs, layers.Dense(10)(x))
    model.compile("adam", _FROM_LOGITS)
    return fitted(keras, model, floats(68, 200, 3), integers(10, 68), batch_size=8)
