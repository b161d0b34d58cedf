"""Whole programs in the style of Keras' own examples: with lms as without, in less memory."""

import keras
import keras_forms
import numpy as np
import pytest
import tensorflow as tf
from keras_forms import BATCH, INPUT, WIDTH, dense, fit

layers = keras.layers
pytestmark = pytest.mark.slow


def stack(inputs, outputs, depth=5, activation="leaky_relu"):
    sizes = [layers.Dense(WIDTH, activation) for _ in range(depth)]
    return keras.Sequential(
        [keras.Input((inputs,), batch_size=BATCH), *sizes, layers.Dense(outputs)]
    )


class Gan(keras.Model):
    """Two models, two optimizers and two tapes in one train_step."""

    def __init__(self):
        super().__init__()
        self.discriminator, self.generator = stack(INPUT, 1), stack(16, INPUT)
        self.seeds = keras.random.SeedGenerator(7)
        self.d_loss, self.g_loss = keras.metrics.Mean("d"), keras.metrics.Mean("g")

    def compile(self, d_optimizer, g_optimizer, loss):
        super().compile()
        self.d_optimizer, self.g_optimizer, self.loss_fn = d_optimizer, g_optimizer, loss

    @property
    def metrics(self):
        return [self.d_loss, self.g_loss]

    def train_step(self, real):
        noise = keras.random.normal((BATCH, 16), seed=self.seeds)
        both = tf.concat([self.generator(noise), real], 0)
        labels = tf.concat([tf.ones((BATCH, 1)), tf.zeros((BATCH, 1))], 0)
        labels += 0.05 * keras.random.uniform((2 * BATCH, 1), seed=self.seeds)
        with tf.GradientTape() as tape:
            d_loss = self.loss_fn(labels, self.discriminator(both))
        weights = self.discriminator.trainable_weights
        self.d_optimizer.apply_gradients(zip(tape.gradient(d_loss, weights), weights))
        noise = keras.random.normal((BATCH, 16), seed=self.seeds)
        with tf.GradientTape() as tape:
            made = self.discriminator(self.generator(noise))
            g_loss = self.loss_fn(tf.zeros((BATCH, 1)), made)
        weights = self.generator.trainable_weights
        self.g_optimizer.apply_gradients(zip(tape.gradient(g_loss, weights), weights))
        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        return {"d": self.d_loss.result(), "g": self.g_loss.result()}


def gan():
    model = Gan()
    model.compile(
        keras.optimizers.Adam(1e-3),
        keras.optimizers.RMSprop(1e-3),
        keras.losses.BinaryCrossentropy(from_logits=True),
    )
    return fit(model, keras_forms.data()[0])


class Sampling(layers.Layer):
    def __init__(self):
        super().__init__()
        self.seeds = keras.random.SeedGenerator(3)

    def call(self, mean, log_variance):
        self.add_loss(
            -0.5
            * keras.ops.mean(
                1 + log_variance - keras.ops.square(mean) - keras.ops.exp(log_variance)
            )
        )
        noise = keras.random.normal(keras.ops.shape(mean), seed=self.seeds)
        return mean + keras.ops.exp(0.5 * log_variance) * noise


def vae():
    x = keras.Input((INPUT,), batch_size=BATCH)
    y = x
    for _ in range(3):
        y = layers.Dense(WIDTH, "relu")(y)
    y = Sampling()(layers.Dense(16)(y), layers.Dense(16)(y))
    for _ in range(3):
        y = layers.Dense(WIDTH, "relu")(y)
    model = keras.Model(x, layers.Dense(INPUT)(y))
    model.compile("adam", "mse")
    rows = keras_forms.data()[0]
    return fit(model, rows, rows)


