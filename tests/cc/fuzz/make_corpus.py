"""Writes the real steps that the fuzzer corrupts: python tests/cc/fuzz/make_corpus.py

The graphs are those that Grappler leaves of four training steps, as an optimizer at its end gets
them, without what is of no use here (source positions, large constants' values).
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.eager import context

_CORPUS = Path(__file__).parent / "corpus"
_MOST_CONSTANT_BYTES = 256


def _images() -> tuple[tf.keras.Model, tuple[int, ...]]:
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Conv2D(8, 3, padding="same"),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Dropout(0.2),
            layers.Flatten(),
            layers.Dense(4),
        ]
    ), (8, 16, 16, 3)


def _dense() -> tuple[tf.keras.Model, tuple[int, ...]]:
    layers = tf.keras.layers
    return tf.keras.Sequential([layers.Dense(32, activation="gelu"), layers.Dense(4)]), (64, 32)


def _recurrent() -> tuple[tf.keras.Model, tuple[int, ...]]:
    layers = tf.keras.layers
    cell = layers.RNN(layers.LSTMCell(8))
    return tf.keras.Sequential([cell, layers.Dense(4)]), (8, 10, 8)


def _attention() -> tuple[tf.keras.Model, tuple[int, ...]]:
    layers = tf.keras.layers
    inputs = layers.Input((16, 16))
    attended = layers.MultiHeadAttention(2, 8)(inputs, inputs)
    normed = layers.LayerNormalization()(inputs + attended)
    outputs = layers.Dense(4)(layers.GlobalAveragePooling1D()(normed))
    return tf.keras.Model(inputs, outputs), (8, 16, 16)


def _graph_of_step(model: tf.keras.Model, shape: tuple[int, ...]) -> graph_pb2.GraphDef:
    optimizer = tf.keras.optimizers.Adam()
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model(tf.zeros(shape))
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    context.context().enable_run_metadata()
    step(tf.random.normal(shape), tf.zeros([shape[0]], tf.int32))
    metadata = context.context().export_run_metadata()
    context.context().disable_run_metadata()
    graphs = [function.post_optimization_graph for function in metadata.function_graphs]
    return max(graphs, key=lambda graph: len(graph.node))


def _stripped(graph: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    for function in graph.library.function:
        for node in function.node_def:
            node.ClearField("experimental_debug_info")
    for node in graph.node:
        node.ClearField("experimental_debug_info")
        node.ClearField("experimental_type")
        tensor = node.attr["value"].tensor if "value" in node.attr else None
        if tensor is not None and len(tensor.tensor_content) > _MOST_CONSTANT_BYTES:
            tensor.ClearField("tensor_content")
            tensor.float_val.append(0.5)
    return graph


def main() -> None:
    _CORPUS.mkdir(exist_ok=True)
    for make in (_images, _dense, _recurrent, _attention):
        graph = _stripped(_graph_of_step(*make()))
        data = graph.SerializeToString(deterministic=True)
        path = _CORPUS / f"{make.__name__[1:]}.pb"
        path.write_bytes(data)
        print(f"{path.name}: {len(graph.node)} nodes, {len(data)} bytes")


if __name__ == "__main__":
    main()
