"""Steps to plan; those of a batch size are found by their names in other processes, too."""

from __future__ import annotations

import tensorflow as tf

WIDTH, LAYERS = 64, 24  # of dense_step


def dense(batch):
    """A model whose activations outweigh it, and its batch size."""
    model = tf.keras.Sequential([tf.keras.Input((256,))])
    for _ in range(6):
        model.add(tf.keras.layers.Dense(256, activation="tanh"))
    model.compile("sgd", "mse")
    return model, batch


def narrow(batch):
    """A step that takes little, one number a row, and makes rows of 512: what grows with its size
    are its tensors, and next to nothing beside them."""
    rng = tf.random.Generator.from_seed(7)
    sides = [1, *[512] * 8]
    weights = [tf.Variable(rng.normal(shape) / 23.0) for shape in zip(sides, sides[1:])]

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = tf.tanh(tf.matmul(y, weight))
            loss = tf.reduce_mean(y * y)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.1 * gradient)
        return loss

    return step, tf.TensorSpec([batch, 1])


def dense_step(layers=LAYERS):
    """A tf.function (x) that trains a chain of dense layers, by hand."""
    weights = [tf.Variable(tf.zeros([WIDTH, WIDTH])) for _ in range(layers)]

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = tf.tanh(tf.matmul(y, weight))
            loss = tf.reduce_mean(y * y)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.1 * gradient)
        return loss

    return step
