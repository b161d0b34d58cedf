"""Pictures: classified, segmented, boxed, compared. Keras 3, mostly by `fit`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from zoo.case import floats, integers
from zoo.others.training import Training, dataset, fitted, stepped

layers = keras.layers
_FROM_LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def convnext_like() -> Training:
    """Depthwise 7x7, LayerNorm, inverted bottleneck; AdamW with clipping, a smaller last batch."""
    keras.utils.set_random_seed(11)

    def block(x: Any, width: int) -> Any:
        y = layers.DepthwiseConv2D(7, padding="same")(x)
        y = layers.LayerNormalization(epsilon=1e-6)(y)
        y = layers.Dense(4 * width, activation="gelu")(y)
        return x + layers.Dense(width)(y)

    x = inputs = keras.Input((32, 32, 3))
    x = layers.Conv2D(24, 2, strides=2)(x)
    for width in (24, 48):
        for _ in range(2):
            x = block(x, width)
        x = layers.Conv2D(2 * width, 2, strides=2)(layers.LayerNormalization()(x))
    x = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(inputs, x)
    model.compile(keras.optimizers.AdamW(1e-3, clipnorm=1.0), _FROM_LOGITS, metrics=["accuracy"])
    data = dataset(floats(136, 32, 32, 3), integers(10, 136), batch=16)
    return fitted(keras, model, data)


class PoolingMixer(layers.Layer):
    """Mixes by average pooling less itself, scaled by channel, on a path that may be dropped."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.pool = layers.AveragePooling2D(3, 1, padding="same")
        self.rate = rate
        self.seeds = keras.random.SeedGenerator(5)

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(
            shape=(shape[-1],), initializer=keras.initializers.Constant(0.1)
        )

    def call(self, x: Any, training: bool = False) -> Any:
        y = self.scale * (self.pool(x) - x)
        if training:
            shape = (tf.shape(x)[0], 1, 1, 1)
            kept = keras.random.uniform(shape, seed=self.seeds) >= self.rate
            y = y * tf.cast(kept, y.dtype) / (1 - self.rate)
        return x + y


class BiasedAttention(layers.Layer):
    """Attention of pixels whose biases are gathered by how far they are apart."""

    def __init__(self, heads: int, key: int, side: int) -> None:
        super().__init__()
        self.heads, self.key, self.side = heads, key, side
        places = [(i, j) for i in range(side) for j in range(side)]
        numbers: dict[tuple[int, int], int] = {}
        offsets = [(abs(a - c), abs(b - d)) for a, b in places for c, d in places]
        indices = [numbers.setdefault(offset, len(numbers)) for offset in offsets]
        self.indices = np.array(indices, "int32").reshape(side**2, side**2)
        self.offsets = len(numbers)
        self.mixed = layers.Dense(heads * key * 6)

    def build(self, shape: Any) -> None:
        self.biases = self.add_weight(shape=(self.heads, self.offsets), initializer="zeros")
        self.out = layers.Dense(shape[-1])

    def call(self, x: Any) -> Any:
        shape = tf.shape(x)
        qkv = tf.reshape(self.mixed(x), (shape[0], shape[1], self.heads, -1))
        q, k, v = tf.split(tf.transpose(qkv, (0, 2, 1, 3)), [self.key, self.key, 4 * self.key], -1)
        scores = tf.matmul(q, k, transpose_b=True) * self.key**-0.5
        weights = tf.nn.softmax(scores + tf.gather(self.biases, self.indices, axis=1))
        y = tf.transpose(tf.matmul(weights, v), (0, 2, 1, 3))
        return x + self.out(tf.reshape(y, (shape[0], shape[1], self.heads * 4 * self.key)))


