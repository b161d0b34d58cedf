"""Networks that make pictures and densities: two optimizers, own train_steps, second gradients."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from zoo.case import floats, integers
from zoo.others.training import Training, dataset, fitted, stepped

layers = keras.layers


def _generator(noise: int) -> keras.Model:
    model = keras.Sequential([keras.Input((noise,)), layers.Dense(7 * 7 * 64, use_bias=False)])
    model.add(layers.BatchNormalization())
    model.add(layers.LeakyReLU())
    model.add(layers.Reshape((7, 7, 64)))
    for width, stride in ((64, 1), (32, 2), (1, 2)):
        model.add(layers.Conv2DTranspose(width, 5, stride, padding="same", use_bias=False))
        if width > 1:
            model.add(layers.BatchNormalization())
            model.add(layers.LeakyReLU())
    model.add(layers.Activation("tanh"))
    return model


def _critic(dropout: float) -> keras.Model:
    model = keras.Sequential([keras.Input((28, 28, 1))])
    for width in (32, 64):
        model.add(layers.Conv2D(width, 5, strides=2, padding="same"))
        model.add(layers.LeakyReLU())
        model.add(layers.Dropout(dropout))
    model.add(layers.Flatten())
    model.add(layers.Dense(1))
    return model


def gan_two_optimizers() -> Training:
    """Both networks in one tf.function with two tapes, noise without a seed; open batch size."""
    generator, critic = _generator(100), _critic(0.3)
    optimizers = keras.optimizers.Adam(1e-4), keras.optimizers.Adam(1e-4)
    entropy = keras.losses.BinaryCrossentropy(from_logits=True)
    for optimizer, model in zip(optimizers, (generator, critic)):
        optimizer.build(model.trainable_variables)

    @tf.function(input_signature=[tf.TensorSpec((None, 28, 28, 1)), tf.TensorSpec((None, 100))])
    def step(images: Any, noise: Any) -> Any:
        with tf.GradientTape() as first, tf.GradientTape() as second:
            made = generator(noise, training=True)
            real, fake = critic(images, training=True), critic(made, training=True)
            wanted = entropy(tf.ones_like(fake), fake)
            told = entropy(tf.ones_like(real), real) + entropy(tf.zeros_like(fake), fake)
        for tape, loss, model, optimizer in (
            (first, wanted, generator, optimizers[0]),
            (second, told, critic, optimizers[1]),
        ):
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return wanted, told

    data = dataset(floats(136, 28, 28, 1), floats(136, 100, seed=2), batch=16)
    return stepped(step, data, generator, critic, *optimizers)


def wgan_gradient_penalty() -> Training:
    """Two turns of the critic for each of the generator; a gradient of a gradient."""
    keras.utils.set_random_seed(31)

    class Wgan(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.critic, self.generator = _critic(0.3), _generator(64)
            self.seeds = keras.random.SeedGenerator(4)

        def compile(self, first: Any, second: Any) -> None:
            super().compile()
            self.first, self.second = first, second

        def penalty(self, real: Any, fake: Any) -> Any:
            share = keras.random.uniform((tf.shape(real)[0], 1, 1, 1), seed=self.seeds)
            mixed = real + share * (fake - real)
            with tf.GradientTape() as tape:
                tape.watch(mixed)
                said = self.critic(mixed, training=True)
            slopes = tape.gradient(said, [mixed])[0]
            return tf.reduce_mean((tf.sqrt(tf.reduce_sum(slopes**2, [1, 2, 3])) - 1) ** 2)

        def train_step(self, real: Any) -> Any:
            count = tf.shape(real)[0]
            for _ in range(2):
                noise = keras.random.normal((count, 64), seed=self.seeds)
                with tf.GradientTape() as tape:
                    fake = self.generator(noise, training=True)
                    told = tf.reduce_mean(self.critic(fake, training=True))
                    told -= tf.reduce_mean(self.critic(real, training=True))
                    told += 10.0 * self.penalty(real, fake)
                weights = self.critic.trainable_variables
                self.first.apply_gradients(zip(tape.gradient(told, weights), weights))
            noise = keras.random.normal((count, 64), seed=self.seeds)
            with tf.GradientTape() as tape:
                made = self.generator(noise, training=True)
                wanted = -tf.reduce_mean(self.critic(made, training=True))
            weights = self.generator.trainable_variables
            self.second.apply_gradients(zip(tape.gradient(wanted, weights), weights))
            return {"critic": told, "generator": wanted}

    model = Wgan()
    model.compile(
        keras.optimizers.Adam(2e-4, beta_1=0.5, beta_2=0.9),
        keras.optimizers.Adam(2e-4, beta_1=0.5, beta_2=0.9),
    )
    data = tf.data.Dataset.from_tensor_slices(floats(136, 28, 28, 1)).batch(16)
    return fitted(keras, model, data, of=(model.first, model.second))


class Sampling(layers.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.seeds = keras.random.SeedGenerator(1337)

    def call(self, mean_and_spread: Any) -> Any:
        mean, spread = mean_and_spread
        noise = keras.random.normal(tf.shape(mean), seed=self.seeds)
        return mean + tf.exp(0.5 * spread) * noise


def vae_train_step() -> Training:
    """A convolutional VAE with a train_step and metrics of its own; fit with an array."""
    keras.utils.set_random_seed(32)
    x = inputs = keras.Input((28, 28, 1))
    for width in (32, 64):
        x = layers.Conv2D(width, 3, activation="relu", strides=2, padding="same")(x)
    x = layers.Dense(16, activation="relu")(layers.Flatten()(x))
    mean, spread = layers.Dense(2)(x), layers.Dense(2)(x)
    encoder = keras.Model(inputs, [mean, spread, Sampling()([mean, spread])])
    x = latent = keras.Input((2,))
    x = layers.Reshape((7, 7, 64))(layers.Dense(7 * 7 * 64, activation="relu")(x))
    for width in (64, 32):
        x = layers.Conv2DTranspose(width, 3, activation="relu", strides=2, padding="same")(x)
    decoder = keras.Model(latent, layers.Conv2DTranspose(1, 3, padding="same")(x))

    class Vae(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = encoder, decoder
            self.total = keras.metrics.Mean("loss")
            self.divergence = keras.metrics.Mean("kl")

        @property
        def metrics(self) -> Any:
            return [self.total, self.divergence]

        def train_step(self, images: Any) -> Any:
            with tf.GradientTape() as tape:
                mean, spread, z = self.encoder(images)
                error = tf.nn.sigmoid_cross_entropy_with_logits(
                    tf.nn.sigmoid(images), self.decoder(z)
                )
                likelihood = tf.reduce_mean(tf.reduce_sum(error, axis=(1, 2, 3)))
                divergence = -0.5 * (1 + spread - mean**2 - tf.exp(spread))
                divergence = tf.reduce_mean(tf.reduce_sum(divergence, axis=1))
                loss = likelihood + divergence
            weights = self.trainable_weights
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
            self.total.update_state(loss)
            self.divergence.update_state(divergence)
            return {metric.name: metric.result() for metric in self.metrics}

    model = Vae()
    model.compile(keras.optimizers.Adam())
    return fitted(keras, model, floats(544, 28, 28, 1), batch_size=64, of=(encoder, decoder))


class Codebook(layers.Layer):
    """Vector quantisation, straight through, with two added losses."""

    def build(self, shape: Any) -> None:
        self.codes = self.add_weight(shape=(shape[-1], 64), initializer="random_uniform")

    def call(self, x: Any) -> Any:
        flat = tf.reshape(x, (-1, x.shape[-1]))
        distances = tf.reduce_sum(flat**2, 1, keepdims=True) + tf.reduce_sum(self.codes**2, 0)
        nearest = tf.argmin(distances - 2 * tf.matmul(flat, self.codes), 1)
        chosen = tf.matmul(tf.one_hot(nearest, 64), self.codes, transpose_b=True)
        chosen = tf.reshape(chosen, tf.shape(x))
        self.add_loss(0.25 * tf.reduce_mean((tf.stop_gradient(chosen) - x) ** 2))
        self.add_loss(tf.reduce_mean((chosen - tf.stop_gradient(x)) ** 2))
        return x + tf.stop_gradient(chosen - x)


def vq_vae() -> Training:
    """Straight-through estimator, losses added by a layer; fit with a dataset."""
    keras.utils.set_random_seed(33)
    x = inputs = keras.Input((28, 28, 1))
    x = layers.Conv2D(32, 3, activation="relu", strides=2, padding="same")(x)
    x = layers.Conv2D(64, 3, activation="relu", strides=2, padding="same")(x)
    x = Codebook()(layers.Conv2D(16, 1)(x))
    x = layers.Conv2DTranspose(64, 3, activation="relu", strides=2, padding="same")(x)
    x = layers.Conv2DTranspose(32, 3, activation="relu", strides=2, padding="same")(x)
    model = keras.Model(inputs, layers.Conv2DTranspose(1, 3, padding="same")(x))
    model.compile("adam", "mse")
    images = floats(272, 28, 28, 1)
    return fitted(keras, model, dataset(images, images, batch=32))


def diffusion_time_embedding() -> Training:
    """A U-Net that is told the step of the noise, an averaged twin (EMA), noise from the seed."""
    keras.utils.set_random_seed(34)

    def embedded(times: Any, width: int = 32) -> Any:
        rates = tf.exp(tf.linspace(0.0, math.log(1000.0), width // 2))
        angles = times[:, None] * rates[None]
        return tf.concat([tf.sin(angles), tf.cos(angles)], -1)

    def residual(x: Any, told: Any, width: int) -> Any:
        before = x if x.shape[-1] == width else layers.Conv2D(width, 1)(x)
        x = layers.GroupNormalization(8)(layers.Conv2D(width, 3, padding="same")(x))
        x = layers.Add()([x, layers.Reshape((1, 1, width))(layers.Dense(width)(told))])
        x = layers.Conv2D(width, 3, padding="same")(layers.Activation("swish")(x))
        return layers.Add()([x, before])

    inputs, told = keras.Input((32, 32, 3)), keras.Input((32,))
    x = layers.Conv2D(24, 1)(inputs)
    skips = []
    for width in (24, 32):
        for _ in range(2):
            x = residual(x, told, width)
            skips.append(x)
        x = layers.AveragePooling2D(2)(x)
    x = residual(x, told, 48)
    for width in (32, 24):
        x = layers.UpSampling2D(2, interpolation="bilinear")(x)
        for _ in range(2):
            x = residual(layers.Concatenate()([x, skips.pop()]), told, width)
    network = keras.Model([inputs, told], layers.Conv2D(3, 1, kernel_initializer="zeros")(x))
    averaged = keras.models.clone_model(network)
    averaged.set_weights(network.get_weights())
    optimizer = keras.optimizers.AdamW(1e-3, weight_decay=1e-4)
    optimizer.build(network.trainable_variables)

    @tf.function
    def step(images: Any) -> Any:
        count = tf.shape(images)[0]
        times = tf.random.uniform((count,))
        noise = tf.random.normal(tf.shape(images))
        signal = tf.cos(times * math.pi / 2)[:, None, None, None]
        noisy = signal * images + tf.sqrt(1 - signal**2) * noise
        with tf.GradientTape() as tape:
            found = network([noisy, embedded(times)], training=True)
            loss = tf.reduce_mean(abs(found - noise))
        weights = network.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        for mean, weight in zip(averaged.weights, network.weights):
            mean.assign(0.99 * mean + 0.01 * weight)
        return loss

    data = tf.data.Dataset.from_tensor_slices(floats(68, 32, 32, 3)).batch(8).map(lambda x: (x,))
    return stepped(step, data, network, averaged, optimizer)


def real_nvp() -> Training:
    """A normalizing flow of coupling layers with masks; log-determinants in a train_step."""
    keras.utils.set_random_seed(35)

    def coupling() -> keras.Model:
        inputs = keras.Input((32,))
        parts = []
        for activation in ("tanh", "linear"):
            x = inputs
            for _ in range(3):
                decay = keras.regularizers.L2(1e-2)
                x = layers.Dense(256, activation="relu", kernel_regularizer=decay)(x)
            parts.append(layers.Dense(32, activation=activation)(x))
        return keras.Model(inputs, parts)

    class Flow(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.couplings = [coupling() for _ in range(4)]
            even = (np.arange(32) % 2).astype("float32")
            self.masks = np.stack([even, 1 - even] * 2)
            self.mean = keras.metrics.Mean("loss")

        def call(self, x: Any) -> Any:
            total = tf.zeros(tf.shape(x)[0])
            for mask, network in zip(self.masks, self.couplings):
                scale, shift = network(x * mask)
                scale, shift = scale * (1 - mask), shift * (1 - mask)
                x = x * tf.exp(-scale) - shift * tf.exp(-scale)
                total -= tf.reduce_sum(scale, 1)
            return x, total

        def train_step(self, data: Any) -> Any:
            with tf.GradientTape() as tape:
                z, determinant = self(data)
                density = -0.5 * tf.reduce_sum(z**2 + math.log(2 * math.pi), 1)
                loss = -tf.reduce_mean(density + determinant) + sum(self.losses)
            weights = self.trainable_variables
            gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, weights), 5.0)
            self.optimizer.apply_gradients(zip(gradients, weights))
            self.mean.update_state(loss)
            return {"loss": self.mean.result()}

    model = Flow()
    model.compile(keras.optimizers.Adam(1e-4))
    model(np.zeros((1, 32), "float32"))
    return fitted(keras, model, floats(2200, 32), batch_size=256)


def pixel_cnn() -> Training:
    """Masked convolutions with residual blocks; fit with arrays, no seed."""

    class Masked(layers.Layer):
        def __init__(self, kind: str, **arguments: Any) -> None:
            super().__init__()
            self.kind = kind
            self.conv = layers.Conv2D(**arguments)

        def build(self, shape: Any) -> None:
            self.conv.build(shape)
            mask = np.zeros(self.conv.kernel.shape, "float32")
            rows, columns = mask.shape[0] // 2, mask.shape[1] // 2
            mask[:rows] = 1.0
            mask[rows, : columns + (self.kind == "B")] = 1.0
            self.mask = mask

        def call(self, x: Any) -> Any:
            self.conv.kernel.assign(self.conv.kernel * self.mask)
            return self.conv(x)

    x = inputs = keras.Input((28, 28, 1))
    x = Masked("A", filters=32, kernel_size=7, activation="relu", padding="same")(x)
    for _ in range(3):
        y = layers.Conv2D(32, 1, activation="relu")(x)
        y = Masked("B", filters=16, kernel_size=3, activation="relu", padding="same")(y)
        x = layers.add([x, layers.Conv2D(32, 1, activation="relu")(y)])
    x = layers.Conv2D(1, 1, activation="sigmoid")(x)
    model = keras.Model(inputs, x)
    model.compile(keras.optimizers.Adam(5e-4), "binary_crossentropy")
    images = integers(2, 136, 28, 28, 1).astype("float32")
    return fitted(keras, model, images, images, batch_size=16)
