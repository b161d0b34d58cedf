"""Other libraries on Keras 3 or on TensorFlow alone."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from zoo.case import floats, integers
from zoo.others.training import Training, Watch, dataset, fitted, stepped

layers = keras.layers
_FROM_LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def tcn_temporal() -> Training:
    """keras-tcn: dilated causal convolutions with skips and dropout."""
    from tcn import TCN

    keras.utils.set_random_seed(151)
    inputs = keras.Input((120, 4))
    x = TCN(32, dilations=(1, 2, 4, 8), dropout_rate=0.1, use_layer_norm=True)(inputs)
    model = keras.Model(inputs, layers.Dense(2)(x))
    model.compile("adam", "mse")
    return fitted(keras, model, floats(272, 120, 4), floats(272, 2), batch_size=32)


def keras_rs_dot_interaction() -> Training:
    """keras-rs: dot products of embeddings, and its feature crosses (DLRM)."""
    import keras_rs

    keras.utils.set_random_seed(152)
    ids, numbers = keras.Input((10,), dtype="int32"), keras.Input((13,))
    table = layers.Embedding(3000, 32)(ids)
    dense = layers.Dense(32, "relu")(layers.Dense(256, "relu")(numbers))
    rows = [table[:, i] for i in range(10)]
    crossed = keras_rs.layers.DotInteraction()([dense, *rows])
    x = layers.Concatenate()([crossed, dense])
    x = keras_rs.layers.FeatureCross(projection_dim=32)(x)
    x = layers.Dense(256, "relu")(x)
    model = keras.Model([ids, numbers], layers.Dense(1, "sigmoid")(x))
    model.compile(keras.optimizers.Adagrad(0.05), "binary_crossentropy")
    data = dataset((integers(3000, 4300, 10), floats(4300, 13)), integers(2, 4300), batch=512)
    return fitted(keras, model, data)


def sonnet_resnet() -> Training:
    """Sonnet: modules, batch norm with its own averages, its own optimizers; an open batch."""
    import sonnet as snt

    tf.random.set_seed(155)
    network = snt.nets.ResNet([1, 1, 1, 1], 10, channels_per_group_list=(32, 48, 64, 64))
    optimizer = snt.optimizers.Momentum(0.01, 0.9)
    network(tf.zeros((1, 48, 48, 3)), is_training=True)

    @tf.function(
        input_signature=[tf.TensorSpec((None, 48, 48, 3)), tf.TensorSpec((None,), tf.int32)]
    )
    def step(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = network(images, is_training=True)
            error = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels)
            loss = tf.reduce_mean(error)
        weights = network.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)
        return loss

    data = dataset(floats(68, 48, 48, 3), integers(10, 68), batch=8)
    return stepped(step, data, network, optimizer)


def sonnet_vq_vae() -> Training:
    """Sonnet: vector quantisation with moving averages of the codes."""
    import sonnet as snt

    tf.random.set_seed(156)
    encoder = snt.Sequential(
        [snt.Conv2D(32, 4, 2), tf.nn.relu, snt.Conv2D(64, 4, 2), tf.nn.relu, snt.Conv2D(16, 1)]
    )
    decoder = snt.Sequential(
        [snt.Conv2DTranspose(32, 4, stride=2), tf.nn.relu, snt.Conv2DTranspose(3, 4, stride=2)]
    )
    codes = snt.nets.VectorQuantizerEMA(16, 128, commitment_cost=0.25, decay=0.99)
    optimizer = snt.optimizers.Adam(1e-3)

    @tf.function
    def step(images: Any) -> Any:
        with tf.GradientTape() as tape:
            found = codes(encoder(images), is_training=True)
            loss = tf.reduce_mean((decoder(found["quantize"]) - images) ** 2) + found["loss"]
        weights = encoder.trainable_variables + decoder.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)
        return loss, found["perplexity"]

    data = tf.data.Dataset.from_tensor_slices((floats(136, 32, 32, 3),)).batch(16)
    return stepped(step, data, encoder, decoder, codes, optimizer)


def deepxde_heat() -> Training:
    """deepxde: the heat equation with its boundary; its own loop, a step of ten at a time."""
    import deepxde as dde

    dde.config.set_random_seed(158)

    def equation(x: Any, u: Any) -> Any:
        return dde.grad.jacobian(u, x, i=0, j=1) - 0.4 * dde.grad.hessian(u, x, i=0, j=0)

    domain = dde.geometry.GeometryXTime(dde.geometry.Interval(0, 1), dde.geometry.TimeDomain(0, 1))
    edge = dde.icbc.DirichletBC(domain, lambda x: 0, lambda _, on: on)
    first = dde.icbc.IC(domain, lambda x: np.sin(np.pi * x[:, :1]), lambda _, on: on)
    data = dde.data.TimePDE(domain, equation, [edge, first], 3000, 100, 160)
    model = dde.Model(data, dde.nn.FNN([2, *[48] * 3, 1], "tanh", "Glorot normal"))
    model.compile("adam", lr=1e-3, verbose=0)

    def run(watch: Watch) -> None:
        for _ in range(7):
            with watch.step():
                model.train(iterations=3, display_every=10**6, verbose=0)
            watch.loss(np.concatenate([np.ravel(part) for part in model.train_state.loss_train]))

    return Training(run, (model.net,))


def einops_mixer() -> Training:
    """einops: rearranged patches in layers of Keras."""
    from einops import rearrange, reduce

    keras.utils.set_random_seed(160)

    class Mixer(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.first = layers.Dense(64)
            self.across = [(layers.Dense(128, "gelu"), layers.Dense(64)) for _ in range(3)]
            self.along = [(layers.Dense(256, "gelu"), layers.Dense(64)) for _ in range(3)]
            self.norms = [layers.LayerNormalization() for _ in range(6)]
            self.out = layers.Dense(10)

        def call(self, images: Any) -> Any:
            x = self.first(rearrange(images, "b (h p) (w q) c -> b (h w) (p q c)", p=4, q=4))
            for (a, b), (c, d), n, m in zip(self.across, self.along, self.norms, self.norms[3:]):
                y = b(a(rearrange(n(x), "b t c -> b c t")))
                x = x + rearrange(y, "b c t -> b t c")
                x = x + d(c(m(x)))
            return self.out(reduce(x, "b t c -> b c", "mean"))

    model = Mixer()
    model(np.zeros((1, 32, 32, 3), "float32"))
    optimizer = keras.optimizers.Lamb(1e-3)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = _FROM_LOGITS(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    data = dataset(floats(128, 32, 32, 3), integers(10, 128), batch=16, drop=True)
    return stepped(step, data, model, optimizer)
