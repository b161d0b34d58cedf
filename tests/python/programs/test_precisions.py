"""Layers that TensorFlow fuses before lms comes, in every precision: no step is declined."""

import os
import subprocess
import sys

import forms
import keras
import pytest
import tensorflow as tf
from helpers import ONEDNN

PRECISIONS = ["float32", "float64", "mixed_float16", "mixed_bfloat16", "float16", "bfloat16"]


def convolutions():
    yield keras.layers.Conv2D(8, 3, padding="same", activation="relu")
    yield keras.layers.DepthwiseConv2D(3, padding="same", activation="relu6")
    yield keras.layers.Conv2D(8, 1, use_bias=False)
    yield keras.layers.BatchNormalization()
    yield keras.layers.ReLU()
    yield keras.layers.ZeroPadding2D(1)
    yield keras.layers.Conv2D(8, 3, activation="elu")
    yield keras.layers.Flatten()
    yield keras.layers.Dense(16, "gelu")
    yield keras.layers.Dense(4, "leaky_relu", dtype="float32")


def volumes():
    yield keras.layers.Reshape((4, 8, 8, 3))
    yield keras.layers.Conv3D(8, 3, padding="same", activation="relu")
    yield keras.layers.Conv3D(8, 3, padding="same", activation="relu")
    yield keras.layers.Flatten()
    yield keras.layers.Dense(4, "sigmoid", dtype="float32")


def step_of(layers, precision):
    before = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy(precision)
    try:
        model = keras.Sequential([keras.Input((16, 16, 3), dtype="float32"), *layers()])
    finally:
        keras.mixed_precision.set_dtype_policy(before)
    variables = [variable.value for variable in model.trainable_variables]

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.cast(model(x, training=True), tf.float32) ** 2)
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(tf.cast(0.1, variable.dtype) * gradient)
        return loss

    return step


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("layers", [convolutions, volumes])
def test_no_step_is_declined(layers, precision):
    x = tf.random.Generator.from_seed(8).normal([16, 16, 16, 3])
    _, _, report = forms.compare(step_of(layers, precision), x)
    assert report.status in ("rewritten", "fits"), str(report)


@pytest.mark.slow
def test_no_step_is_declined_with_the_other_kernels():
    """oneDNN is switched on or off once for a process: there the other way."""
    if os.environ.get("TEST_ONEDNN_SWITCHED") == "1":
        pytest.skip("this is the other process")
    value = "0" if ONEDNN else "1"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", __file__],
        env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": value, "TEST_ONEDNN_SWITCHED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
