"""Layers of Keras that have state, random numbers or gradients of their own."""

import keras
import keras_forms
import numpy as np
import pytest
from keras_forms import BATCH, STEPS, WIDTH, fit
from quick import quick_ones

layers = keras.layers
IMAGES = 32  # a batch


def chain(between, depth=5):
    """Dense layers with one of `between` after each."""

    def train():
        model = keras.Sequential([keras.Input((keras_forms.INPUT,), batch_size=BATCH)])
        for number in range(depth):
            model.add(layers.Dense(WIDTH, "tanh"))
            model.add(between[number % len(between)]())
        model.add(layers.Dense(1))
        model.compile("sgd", "mse")
        return fit(model, *keras_forms.data())

    return train


def images(*first, between=(), depth=4, side=16):
    """Convolutions over small images, behind the layers `first`."""

    def train():
        model = keras.Sequential([keras.Input((side, side, 3), batch_size=IMAGES)])
        for make in first:
            model.add(make())
        for number in range(depth):
            model.add(layers.Conv2D(8, 3, padding="same", activation="relu"))
            if between:
                model.add(between[number % len(between)]())
        model.add(layers.GlobalAveragePooling2D())
        model.add(layers.Dense(1))
        model.compile("sgd", "mse")
        x, y = keras_forms.data(side, side, 3, rows=STEPS * IMAGES)
        return fit(model, np.clip(x / 4 + 0.5, 0, 1), y, batch_size=IMAGES)

    return train


NOISE = {
    "dropout": chain([lambda: layers.Dropout(0.3)]),
    "noise": chain(
        [
            lambda: layers.GaussianNoise(0.1),
            lambda: layers.GaussianDropout(0.2),
            lambda: layers.AlphaDropout(0.2),
        ]
    ),
    "spatial_dropout": images(between=[lambda: layers.SpatialDropout2D(0.3)]),
    "augmentation": images(
        lambda: layers.RandomFlip(),
        lambda: layers.RandomRotation(0.2),
        lambda: layers.RandomTranslation(0.1, 0.1),
        lambda: layers.RandomZoom(0.2),
        lambda: layers.RandomContrast(0.3, value_range=(0, 1)),
        lambda: layers.RandomBrightness(0.2, value_range=(0, 1)),
        lambda: layers.RandomCrop(12, 12),
    ),
}
NORMS = {
    "batch_norm": images(between=[lambda: layers.BatchNormalization(momentum=0.5)]),
    "batch_norm_of_rows": chain([lambda: layers.BatchNormalization(momentum=0.9)]),
    "layer_and_group_norm": images(
        between=[layers.LayerNormalization, lambda: layers.GroupNormalization(4)]
    ),
    "unit_norm": chain([layers.UnitNormalization]),
    "spectral_norm": chain(
        [lambda: layers.SpectralNormalization(layers.Dense(WIDTH), power_iterations=2)]
    ),
    "normalization": images(lambda: layers.Normalization(mean=0.5, variance=0.2)),
    "rescaling": images(lambda: layers.Rescaling(2.0, -1.0), lambda: layers.Resizing(12, 12)),
}
SHAPES = {
    "depthwise": images(
        between=[lambda: layers.DepthwiseConv2D(3, padding="same"), lambda: layers.PReLU()]
    ),
    "separable": images(between=[lambda: layers.SeparableConv2D(8, 3, padding="same")]),
    "up_and_down": images(
        between=[
            lambda: layers.MaxPooling2D(2),
            lambda: layers.UpSampling2D(2, interpolation="bilinear"),
            lambda: layers.AveragePooling2D(2),
            lambda: layers.Conv2DTranspose(8, 3, strides=2, padding="same"),
        ]
    ),
    "cropping_and_padding": images(
        between=[lambda: layers.ZeroPadding2D(1), lambda: layers.Cropping2D(1)]
    ),
    "lambdas": chain([lambda: layers.Lambda(lambda x: keras.ops.flip(x, 1) * 0.5)]),
    "einsum": chain([lambda: layers.EinsumDense("ab,bc->ac", WIDTH, activation="relu")]),
    "activations": chain(
        [
            lambda: layers.LeakyReLU(0.2),
            lambda: layers.ELU(),
            lambda: layers.Activation("mish"),
            lambda: layers.Activation("softplus"),
            lambda: layers.Softmax(),
        ]
    ),
}
FORMS = {**NOISE, **NORMS, **SHAPES}
results = keras_forms.results(__name__)


QUICK = ("dropout", "batch_norm", "layer_and_group_norm", "depthwise", "up_and_down", "activations")


@pytest.mark.parametrize("name", quick_ones(FORMS, *QUICK))
def test_rewritten_and_the_same(results, name):
    keras_forms.assert_rewritten(results[name])