def efficientformer_like() -> Training:
    """Pooling mixers, then attention with gathered biases; layer scales, drop path, open batch."""
    keras.utils.set_random_seed(12)
    x = inputs = keras.Input((32, 32, 3))
    for width in (24, 48):
        x = layers.Conv2D(width, 3, 2, padding="same", use_bias=False)(x)
        x = layers.Activation("gelu")(layers.BatchNormalization()(x))
        for _ in range(2):
            x = PoolingMixer(0.1)(x)
            y = layers.Conv2D(4 * width, 1, activation="gelu")(x)
            x = x + layers.BatchNormalization()(layers.Conv2D(width, 1)(y))
    x = layers.Reshape((64, 48))(x)
    for _ in range(2):
        x = BiasedAttention(4, 16, 8)(layers.LayerNormalization()(x))
        x = x + layers.Dense(48)(layers.Dense(192, activation="gelu")(x))
    x = layers.Dense(10)(layers.GlobalAveragePooling1D()(x))
    model = keras.Model(inputs, x)
    model.compile(keras.optimizers.AdamW(1e-3), _FROM_LOGITS)
    data = dataset(floats(136, 32, 32, 3), integers(10, 136), batch=16).prefetch(2)
    return fitted(keras, model, data)


class Patches(layers.Layer):
    def call(self, images: Any) -> Any:
        patches = tf.image.extract_patches(
            images, [1, 4, 4, 1], [1, 4, 4, 1], [1, 1, 1, 1], padding="VALID"
        )
        return tf.reshape(patches, (tf.shape(images)[0], -1, patches.shape[-1]))


class Positions(layers.Layer):
    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.project = layers.Dense(width)
        self.positions = layers.Embedding(count, width)
        self.count = count

    def call(self, patches: Any) -> Any:
        return self.project(patches) + self.positions(tf.range(self.count))


def vit_from_patches() -> Training:
    """Augmentation inside the model, patches by extract_patches; fit with arrays."""
    keras.utils.set_random_seed(13)
    augment = keras.Sequential(
        [layers.RandomFlip("horizontal", seed=1), layers.RandomRotation(0.02, seed=2)]
    )
    inputs = keras.Input((32, 32, 3))
    x = Positions(64, 64)(Patches()(augment(inputs)))
    for _ in range(3):
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        x = x + layers.MultiHeadAttention(4, 16, dropout=0.1)(y, y)
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        y = layers.Dropout(0.1)(layers.Dense(128, activation="gelu")(y))
        x = x + layers.Dense(64)(y)
    x = layers.Dropout(0.5)(layers.Flatten()(layers.LayerNormalization()(x)))
    model = keras.Model(inputs, layers.Dense(10)(x))
    model.compile(keras.optimizers.AdamW(1e-3, weight_decay=1e-4), _FROM_LOGITS)
    return fitted(keras, model, floats(136, 32, 32, 3), integers(10, 136), batch_size=16)


def mlp_mixer_bfloat16() -> Training:
    """Mixed bfloat16, no seed set, arrays without shuffling."""
    policy = keras.mixed_precision.DTypePolicy("mixed_bfloat16")
    x = inputs = keras.Input((32, 32, 3))
    x = layers.Reshape((64, 96))(layers.Conv2D(96, 4, 4, dtype=policy)(x))
    for _ in range(4):
        y = layers.Permute((2, 1))(layers.LayerNormalization(dtype=policy)(x))
        y = layers.Dense(64, dtype=policy)(layers.Dense(128, "gelu", dtype=policy)(y))
        x = layers.Add(dtype=policy)([x, layers.Permute((2, 1))(y)])
        y = layers.LayerNormalization(dtype=policy)(x)
        y = layers.Dense(96, dtype=policy)(layers.Dense(256, "gelu", dtype=policy)(y))
        x = layers.Add(dtype=policy)([x, y])
    x = layers.Dense(10, dtype="float32")(layers.GlobalAveragePooling1D()(x))
    model = keras.Model(inputs, x)
    model.compile("adam", _FROM_LOGITS)
    data = floats(136, 32, 32, 3), integers(10, 136)
    return fitted(keras, model, *data, batch_size=16, shuffle=False)


