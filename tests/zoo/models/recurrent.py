"""Recurrent models: loops of Keras' layers, and one written by hand."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from zoo.case import Case, classifier, floats, integers

layers = keras.layers


def _of_series(batch: int, length: int, features: int, stack: list[Any], labels: Any) -> Case:
    model = keras.Sequential([keras.Input((length, features)), *stack])
    series = floats(batch, length, features)
    return classifier(model, keras.optimizers.Adam(1e-3), series, labels)


def lstm_stacked(batch: int = 16, length: int = 48, units: int = 96) -> Case:
    """Three LSTMs with dropout between them, a class per series."""
    keras.utils.set_random_seed(1)
    stack: list[Any] = []
    for last in (False, False, True):
        stack += [layers.LSTM(units, return_sequences=not last), layers.Dropout(0.2)]
    return _of_series(batch, length, 32, [*stack, layers.Dense(10)], integers(10, batch))


def gru_tagger(batch: int = 16, length: int = 48, units: int = 96) -> Case:
    """Two GRUs that return sequences, a class per time."""
    keras.utils.set_random_seed(1)
    stack = [layers.GRU(units, return_sequences=True) for _ in range(2)]
    labels = integers(10, batch, length)
    return _of_series(batch, length, 32, [*stack, layers.Dense(10)], labels)


def bidirectional(batch: int = 16, length: int = 48, units: int = 64) -> Case:
    """An LSTM in both directions, then a GRU in both."""
    keras.utils.set_random_seed(1)
    stack = [
        layers.Bidirectional(layers.LSTM(units, return_sequences=True)),
        layers.Bidirectional(layers.GRU(units)),
        layers.Dense(10),
    ]
    return _of_series(batch, length, 32, stack, integers(10, batch))


def rnn_unrolled(batch: int = 16, length: int = 24, units: int = 128) -> Case:
    """Two layers without loops: all times are written out in the graph."""
    keras.utils.set_random_seed(1)
    stack = [
        layers.SimpleRNN(units, return_sequences=True, unroll=True),
        layers.GRU(units, unroll=True),
        layers.Dense(10),
    ]
    return _of_series(batch, length, 32, stack, integers(10, batch))


def conv_lstm(batch: int = 2, length: int = 6, size: int = 20) -> Case:
    """Video: a convolution per frame, and a convolutional LSTM over them."""
    keras.utils.set_random_seed(1)
    clip = keras.Input((length, size, size, 3))
    x = layers.TimeDistributed(layers.Conv2D(12, 3, padding="same", activation="relu"))(clip)
    x = layers.ConvLSTM2D(12, 3, padding="same")(x)
    model = keras.Model(clip, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))
    data = floats(batch, length, size, size, 3), integers(10, batch)
    return classifier(model, keras.optimizers.RMSprop(1e-3), *data)


def seq2seq(batch: int = 8, source: int = 32, target: int = 24, width: int = 96) -> Case:
    """Translation: a GRU in both directions, a GRU that attends to it; Adam."""
    keras.utils.set_random_seed(1)
    words, known = (keras.Input((length,), dtype="int32") for length in (source, target))
    x = layers.Embedding(1500, width)(words)
    memory, one, other = layers.Bidirectional(
        layers.GRU(width // 2, return_sequences=True, return_state=True)
    )(x)
    y = layers.Embedding(1500, width)(known)
    state = layers.Concatenate()([one, other])
    y = layers.GRU(width, return_sequences=True)(y, initial_state=state)
    context = layers.AdditiveAttention(dropout=0.1)([y, memory])
    y = layers.Dense(width, activation="tanh")(layers.Concatenate()([y, context]))
    model = keras.Model([words, known], layers.Dense(1500)(y))
    optimizer = keras.optimizers.Adam(1e-3, clipnorm=1.0)
    inputs = [integers(1500, batch, source), integers(1500, batch, target, seed=2)]
    return classifier(model, optimizer, inputs, integers(1500, batch, target, seed=3))


def teacher_forcing(batch: int = 16, length: int = 20, width: int = 128) -> Case:
    """A cell in a loop by hand: each time sees the true token, or (1 of 4) what it said itself."""
    keras.utils.set_random_seed(1)
    vocabulary = 600
    embedding = layers.Embedding(vocabulary, width)
    cell, head = layers.GRUCell(width), layers.Dense(vocabulary)
    embedding.build((None,))
    cell.build((None, width))
    head.build((None, width))
    weights = [*embedding.weights, *cell.trainable_weights, *head.weights]
    optimizer = keras.optimizers.Nadam(1e-3)
    optimizer.build(weights)

    @tf.function
    def step(tokens: tf.Tensor, own: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            state = tf.zeros([batch, width])
            token = tokens[:, 0]
            losses = tf.TensorArray(tf.float32, length)
            for time in tf.range(length):
                output, state = cell(embedding(token), state)
                logits = head(output)
                truth = tokens[:, time + 1]
                error = tf.nn.sparse_softmax_cross_entropy_with_logits(truth, logits)
                losses = losses.write(time, error)
                said = tf.argmax(logits, -1, output_type=tf.int32)
                token = tf.where(own[:, time], said, truth)
            loss = tf.reduce_mean(losses.stack())
        gradients = tape.gradient(loss, weights)
        optimizer.apply_gradients(zip(gradients, weights))
        return loss

    own = integers(4, batch, length, seed=2) == 0
    return Case(step, (tf.constant(integers(vocabulary, batch, length + 1)), tf.constant(own)))
