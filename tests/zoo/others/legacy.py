"""Libraries that want Keras 2 under the name of tf.keras (TF_USE_LEGACY_KERAS=1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from zoo.case import floats, integers
from zoo.others.training import Training, dataset, fitted

layers = tf_keras.layers
_FROM_LOGITS = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def spektral_gcn_batches() -> Training:
    """spektral: graphs padded to one size in batches, convolution and pooling."""
    from spektral.layers import GCNConv, GlobalSumPool

    tf_keras.utils.set_random_seed(141)
    x, a = tf_keras.Input((60, 16)), tf_keras.Input((60, 60))
    y = GCNConv(64, activation="relu")([x, a])
    y = GCNConv(64, activation="relu")([y, a])
    model = tf_keras.Model([x, a], layers.Dense(3)(GlobalSumPool()(y)))
    model.compile("adam", _FROM_LOGITS)
    edges = (floats(550, 60, 60) > 1).astype("float32")
    inputs = [floats(550, 60, 16), edges / (1 + edges.sum(-1, keepdims=True))]
    return fitted(tf_keras, model, inputs, integers(3, 550), batch_size=64)


def recommenders_retrieval() -> Training:
    """tensorflow-recommenders: two towers and its retrieval task; Adagrad."""
    import tensorflow_recommenders as tfrs

    tf_keras.utils.set_random_seed(142)

    class Retrieval(tfrs.Model):
        def __init__(self) -> None:
            super().__init__()
            self.users = tf_keras.Sequential([layers.Embedding(3000, 64), layers.Dense(64)])
            self.films = tf_keras.Sequential([layers.Embedding(2000, 64), layers.Dense(64)])
            self.task = tfrs.tasks.Retrieval(remove_accidental_hits=True)

        def compute_loss(self, features: Any, training: bool = False) -> Any:
            users, films = self.users(features["user"]), self.films(features["film"])
            return self.task(users, films, candidate_ids=features["film"], compute_metrics=False)

    model = Retrieval()
    model.compile(tf_keras.optimizers.Adagrad(0.1))
    columns = {"user": integers(3000, 8600), "film": integers(2000, 8600, seed=2)}
    return fitted(tf_keras, model, tf.data.Dataset.from_tensor_slices(columns).batch(1024))


def recommenders_cross() -> Training:
    """tensorflow-recommenders: its cross layers, ranking with a regression."""
    import tensorflow_recommenders as tfrs

    tf_keras.utils.set_random_seed(143)
    inputs = tf_keras.Input((24,), dtype="int32")
    x0 = x = layers.Flatten()(layers.Embedding(2000, 16)(inputs))
    for _ in range(3):
        x = tfrs.layers.dcn.Cross(projection_dim=64)(x0, x)
    x = layers.Dense(192, "relu")(x)
    model = tf_keras.Model(inputs, layers.Dense(1)(x))
    model.compile("adam", "mse")
    return fitted(tf_keras, model, integers(2000, 2150, 24), floats(2150, 1), batch_size=256)


def larq_binary() -> Training:
    """larq: binarised convolutions, straight-through signs, batch norm without scale."""
    import larq as lq

    tf_keras.utils.set_random_seed(144)
    ways = {
        "input_quantizer": "ste_sign",
        "kernel_quantizer": "ste_sign",
        "kernel_constraint": "weight_clip",
    }
    model = tf_keras.Sequential([tf_keras.Input((32, 32, 3))])
    first = {name: way for name, way in ways.items() if name != "input_quantizer"}
    model.add(lq.layers.QuantConv2D(32, 3, use_bias=False, **first))
    model.add(layers.BatchNormalization(scale=False))
    for width in (64, 64):
        model.add(lq.layers.QuantConv2D(width, 3, use_bias=False, **ways))
        model.add(layers.MaxPooling2D())
        model.add(layers.BatchNormalization(scale=False))
    model.add(layers.Flatten())
    model.add(lq.layers.QuantDense(10, use_bias=False, **ways))
    model.compile("adam", _FROM_LOGITS)
    return fitted(tf_keras, model, floats(136, 32, 32, 3), integers(10, 136), batch_size=16)


def lattice_monotonic() -> Training:
    """tensorflow-lattice: calibrated columns and a lattice with constraints on its weights."""
    import tensorflow_lattice as tfl

    tf_keras.utils.set_random_seed(146)
    inputs = [tf_keras.Input((1,)) for _ in range(6)]
    points = np.linspace(-2, 2, 20)
    calibrated = [
        tfl.layers.PWLCalibration(
            points, output_min=0.0, output_max=1.0, monotonicity="increasing"
        )(x)
        for x in inputs
    ]
    out = tfl.layers.Lattice([2] * 6, monotonicities=["increasing"] * 6)(calibrated)
    model = tf_keras.Model(inputs, out)
    model.compile(tf_keras.optimizers.Adagrad(0.1), "mse")
    x = [floats(17000, 1, seed=n) for n in range(6)]
    return fitted(tf_keras, model, x, sum(x), batch_size=2048)


def ncps_closed_form() -> Training:
    """ncps: closed-form continuous-time cells in an RNN over padded series."""
    from ncps.tf import CfC

    tf_keras.utils.set_random_seed(147)
    inputs = tf_keras.Input((48, 12))
    x = CfC(64, return_sequences=True)(inputs)
    model = tf_keras.Model(inputs, layers.Dense(1)(x))
    model.compile(tf_keras.optimizers.Adam(0.005), "mse")
    return fitted(tf_keras, model, dataset(floats(550, 48, 12), floats(550, 48, 1), batch=64))


def kecam_efficientformer() -> Training:
    """keras-cv-attention-models: an EfficientFormer with gathered biases and drop path."""
    from keras_cv_attention_models import efficientformer

    tf_keras.utils.set_random_seed(148)
    model = efficientformer.EfficientFormer(
        num_blocks=[1, 1, 1, 2], out_channels=[24, 32, 48, 64],
        num_attn_blocks_each_stack=[0, 0, 0, 1], input_shape=(64, 64, 3), num_classes=10,
        drop_connect_rate=0.1, pretrained=None, use_distillation=False, classifier_activation=None,
    )  # fmt: skip
    model.compile(tf_keras.optimizers.AdamW(1e-3), _FROM_LOGITS)
    return fitted(tf_keras, model, dataset(floats(68, 64, 64, 3), integers(10, 68), batch=8))


def kecam_coat() -> Training:
    """keras-cv-attention-models: CoAtNet, convolutions and relative attention."""
    from keras_cv_attention_models import coatnet

    tf_keras.utils.set_random_seed(149)
    model = coatnet.CoAtNet(
        num_blocks=[1, 1, 1, 1], out_channels=[32, 32, 64, 64], stem_width=32,
        input_shape=(64, 64, 3), num_classes=10, pretrained=None, classifier_activation=None,
    )  # fmt: skip
    model.compile(tf_keras.optimizers.AdamW(1e-3), _FROM_LOGITS)
    return fitted(tf_keras, model, dataset(floats(68, 64, 64, 3), integers(10, 68), batch=8))


def nbeats_forecast() -> Training:
    """nbeats-keras: stacks of basis expansions, backcast and forecast."""
    from nbeats_keras.model import NBeatsNet

    tf_keras.utils.set_random_seed(150)
    net = NBeatsNet(
        backcast_length=60, forecast_length=12, hidden_layer_units=256,
        stack_types=(NBeatsNet.GENERIC_BLOCK, NBeatsNet.TREND_BLOCK), nb_blocks_per_stack=3,
        thetas_dim=(8, 4),
    )  # fmt: skip
    forecast = net.models[NBeatsNet._FORECAST]
    forecast.compile(tf_keras.optimizers.Adam(1e-4), "mae")
    return fitted(tf_keras, forecast, floats(4300, 60, 1), floats(4300, 12, 1), batch_size=512)


def attention_over_lstm() -> Training:
    """attention: its layer over the states of an LSTM; arrays."""
    from attention import Attention

    tf_keras.utils.set_random_seed(153)
    inputs = tf_keras.Input((60, 6))
    x = Attention(units=48)(layers.LSTM(64, return_sequences=True)(inputs))
    model = tf_keras.Model(inputs, layers.Dense(1)(x))
    model.compile("adam", "mae")
    return fitted(tf_keras, model, floats(550, 60, 6), floats(550, 1), batch_size=64)
