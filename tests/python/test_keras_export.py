"""What is saved and exported while lms is on is what stock saves, to the byte, and needs no lms."""

import io
import re
import zipfile
from pathlib import Path

import keras
import lms
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from helpers import make_step, reports_on, run_python
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

ROWS = 1024


def make_model():
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((8,))])
    for _ in range(3):
        model.add(keras.layers.Dense(64, "tanh"))
        model.add(keras.layers.Dropout(0.1))
    model.add(keras.layers.Dense(1))
    model.compile("adam", "mse")
    return model


def data():
    rng = np.random.default_rng(5)
    return rng.normal(size=(ROWS, 8)).astype("float32"), np.ones((ROWS, 1), "float32")


class Module(tf.Module):
    """A training step and a prediction that are saved as functions."""

    def __init__(self):
        super().__init__()
        rng = tf.random.Generator.from_seed(7)
        self.layers = [tf.Variable(rng.normal([64, 64]) / 8, name=f"w{i}") for i in range(6)]

    @tf.function(input_signature=[tf.TensorSpec([1024, 64])])
    def predict(self, x):
        for layer in self.layers:
            x = tf.tanh(tf.matmul(x, layer))
        return x

    @tf.function(input_signature=[tf.TensorSpec([1024, 64])])
    def train(self, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.predict(x) ** 2)
        for layer, slope in zip(self.layers, tape.gradient(loss, self.layers)):
            layer.assign_sub(0.1 * slope)
        return loss


def save_all(directory, budget):
    """Trains, then saves in each way. Run in a child process: names count up in a process."""
    directory = Path(directory)
    if budget:
        lms.enable(budget)
    model = make_model()
    model.fit(*data(), batch_size=ROWS // 2, verbose=0, shuffle=False)
    model.export(str(directory / "export"), verbose=False)
    model.save(directory / "model.keras")
    model.save_weights(directory / "weights.weights.h5")
    module = Module()
    for _ in range(2):
        module.train(tf.ones([1024, 64]))
    tf.saved_model.save(module, str(directory / "module"))
    print("rewritten:", sum(report.status == "rewritten" for report in lms.reports()))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    here = Path(__file__).parent
    found = {}
    for name, budget in (("stock", ""), ("lms", "60%")):
        directory = tmp_path_factory.mktemp(name)
        code = f"import sys; sys.path.insert(0, {str(here)!r}); import test_keras_export as t; "
        status, output = run_python(code + f"t.save_all({str(directory)!r}, {budget!r})")
        assert status == 0, output
        found[name] = (directory, output)
    assert "rewritten: 2" in found["lms"][1], found["lms"][1]
    return {name: directory for name, (directory, _) in found.items()}


def graph_of(directory):
    """The graph and the functions of a SavedModel, byte by byte but for the numbers of functions.

    TensorFlow counts all graphs that a process builds, shape inference of lms among them.
    """
    proto = SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    (graph,) = proto.meta_graphs
    numbers = {}
    text = re.sub(
        r"(__(?:inference|forward|backward)_\w*?_)(\d+)\b",
        lambda m: m[1] + str(numbers.setdefault(m[2], len(numbers))),
        text_format.MessageToString(graph.graph_def),
    )
    return text


@pytest.mark.parametrize("way", ["export", "module"])
def test_graphs_are_the_same_to_the_byte(saved, way):
    stock, ours = (graph_of(saved[name] / way) for name in ("stock", "lms"))
    assert stock == ours
    assert stock.count("library {") == 1 and stock.count("function {") > 3


@pytest.mark.parametrize("way", ["export", "module"])
def test_nothing_of_lms_is_in_them(saved, way):
    for path in (saved["lms"] / way).rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"LmsOptimizer" not in content and b"lms/" not in content, path


def test_variables_and_archives_hold_the_same(saved):
    h5py = pytest.importorskip("h5py")  # Keras itself needs it

    def contents(file):
        found = {}

        def note(name, item):
            if isinstance(item, h5py.Dataset):
                found[name] = np.array(item).tobytes()

        with h5py.File(file) as opened:
            opened.visititems(note)
        return found

    def values(directory):
        with zipfile.ZipFile(directory / "model.keras") as archive:
            config = archive.read("config.json")
            weights = contents(io.BytesIO(archive.read("model.weights.h5")))
        assert len(weights) > 20
        return config, weights, contents(directory / "weights.weights.h5")

    assert values(saved["stock"]) == values(saved["lms"])


def test_they_serve_where_there_is_no_lms(saved, tmp_path):
    code = (
        "import sys, tensorflow as tf; "
        f"x = tf.constant({data()[0][:4].tolist()!r}); "
        f"model = tf.saved_model.load({str(saved['lms'] / 'export')!r}); "
        "served = model.serve(x); "
        f"module = tf.saved_model.load({str(saved['lms'] / 'module')!r}); "
        "module.train(tf.ones([1024, 64])); "
        "assert not any(name.split('.')[0] == 'lms' for name in sys.modules); "
        "print('served', served.numpy().tobytes().hex())"
    )
    status, output = run_python(code, tmp_path)
    assert status == 0, output
    model = keras.models.load_model(saved["stock"] / "model.keras")
    expected = model(data()[0][:4], training=False).numpy()
    served = np.frombuffer(bytes.fromhex(output.split("served ")[1].split()[0]), "float32")
    np.testing.assert_allclose(served.reshape(-1, 1), expected, rtol=1e-5, atol=1e-6)


def test_functions_of_a_saved_model_are_tuned_under_lms(saved):
    """Loaded, its training step is rewritten like any other, and computes the same."""

    def losses():
        module = tf.saved_model.load(str(saved["stock"] / "module"))
        x = tf.random.Generator.from_seed(3).normal([1024, 64])
        seen = [module.train(x).numpy() for _ in range(3)]
        return seen + [layer.numpy().tobytes() for layer in module.layers]

    expected = losses()
    lms.enable("60%")
    assert losses() == expected
    statuses = [report.status for report in lms.reports()]
    assert "rewritten" in statuses and "failed" not in statuses


def test_saving_between_steps_changes_neither(tmp_path):
    """Saved in the middle of training, with lms on: the plan stays, and the file is clean."""
    function, weights = make_step()
    lms.enable("60%")
    function()
    module = tf.Module()
    module.step, module.weights = function, weights
    tf.saved_model.save(module, str(tmp_path / "saved"))
    function()
    assert [report.status for report in reports_on(function)].count("rewritten") == 1
    assert b"LmsOptimizer" not in (tmp_path / "saved" / "saved_model.pb").read_bytes()