def unet_upsampling() -> Training:
    """UpSampling2D and skips, a dice loss besides the cross-entropy; dataset with a map."""
    keras.utils.set_random_seed(15)

    def twice(x: Any, width: int) -> Any:
        for _ in range(2):
            x = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
            x = layers.ReLU()(layers.BatchNormalization()(x))
        return x

    x = inputs = keras.Input((None, None, 3))
    skips = []
    for width in (16, 32):
        skips.append(twice(x, width))
        x = layers.MaxPool2D()(skips[-1])
    x = twice(x, 64)
    for width, skip in zip((32, 16), reversed(skips)):
        x = layers.UpSampling2D(interpolation="bilinear")(x)
        x = twice(layers.Concatenate()([x, skip]), width)
    model = keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid")(x))

    def dice(truth: Any, predicted: Any) -> Any:
        both = tf.reduce_sum(truth * predicted, [1, 2, 3])
        return 1 - (2 * both + 1) / (tf.reduce_sum(truth + predicted, [1, 2, 3]) + 1)

    def loss(truth: Any, predicted: Any) -> Any:
        entropy = keras.losses.binary_crossentropy(truth, predicted)
        return dice(truth, predicted) + tf.reduce_mean(entropy, [1, 2])

    model.compile("adam", loss, metrics=[keras.metrics.BinaryIoU()])
    data = tf.data.Dataset.from_tensor_slices(floats(68, 48, 48, 3))
    data = data.map(lambda x: (x, tf.cast(tf.reduce_mean(x, -1, keepdims=True) > 0, tf.float32)))
    return fitted(keras, model, data.batch(8))


