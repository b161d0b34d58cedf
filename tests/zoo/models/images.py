"""Models of images: generative ones, a detector, mixed precision, two views of one image."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from _models import cifar_resnet, convolution, unet, unet3d

from zoo.case import Case, case_of, classifier, descend, floats, integers

layers = keras.layers


def residual() -> Case:
    """A ResNet of 3 x 3 basic blocks; momentum SGD."""
    return case_of(cifar_resnet(16, 3))


def segmentation() -> Case:
    """U-Net, a class per pixel; SGD."""
    return case_of(unet(2, 48, 12))


def volumes() -> Case:
    """U-Net of three dimensions; Adam."""
    return case_of(unet3d(32, 1, 6))


# ---- Generative ----


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


# ---- Several outputs, several views ----


def detector(batch: int = 2, size: int = 96, classes: int = 5) -> Case:
    """A backbone, a feature pyramid, and heads that all levels share; three losses, SGD."""
    keras.utils.set_random_seed(1)

    def stage(x: Any, channels: int) -> Any:
        x = layers.ReLU()(convolution(x, channels, stride=2))
        y = convolution(layers.ReLU()(convolution(x, channels)), channels)
        return layers.ReLU()(layers.Add()([x, y]))

    x = image = keras.Input((size, size, 3))
    features = []
    for channels in (16, 24, 32, 48, 64):
        x = stage(x, channels)
        features.append(x)
    width = 32
    laterals = [layers.Conv2D(width, 1)(feature) for feature in features[2:]]
    pyramid = [laterals[-1]]
    for lateral in reversed(laterals[:-1]):
        pyramid.append(layers.Add()([lateral, layers.UpSampling2D()(pyramid[-1])]))
    pyramid = [layers.Conv2D(width, 3, padding="same")(level) for level in pyramid]

    def head(outputs: int) -> list[Any]:
        hidden = [layers.Conv2D(width, 3, padding="same", activation="relu") for _ in range(2)]
        return [*hidden, layers.Conv2D(outputs, 3, padding="same"), layers.Reshape((-1, outputs))]

    def predicted(parts: list[Any]) -> Any:
        outputs = []
        for level in pyramid:
            for part in parts:
                level = part(level)
            outputs.append(level)
        return layers.Concatenate(axis=1)(outputs)

    model = keras.Model(image, [predicted(head(classes)), predicted(head(4))])
    kernels = [weight for weight in model.trainable_weights if weight.path.endswith("kernel")]
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True)
    optimizer.build(model.trainable_variables)
    focal = keras.losses.BinaryFocalCrossentropy(from_logits=True, reduction="sum")
    huber = keras.losses.Huber(reduction=None)

    @tf.function
    def step(images: tf.Tensor, truth: tf.Tensor, boxes: tf.Tensor) -> dict[str, tf.Tensor]:
        found = tf.cast(tf.reduce_any(truth > 0, -1), tf.float32)
        count = tf.maximum(tf.reduce_sum(found), 1)
        with tf.GradientTape() as tape:
            scores, places = model(images, training=True)
            losses = {
                "class": focal(truth, scores) / count,
                "box": tf.reduce_sum(huber(boxes, places) * found) / count,
                "decay": 1e-4 * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels]),
            }
            loss = tf.add_n(list(losses.values()))
        descend(tape, loss, model, optimizer)
        return losses

    places = model.outputs[0].shape[1]
    truth = (floats(batch, places, classes) > 1.5).astype("float32")
    data = floats(batch, size, size, 3), truth, floats(batch, places, 4, seed=2)
    return Case(step, tuple(map(tf.constant, data)))


def contrastive(batch: int = 12, size: int = 32, width: int = 16) -> Case:
    """Two random views of each image through one tower, drawn together (as SimCLR does); Adam."""
    keras.utils.set_random_seed(1)
    x = image = keras.Input((size, size, 3))
    for level in range(3):
        x = layers.ReLU()(convolution(x, width << level))
        x = layers.ReLU()(convolution(x, width << level, stride=2))
    x = layers.GlobalAveragePooling2D()(x)
    tower = keras.Model(image, layers.Dense(32)(layers.Dense(64, activation="relu")(x)))
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(tower.trainable_variables)

    def view(images: tf.Tensor) -> tf.Tensor:
        images = tf.image.random_flip_left_right(images)
        images = tf.image.random_brightness(images, 0.2)
        return images + 0.05 * tf.random.normal(tf.shape(images))

    @tf.function
    def step(images: tf.Tensor) -> tf.Tensor:
        views = [view(images), view(images)]
        with tf.GradientTape() as tape:
            one, other = (tf.math.l2_normalize(tower(v, training=True), -1) for v in views)
            likeness = tf.matmul(one, other, transpose_b=True) / 0.1
            labels = tf.range(batch)
            entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
            loss = tf.reduce_mean(entropy(labels, likeness))
            loss += tf.reduce_mean(entropy(labels, tf.transpose(likeness)))
        descend(tape, loss, tower, optimizer)
        return loss

    return Case(step, (tf.constant(floats(batch, size, size, 3)),))


# ---- Mixed precision ----


@contextlib.contextmanager
def _policy(name: str) -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _small_cnn(size: int, width: int) -> keras.Model:
    keras.utils.set_random_seed(1)
    x = image = keras.Input((size, size, 3))
    for level in range(3):
        x = layers.ReLU()(convolution(x, width << level))
        x = layers.ReLU()(convolution(x, width << level))
        x = layers.MaxPool2D()(x)
    return keras.Model(image, layers.Dense(10, dtype="float32")(layers.Flatten()(x)))


def mixed_float16(batch: int = 8, size: int = 32, width: int = 16) -> Case:
    """float16 with a loss scale, which skips the update where something overflows."""
    with _policy("mixed_float16"):
        model = _small_cnn(size, width)
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01, momentum=0.9))
    optimizer.build(model.trainable_variables)
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = entropy(labels, model(images, training=True))
            scaled = optimizer.scale_loss(loss)
        descend(tape, scaled, model, optimizer)
        return loss

    return Case(step, tuple(map(tf.constant, (floats(batch, size, size, 3), integers(10, batch)))))


def mixed_bfloat16(batch: int = 8, size: int = 32, width: int = 16) -> Case:
    """The same network in bfloat16; Adam."""
    with _policy("mixed_bfloat16"):
        model = _small_cnn(size, width)
    data = floats(batch, size, size, 3), integers(10, batch)
    return classifier(model, keras.optimizers.Adam(1e-3), *data)


# ---- Other ways to write a step ----


def compiled(batch: int = 8, size: int = 32, width: int = 16) -> Case:
    """Keras' own train_step: metrics, label smoothing, weight decay as losses of layers."""
    keras.utils.set_random_seed(1)
    decay = keras.regularizers.L2(1e-4)
    x = image = keras.Input((size, size, 3))
    for level in range(3):
        for stride in (1, 2):
            x = layers.SeparableConv2D(
                width << level, 3, stride, padding="same", pointwise_regularizer=decay
            )(x)
            x = layers.PReLU(shared_axes=[1, 2])(layers.BatchNormalization()(x))
    x = layers.Dropout(0.3)(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(image, layers.Dense(10, kernel_regularizer=decay)(x))
    loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    metrics = ["accuracy", keras.metrics.TopKCategoricalAccuracy(3)]
    optimizer = keras.optimizers.RMSprop(1e-3, momentum=0.9, centered=True)
    model.compile(optimizer, loss, metrics=metrics, jit_compile=False)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> dict[str, tf.Tensor]:
        return model.train_step((images, labels, weights))

    labels = np.eye(10, dtype="float32")[integers(10, batch)]
    weights = np.linspace(0.5, 2, batch, dtype="float32")
    return Case(step, tuple(map(tf.constant, (floats(batch, size, size, 3), labels, weights))))


def recomputed_by_hand(batch: int = 8, size: int = 32, width: int = 24) -> Case:
    """Blocks under tf.recompute_grad, which lms meets on top; momentum SGD."""
    keras.utils.set_random_seed(1)

    def block(channels: int, stride: int) -> keras.Model:
        x = seen = keras.Input((None, None, channels // stride))
        for number in range(2):
            x = layers.Conv2D(channels, 3, 1 if number else stride, padding="same")(x)
            x = layers.Activation("swish")(layers.GroupNormalization(8)(x))
        return keras.Model(seen, x)

    stem = layers.Conv2D(width, 3, padding="same")
    stem.build((None, size, size, 3))
    blocks = [block(width, 1), block(2 * width, 2), block(2 * width, 1), block(4 * width, 2)]
    head = layers.Dense(10)
    head.build((None, 4 * width))
    weights = [w for part in (stem, *blocks, head) for w in part.trainable_weights]
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(weights)

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            x = stem(images)
            for part in blocks:
                x = tf.recompute_grad(part)(x)
            logits = head(tf.reduce_mean(x, [1, 2]))
            error = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(error)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    return Case(step, tuple(map(tf.constant, (floats(batch, size, size, 3), integers(10, batch)))))
