"""Models that make images: GAN, variational autoencoder, diffusion."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from zoo.case import Case, descend, floats

layers = keras.layers


def gan(batch: int = 16, width: int = 24) -> Case:
    """32 px: a generator and a discriminator, each with its optimizer, in one step."""
    keras.utils.set_random_seed(1)
    generator = keras.Sequential([keras.Input((64,)), layers.Dense(16 * 4 * width)])
    generator.add(layers.Reshape((4, 4, 4 * width)))
    for channels in (2 * width, width):
        generator.add(layers.Conv2DTranspose(channels, 4, 2, padding="same", use_bias=False))
        generator.add(layers.BatchNormalization())
        generator.add(layers.LeakyReLU(0.2))
    generator.add(layers.Conv2DTranspose(3, 4, 2, padding="same", activation="tanh"))
    discriminator = keras.Sequential([keras.Input((32, 32, 3))])
    for channels in (width, 2 * width, 4 * width):
        discriminator.add(layers.Conv2D(channels, 4, 2, padding="same"))
        discriminator.add(layers.LeakyReLU(0.2))
        discriminator.add(layers.Dropout(0.3))
    discriminator.add(layers.Flatten())
    discriminator.add(layers.Dense(1))
    optimizers = [keras.optimizers.Adam(2e-4, beta_1=0.5) for _ in range(2)]
    for optimizer, model in zip(optimizers, (generator, discriminator)):
        optimizer.build(model.trainable_variables)
    entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def step(real: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        noise = tf.random.normal([batch, 64])
        with tf.GradientTape() as making, tf.GradientTape() as judging:
            fake = generator(noise, training=True)
            said_real = discriminator(real, training=True)
            said_fake = discriminator(fake, training=True)
            loss = entropy(tf.ones_like(said_fake), said_fake)
            judge_loss = entropy(tf.ones_like(said_real), said_real)
            judge_loss += entropy(tf.zeros_like(said_fake), said_fake)
        descend(making, loss, generator, optimizers[0])
        descend(judging, judge_loss, discriminator, optimizers[1])
        return loss, judge_loss

    return Case(step, (tf.constant(np.tanh(floats(batch, 32, 32, 3))),))


def vae(batch: int = 16, width: int = 24, latent: int = 16) -> Case:
    """Variational autoencoder of 32 px images; Adam."""
    keras.utils.set_random_seed(1)
    encoder = keras.Sequential([keras.Input((32, 32, 1))])
    decoder = keras.Sequential([keras.Input((latent,)), layers.Dense(64 * 2 * width)])
    decoder.add(layers.Reshape((8, 8, 2 * width)))
    for channels in (width, 2 * width):
        encoder.add(layers.Conv2D(channels, 3, 2, padding="same", activation="relu"))
    for channels in (2 * width, width):
        decoder.add(layers.Conv2DTranspose(channels, 3, 2, padding="same", activation="relu"))
    encoder.add(layers.Flatten())
    encoder.add(layers.Dense(2 * latent))
    decoder.add(layers.Conv2D(1, 3, padding="same"))
    weights = encoder.trainable_variables + decoder.trainable_variables
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(weights)

    @tf.function
    def step(images: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.GradientTape() as tape:
            mean, log_variance = tf.split(encoder(images, training=True), 2, axis=-1)
            noise = tf.random.normal(tf.shape(mean))
            logits = decoder(mean + tf.exp(0.5 * log_variance) * noise, training=True)
            error = tf.nn.sigmoid_cross_entropy_with_logits(images, logits)
            error = tf.reduce_mean(tf.reduce_sum(error, [1, 2, 3]))
            gap = 1 + log_variance - tf.square(mean) - tf.exp(log_variance)
            divergence = tf.reduce_mean(tf.reduce_sum(-0.5 * gap, -1))
            loss = error + divergence
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return {"error": error, "divergence": divergence}

    pixels = (floats(batch, 32, 32, 1) > 0).astype("float32")
    return Case(step, (tf.constant(pixels),))


def diffusion(batch: int = 4, size: int = 24, width: int = 24) -> Case:
    """Predicts the noise in images: U-Net with time embedding, group norm and attention; Adam."""
    keras.utils.set_random_seed(1)

    def normed(x: Any) -> Any:
        return keras.ops.silu(layers.GroupNormalization(8)(x))

    def block(x: Any, time: Any, channels: int) -> Any:
        y = layers.Conv2D(channels, 3, padding="same")(normed(x))
        y = y + layers.Reshape((1, 1, channels))(layers.Dense(channels)(time))
        y = layers.Dropout(0.1)(normed(y))
        y = layers.Conv2D(channels, 3, padding="same", kernel_initializer="zeros")(y)
        x = x if x.shape[-1] == channels else layers.Conv2D(channels, 1)(x)
        return x + y

    def attended(x: Any) -> Any:
        shape = x.shape[1:]
        y = layers.Reshape((shape[0] * shape[1], shape[2]))(layers.GroupNormalization(8)(x))
        y = layers.MultiHeadAttention(2, shape[2] // 2)(y, y)
        return x + layers.Reshape(shape)(y)

    image, when = keras.Input((size, size, 3)), keras.Input((1,))
    frequencies = np.exp(-np.arange(16) / 2).astype("float32")
    angles = when * frequencies
    time = layers.Concatenate()([keras.ops.sin(angles), keras.ops.cos(angles)])
    time = layers.Dense(64)(layers.Dense(64, activation="silu")(time))
    x = layers.Conv2D(width, 3, padding="same")(image)
    skips = [x]
    for level in range(2):
        for _ in range(2):
            x = block(x, time, width << level)
            skips.append(x)
        x = layers.Conv2D(width << level, 3, 2, padding="same")(x)
        skips.append(x)
    x = block(attended(block(x, time, 4 * width)), time, 4 * width)
    for level in (1, 0):
        x = block(layers.Concatenate()([x, skips.pop()]), time, width << level)
        x = layers.Conv2D(width << level, 3, padding="same")(layers.UpSampling2D()(x))
        for _ in range(2):
            x = block(layers.Concatenate()([x, skips.pop()]), time, width << level)
    x = normed(layers.Concatenate()([x, skips.pop()]))
    model = keras.Model([image, when], layers.Conv2D(3, 3, padding="same")(x))
    optimizer = keras.optimizers.Adam(1e-3, use_ema=True)
    optimizer.build(model.trainable_variables)
    kept = np.cumprod(np.linspace(0.9999, 0.98, 100)).astype("float32")

    @tf.function
    def step(images: tf.Tensor) -> tf.Tensor:
        times = tf.random.uniform([batch], 0, 100, tf.int32)
        noise = tf.random.normal(tf.shape(images))
        share = tf.reshape(tf.gather(kept, times), [batch, 1, 1, 1])
        noisy = tf.sqrt(share) * images + tf.sqrt(1 - share) * noise
        with tf.GradientTape() as tape:
            inputs = [noisy, tf.cast(times, tf.float32)[:, None]]
            loss = tf.reduce_mean(tf.square(noise - model(inputs, training=True)))
        descend(tape, loss, model, optimizer)
        return loss

    return Case(step, (tf.constant(floats(batch, size, size, 3)),))
