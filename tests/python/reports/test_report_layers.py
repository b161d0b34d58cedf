"""Names that people know in reports, and which layer takes the memory."""

from __future__ import annotations

import gc
from typing import Any

import keras
import lms
import numpy as np
import pytest
import tensorflow as tf
from helpers import make_step, reports_on
from lms._reports.layers import by_layer

layers = keras.layers


def fitted(model: Any, budget: str = "60%") -> lms.Report:
    """The report on the training step of a model with ten classes."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(name="adam"), loss)
    x = np.random.default_rng(0).random((16, 32, 32, 3), dtype="float32")
    with lms.enabled(budget):
        model.fit(x, np.arange(16) % 10, batch_size=8, verbose=0)
        report = lms.report()
    assert report is not None and report.details is not None
    return report


def convolutions(name: str) -> Any:
    return keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(16, 3, padding="same", name="first"),
            layers.ReLU(negative_slope=0.1, name="relu"),
            layers.Conv2D(16, 3, padding="same", activation="gelu", name="second"),
            layers.Conv2D(16, 3, padding="same", activation="gelu", name="third"),
            layers.GlobalAveragePooling2D(name="pool"),
            layers.Dense(10, name="head"),
        ],
        name=name,
    )


def weights_of(report: lms.Report) -> set[str]:
    details = report.details
    assert details is not None
    buffers = details["buffers"]
    return {
        details["strings"][name]
        for name, role in zip(buffers["name"], buffers["role"])
        if details["roles"][role] == "weight"
    }


def test_variables_have_their_own_names() -> None:
    names = weights_of(fitted(convolutions("net")))
    assert {"net/first/kernel", "net/second/bias", "net/head/kernel"} <= names
    assert "adam/net_first_kernel_momentum" in names
    assert not any("unknown" in name for name in names)


def test_variables_of_a_loop_of_ones_own() -> None:
    weights = [tf.Variable(tf.ones([64, 64]), name=name) for name in ("left", "right", "right")]
    batch = tf.ones([512, 64])

    @tf.function
    def two_of_a_name():
        with tf.GradientTape() as tape:
            x = batch
            for weight in weights:
                x = tf.tanh(x @ weight)
            loss = tf.reduce_sum(x)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.01 * gradient)
        return loss

    with lms.enabled("60%"):
        two_of_a_name()
    names = {name.split(" (before")[0] for name in weights_of(reports_on(two_of_a_name)[-1])}
    assert "left" in names
    # Two variables of one name: which is which, the argument tells.
    assert sum(name.startswith("right (matmul_") for name in names) == 2


def test_variables_that_are_gone_have_none() -> None:
    step, weights = make_step()
    with lms.enabled("60%"):
        step()
    report = reports_on(step)[-1]
    del step, weights
    gc.collect()
    names = weights_of(report)
    assert names and all("readvariableop_resource" in name for name in names)


def test_plans_name_variables_too() -> None:
    def model() -> Any:
        made = convolutions("planned")
        made.compile(keras.optimizers.Adam(name="adam"), "sparse_categorical_crossentropy")
        return made

    report = lms.plan(model, 64, device="V100-16GB", memory_budget="60%")
    names = weights_of(report)
    assert {"planned/first/kernel", "adam/planned_first_kernel_momentum"} <= names


def test_layers_add_up_to_the_peak() -> None:
    report = fitted(convolutions("sums"), "min")  # 60% is too little without oneDNN
    details = report.details
    assert details is not None and details["omitted"]["buffers"] == 0
    for found in (report.by_layer(), report.by_layer(1), report.by_layer(2)):
        before, after = details["before"]["bytes"], details["after"]["bytes"]
        assert sum(row.before_bytes for row in found) == before[details["peak_before"]]
        assert sum(row.after_bytes for row in found) == after[details["peak_after"]]
    assert {"sums", "adam", "(inputs)"} <= {row.layer for row in report.by_layer(1)}
    by_name = {row.layer: row for row in report.by_layer()}
    # The ReLU has no weight that could tell its name, which TensorFlow has numbered.
    assert {"sums/first", "sums/relu", "sums/second"} <= by_name.keys()
    assert by_name["sums/first"].weight_bytes == (3 * 3 * 3 * 16 + 16) * 4
    dropped = sum(row.dropped_bytes for row in by_name.values())
    assert dropped > 0 and sum(row.added_us for row in by_name.values()) > 0
    assert "largest layers at the peak" in report.table()
    with pytest.raises(ValueError, match="depth"):
        report.by_layer(0)


def details_of(tensors: dict[str, str]) -> dict[str, Any]:
    """Details of a step that is nothing but its peak: tensors of one byte, by name with role."""
    roles = ["activation", "gradient", "weight", "constant", "argument", "result", "other"]
    count = len(tensors)
    return {
        "strings": [*tensors, "Op"],
        "roles": roles,
        "fates": ["kept"],
        "before": {},
        "after": None,
        "peak_before": 0,
        "peak_after": None,
        "buffers": {
            "name": list(range(count)),
            "type": [count] * count,
            "bytes": [1] * count,
            "role": [roles.index(role) for role in tensors.values()],
            "fate": [0] * count,
            "cost_us": [0.0] * count,
            "before": [[[0, 0]]] * count,
            "after": [[]] * count,
        },
    }


def shares(tensors: dict[str, str]) -> dict[str, int]:
    return {row.layer: row.before_bytes for row in by_layer(details_of(tensors))}


def test_nested_layers() -> None:
    inside = "StatefulPartitionedCall/gpt_1/block_1_1"
    gradients = "StatefulPartitionedCall/gradient_tape/gpt_1/block_1_1"
    assert shares(
        {
            "gpt/block_1/attention/query/kernel": "weight",
            "gpt/block_1/attention/value/kernel": "weight",
            "gpt/block_1/norm/gamma": "weight",
            f"{inside}/attention_1/query_1/einsum/Einsum:0": "activation",
            f"{inside}/attention_1/softmax_1/Softmax:0": "activation",
            f"{gradients}/attention_1/query_1/einsum/Einsum:0": "gradient",
            f"{inside}/add_1/Add:0": "activation",
            "IteratorGetNext:0": "activation",
            "images:0": "argument",
        }
    ) == {
        "gpt/block_1/attention/query": 3,
        "gpt/block_1/attention/value": 1,
        "gpt/block_1/norm": 1,
        "gpt/block_1/attention/softmax": 1,
        "gpt/block_1/add": 1,
        "IteratorGetNext": 1,
        "(inputs)": 1,
    }


def test_layers_that_are_called_without_their_model() -> None:
    # As in keras.applications.
    assert shares(
        {
            "conv1/kernel": "weight",
            "conv2/kernel": "weight",
            "mobilenet_1/conv1_1/convolution/Conv2D:0": "activation",
            "mobilenet_1/conv2_1/convolution/Conv2D:0": "activation",
            "mobilenet_1/relu_7_1/Relu:0": "activation",
        }
    ) == {"conv1": 2, "conv2": 2, "relu_7": 1}


def test_sums_of_gradients_are_one_row() -> None:
    assert shares(
        {
            "conv1/kernel": "weight",
            "StatefulPartitionedCall/AddN_9:0": "gradient",
            "AddN:0": "gradient",
            "AddN_1:0": "activation",
        }
    ) == {"conv1": 1, "(sums of gradients)": 2, "AddN_1": 1}


def test_scopes_where_nothing_is_known_of_layers() -> None:
    assert shares(
        {
            "unknown:0": "weight",
            "encoder/block/MatMul:0": "activation",
            "gradients/encoder/block/MatMul_grad/MatMul:0": "gradient",
            "decoder/MatMul:0": "activation",
            "relu0:0": "activation",
            "gradients/relu0_grad/ReluGrad:0": "gradient",
        }
    ) == {"encoder/block": 1, "encoder/block/MatMul": 1, "decoder": 1, "relu0": 2, "(variables)": 1}


def test_layers_have_the_names_that_keras_gave_them() -> None:
    """conv2d, conv2d_1, …: TensorFlow's number makes a layer look like the next."""
    keras.backend.clear_session()
    inputs = y = keras.Input((32, 32, 3))
    for _ in range(3):
        y = layers.Conv2D(16, 3, padding="same", use_bias=False)(y)
        y = layers.ReLU(negative_slope=0.1)(layers.BatchNormalization()(y))
    # Its gradient reads the last ReLU, which nobody else would hold at a peak.
    y = layers.Conv2D(16, 3, padding="same", name="last")(y)
    model = keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(y)))
    found = {row.layer: row for row in fitted(model, "min").by_layer()}
    named = {layer.name for layer in model.layers}
    other = {"sgd", "adam", "loss", "compile_loss", "ConstantFolding"}
    assert {name for name in found if "(" not in name} - other <= named
    kinds = ("conv2d", "batch_normalization", "re_lu")
    assert {f"{kind}{number}" for kind in kinds for number in ("", "_1", "_2")} <= set(found)
    sizes = [found[name].before_bytes for name in ("conv2d", "conv2d_1", "conv2d_2")]
    assert max(sizes) < 2 * min(sizes)


def test_scopes_of_ones_own_keep_their_numbers() -> None:
    assert shares(
        {
            "dense/kernel": "weight",
            "dense_1/kernel": "weight",
            "dense_2/kernel": "weight",
            "functional_1/dense_1/MatMul:0": "activation",
            "functional_1/dense_1_2/MatMul:0": "activation",
            "functional_1/dense_2_1/MatMul:0": "activation",
            "functional_1/stage_2/Mul:0": "activation",
            "functional_1/re_lu_1/Relu:0": "activation",
            "functional_1/re_lu_1_2/Relu:0": "activation",
        }
    ) == {"dense": 2, "dense_1": 2, "dense_2": 2, "stage_2": 1, "re_lu": 1, "re_lu_1": 1}
    # An earlier Keras enters them once.
    assert shares(
        {
            "dense/kernel": "weight",
            "dense_1/kernel": "weight",
            "functional/dense/MatMul:0": "activation",
            "functional/dense_1/MatMul:0": "activation",
            "functional/re_lu_1/Relu:0": "activation",
        }
    ) == {"dense": 2, "dense_1": 2, "re_lu_1": 1}