def separable_residuals() -> Training:
    """Separable convolutions with strided shortcuts; checkpoints of the best, a falling rate."""
    keras.utils.set_random_seed(16)
    x = inputs = keras.Input((48, 48, 3))
    x = layers.Rescaling(1.0 / 255)(x)
    x = layers.Conv2D(32, 3, 2, padding="same")(x)
    x = before = layers.Activation("relu")(layers.BatchNormalization()(x))
    for width in (48, 64):
        for _ in range(2):
            x = layers.SeparableConv2D(width, 3, padding="same")(layers.Activation("relu")(x))
            x = layers.BatchNormalization()(x)
        x = layers.MaxPooling2D(3, 2, padding="same")(x)
        before = x = layers.add([x, layers.Conv2D(width, 1, 2, padding="same")(before)])
    x = layers.Dropout(0.25)(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(inputs, layers.Dense(1)(x))
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
    callbacks = [
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
        keras.callbacks.EarlyStopping("loss", patience=3),
    ]
    data = dataset(255 * abs(floats(100, 48, 48, 3)), integers(2, 100), batch=24)
    return fitted(keras, model, data, epochs=2, callbacks=callbacks)


def autoencoder_transposed() -> Training:
    """Denoises with Conv2DTranspose; arrays, validation data, several steps per execution."""
    keras.utils.set_random_seed(17)
    model = keras.Sequential(
        [
            keras.Input((32, 32, 1)),
            layers.GaussianNoise(0.2),
            layers.Conv2D(32, 3, activation="relu", padding="same"),
            layers.MaxPooling2D(2, padding="same"),
            layers.Conv2D(32, 3, activation="relu", padding="same"),
            layers.MaxPooling2D(2, padding="same"),
            layers.Conv2DTranspose(32, 3, strides=2, activation="relu", padding="same"),
            layers.Conv2DTranspose(32, 3, strides=2, activation="relu", padding="same"),
            layers.Conv2D(1, 3, activation="sigmoid", padding="same"),
        ]
    )
    model.compile("adam", "binary_crossentropy", steps_per_execution=4)
    x = np.clip(abs(floats(16 * 36, 32, 32, 1)), 0, 1)
    return fitted(keras, model, x, x, batch_size=16, validation_data=(x[:32], x[:32]))


def volumes_3d() -> Training:
    """Conv3D classifier, a PyDataset that makes its batches; no seed set."""

    class Scans(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> Any:
            size = 3 if index == 7 else 4
            return floats(size, 24, 24, 24, 1, seed=index), integers(2, size, seed=index)

    model = keras.Sequential([keras.Input((24, 24, 24, 1))])
    for width in (16, 32, 32):
        model.add(layers.Conv3D(width, 3, activation="relu", padding="same"))
        model.add(layers.MaxPool3D(2))
        model.add(layers.BatchNormalization())
    model.add(layers.GlobalAveragePooling3D())
    model.add(layers.Dense(64, activation="relu"))
    model.add(layers.Dense(1, activation="sigmoid"))
    rate = keras.optimizers.schedules.ExponentialDecay(1e-3, 100, 0.96, staircase=True)
    model.compile(keras.optimizers.Adam(rate), "binary_crossentropy", metrics=["acc"])
    return fitted(keras, model, Scans(), shuffle=False)


class Squash(layers.Layer):
    def call(self, x: Any) -> Any:
        square = tf.reduce_sum(x**2, -1, keepdims=True)
        return square / (1 + square) * x / tf.sqrt(square + 1e-7)


class Capsules(layers.Layer):
    """Routing by agreement, three times."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.count, self.width, self.squash = count, width, Squash()

    def build(self, shape: Any) -> None:
        self.w = self.add_weight(shape=(self.count, shape[1], shape[2], self.width))

    def call(self, x: Any) -> Any:
        votes = tf.einsum("bik,nikd->bnid", x, self.w)
        logits = tf.zeros_like(votes[..., 0])
        for turn in range(3):
            shares = tf.nn.softmax(logits, axis=1)
            out = self.squash(tf.einsum("bni,bnid->bnd", shares, votes))
            if turn < 2:
                logits += tf.einsum("bnd,bnid->bni", out, votes)
        return tf.norm(out + 1e-9, axis=-1)


def capsules() -> Training:
    """Dynamic routing, the margin loss; arrays."""
    keras.utils.set_random_seed(19)
    x = inputs = keras.Input((28, 28, 1))
    x = layers.Conv2D(32, 9, activation="relu")(x)
    x = layers.Conv2D(32, 9, strides=2)(x)
    x = Squash()(layers.Reshape((6 * 6 * 4, 8))(x))
    model = keras.Model(inputs, Capsules(10, 16)(x))

    def margin(truth: Any, length: Any) -> Any:
        truth = tf.one_hot(tf.cast(tf.reshape(truth, [-1]), tf.int32), 10)
        present = truth * tf.maximum(0.0, 0.9 - length) ** 2
        return tf.reduce_sum(present + 0.5 * (1 - truth) * tf.maximum(0.0, length - 0.1) ** 2, -1)

    model.compile("adam", margin)
    data = dataset(floats(136, 28, 28, 1), integers(10, 136), batch=16)
    return fitted(keras, model, data)


def detector_with_boxes() -> Training:
    """Anchors, smooth L1 and focal loss in a loss class of one's own; ragged boxes are matched."""
    keras.utils.set_random_seed(20)
    anchors = np.stack(np.meshgrid(np.linspace(0, 1, 8), np.linspace(0, 1, 8)), -1).reshape(64, 2)
    anchors = tf.constant(np.concatenate([anchors, np.full((64, 2), 0.2)], 1), tf.float32)

    class Matching(keras.losses.Loss):
        def call(self, truth: Any, predicted: Any) -> Any:
            boxes, classes = truth[..., :4], tf.cast(truth[..., 4], tf.int32)
            low = tf.maximum(anchors[:, None, :2] - 0.1, boxes[:, None, :, :2])
            high = tf.minimum(anchors[:, None, :2] + 0.1, boxes[:, None, :, 2:])
            both = tf.reduce_prod(tf.maximum(0.0, high - low), -1)
            overlap = both / (0.04 + tf.reduce_prod(boxes[..., 2:] - boxes[..., :2], -1)[:, None])
            best = tf.argmax(overlap, -1)
            positive = tf.cast(tf.reduce_max(overlap, -1) > 0.1, tf.float32)
            matched = tf.gather(boxes, best, batch_dims=1)
            labels = tf.gather(classes, best, batch_dims=1)
            away = abs(matched - predicted[..., :4])
            near = tf.where(away < 1, 0.5 * away**2, away - 0.5)
            places = tf.reduce_sum(near, -1) * positive
            targets = tf.one_hot(labels, 5) * positive[..., None]
            entropy = tf.nn.sigmoid_cross_entropy_with_logits(targets, predicted[..., 4:])
            chance = tf.sigmoid(predicted[..., 4:])
            hard = (1 - (targets * chance + (1 - targets) * (1 - chance))) ** 2
            return tf.reduce_sum(places + tf.reduce_sum(hard * entropy, -1), -1) / (
                1 + tf.reduce_sum(positive, -1)
            )

    x = inputs = keras.Input((64, 64, 3))
    for width in (16, 32, 64):
        x = layers.Conv2D(width, 3, 2, padding="same", use_bias=False)(x)
        x = layers.LeakyReLU()(layers.BatchNormalization()(x))
        x = layers.LeakyReLU()(layers.Conv2D(width, 3, padding="same")(x))
    x = layers.Reshape((64, 9))(layers.Conv2D(9, 3, padding="same")(x))
    model = keras.Model(inputs, x)
    model.compile(keras.optimizers.SGD(1e-3, momentum=0.9, clipnorm=10.0), Matching())
    corners = np.random.default_rng(3).uniform(0, 0.6, (100, 6, 2))
    boxes = np.concatenate([corners, corners + 0.3, integers(5, 100, 6, 1)], -1).astype("float32")
    return fitted(keras, model, dataset(floats(100, 64, 64, 3), boxes, batch=12))


def triplets() -> Training:
    """Three pictures, one tower; the distance is an added loss in a model with its train_step."""
    keras.utils.set_random_seed(21)
    tower = keras.Sequential([keras.Input((32, 32, 3))])
    for width in (32, 64):
        tower.add(layers.Conv2D(width, 3, activation="relu"))
        tower.add(layers.MaxPooling2D())
    tower.add(layers.Flatten())
    tower.add(layers.Dense(64))
    tower.add(layers.UnitNormalization())

    class Siamese(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.tower = tower
            self.mean = keras.metrics.Mean("loss")

        @property
        def metrics(self) -> Any:
            return [self.mean]

        def train_step(self, data: Any) -> Any:
            with tf.GradientTape() as tape:
                anchor, same, other = (self.tower(x, training=True) for x in data)
                near = tf.reduce_sum((anchor - same) ** 2, -1)
                far = tf.reduce_sum((anchor - other) ** 2, -1)
                loss = tf.reduce_mean(tf.maximum(near - far + 0.5, 0.0))
            gradients = tape.gradient(loss, self.tower.trainable_weights)
            self.optimizer.apply_gradients(zip(gradients, self.tower.trainable_weights))
            self.mean.update_state(loss)
            return {"loss": self.mean.result()}

    model = Siamese()
    model.compile(keras.optimizers.Adam(1e-4))
    data = tf.data.Dataset.from_tensor_slices(
        tuple(floats(100, 32, 32, 3, seed=s) for s in (1, 2, 3))
    )
    return fitted(keras, model, data.map(lambda *three: (three,)).map(lambda x: x).batch(12))


def style_transfer() -> Training:
    """The gradient with respect to a picture, of Gram matrices of a frozen network; own loop."""
    keras.utils.set_random_seed(22)
    x = inputs = keras.Input((96, 96, 3))
    seen = []
    for width in (16, 32, 64):
        x = layers.Conv2D(width, 3, activation="relu", padding="same")(x)
        x = layers.Conv2D(width, 3, activation="relu", padding="same")(x)
        seen.append(x)
        x = layers.AveragePooling2D(2)(x)
    network = keras.Model(inputs, seen)
    network.trainable = False
    picture = tf.Variable(floats(2, 96, 96, 3))
    optimizer = keras.optimizers.Adam(0.02, beta_1=0.99)
    optimizer.build([picture])

    def gram(x: Any) -> Any:
        places = tf.cast(tf.shape(x)[1] * tf.shape(x)[2], tf.float32)
        return tf.linalg.einsum("bijc,bijd->bcd", x, x) / places

    style = [gram(x) for x in network(floats(2, 96, 96, 3, seed=1))]
    content = network(floats(2, 96, 96, 3, seed=2))[-1]

    @tf.function
    def step(image: Any) -> Any:
        with tf.GradientTape() as tape:
            found = network(image)
            loss = tf.add_n([tf.reduce_mean((gram(x) - s) ** 2) for x, s in zip(found, style)])
            loss += 1e-2 * tf.reduce_mean((found[-1] - content) ** 2)
            loss += 1e-3 * tf.reduce_sum(tf.image.total_variation(image))
        optimizer.apply_gradients([(tape.gradient(loss, image), image)])
        image.assign(tf.clip_by_value(image, -2.0, 2.0))
        return loss

    return stepped(step, [(picture,)] * 9, picture, optimizer)