def transfer_learning():
    """A network of keras.applications: first its new head alone, then all of it, gently."""
    base = keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, include_top=False, weights=None)
    base = keras.Model(base.input, base.get_layer("block_3_expand_relu").output)
    base.trainable = False
    x = keras.Input((32, 32, 3), batch_size=16)
    y = layers.RandomFlip("horizontal")(x)
    y = keras.applications.mobilenet_v2.preprocess_input(y * 255.0)
    y = layers.GlobalAveragePooling2D()(base(y, training=False))
    model = keras.Model(x, layers.Dense(4)(layers.Dropout(0.2)(y)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    images, labels = keras_forms.data(32, 32, 3, rows=32)
    labels = (np.abs(labels[:, 0] * 3) % 4).astype("int32")
    model.compile(keras.optimizers.Adam(1e-3), loss)
    values = fit(model, images, labels, batch_size=16)
    base.trainable = True
    model.compile(keras.optimizers.Adam(1e-5), loss)
    return values + fit(model, images, labels, batch_size=16)


def a_loop_of_ones_own():
    """keras.ops in a tf.function, with Keras' optimizer, loss and metric."""
    model, optimizer = dense(), keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    metric = keras.metrics.MeanSquaredError()
    x, y = map(keras.ops.convert_to_tensor, keras_forms.data(rows=BATCH))

    @tf.function
    def own_step(x, y):
        with tf.GradientTape() as tape:
            guess = model(x, training=True)
            loss = keras.ops.mean(keras.ops.logaddexp(guess - y, y - guess))
            loss += keras.ops.sum(model.losses)
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)
        metric.update_state(y, guess)
        return loss, metric.result()

    model.optimizer = optimizer
    return keras_forms.loop(own_step, x, y) + keras_forms.state(model)


def predictions():
    """evaluate and predict: nothing waits for a backward pass."""
    model = keras.Sequential([keras.Input((INPUT,), batch_size=BATCH)])
    for _ in range(4):
        model.add(layers.Dense(WIDTH, "tanh"))
        model.add(layers.Dropout(0.5))
        model.add(layers.BatchNormalization())
    model.add(layers.Dense(1))
    model.compile("sgd", "mse", metrics=["mae"])
    x, y = keras_forms.data()
    scores = model.evaluate(x, y, batch_size=BATCH, verbose=0)
    guesses = model.predict(x, batch_size=BATCH, verbose=0)
    return [np.array(scores), guesses, model.predict_on_batch(x[:BATCH]), *keras_forms.state(model)]


def wide_predictions():
    """Branches that are held for the end of the forward pass: there is something to order."""
    x = keras.Input((INPUT,), batch_size=BATCH)
    branches = [layers.Dense(WIDTH, "tanh")(x) for _ in range(12)]
    thin = [layers.Dense(2, "tanh")(keras.ops.exp(branch)) for branch in branches]
    model = keras.Model(x, layers.Dense(1)(layers.Concatenate()(thin)))
    rows = keras_forms.data()[0]
    return [model.predict(rows, batch_size=BATCH, verbose=0)]


REWRITTEN = {form.__name__: form for form in (gan, vae, transfer_learning, a_loop_of_ones_own)}
INFERENCE = {form.__name__: form for form in (predictions, wide_predictions)}
FORMS = {**REWRITTEN, **INFERENCE}
results = keras_forms.results(__name__)


@pytest.mark.parametrize("name", REWRITTEN)
def test_rewritten_and_the_same(results, name):
    keras_forms.assert_rewritten(results[name])


@pytest.mark.parametrize("name", ["predictions"])
def test_inference_has_nothing_to_recompute(results, name):
    """A chain holds two activations at a time: less cannot be had, and nothing is changed."""
    found = results[name]
    keras_forms.assert_same(found)
    assert {status for _, status, _ in found["all"]} == {"skipped", "infeasible"}, found


@pytest.mark.parametrize("name", ["wide_predictions"])
def test_inference_in_another_order(results, name):
    """Branches need not be there all at once. No activation is taken to wait for a gradient."""
    found = results[name]
    keras_forms.assert_same(found)
    assert found["status"] == "rewritten" and found["kinds"] == ["order"], found
    assert found["peak"] <= found["budget"], found
