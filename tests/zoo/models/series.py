"""Models of sound and of texts."""

from __future__ import annotations

import keras
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
