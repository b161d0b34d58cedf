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
from forked import run_forked
from google.protobuf import text_format
from helpers import make_step, reports_on, run_python
from keras_forms import start_anew
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

ROWS = 1024


def make_model():
    start_anew()
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


def save(model, module, directory):
    model.export(str(directory / "export"))
    model.save(directory / "model.keras")
    tf.saved_model.save(module, str(directory / "module"))


def train_and_save(directory):
    """Trains under lms, saves while it is on, then while it is off. Run in a child process."""
    directory = Path(directory)
    lms.enable("60%")
    model, module = make_model(), Module()
    model.fit(*data(), batch_size=ROWS // 2, verbose=0, shuffle=False)
    for _ in range(2):
        module.train(tf.ones([1024, 64]))
    print("rewritten:", sum(report.status == "rewritten" for report in lms.reports()))
    save(model, module, directory / "lms")
    lms.disable()
    save(model, module, directory / "stock")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved")
    for name in ("stock", "lms"):
        (directory / name).mkdir()
    code = f"import test_keras_export as t; t.train_and_save({str(directory)!r})"
    status, output = run_forked(code)
    assert status == 0 and "rewritten: 2" in output, output
    return {name: directory / name for name in ("stock", "lms")}


def parts_of(directory):
    """The nodes and functions of a SavedModel as text, but for the numbers of functions.

    TensorFlow counts all graphs that a process builds: no two saves have the same numbers.
    """
    proto = SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    (meta,) = proto.meta_graphs
    graph, texts = meta.graph_def, []
    for part in [*graph.node, *graph.library.function]:
        text = text_format.MessageToString(part)
        text = re.sub(r"(__(?:inference|forward|backward)_\w*?_)\d+\b", r"\1N", text)
        texts.append(re.sub(r's: "\d+"', 's: "N"', text))
    return sorted(texts)


@pytest.mark.parametrize("way", ["export", "module"])
def test_graphs_are_the_same_to_the_byte(saved, way):
    stock, ours = (parts_of(saved[name] / way) for name in ("stock", "lms"))
    assert len(stock) > 20
    assert stock == ours


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
        return re.sub(rb'"shared_object_id": \d+', b"", config), weights

    assert values(saved["stock"]) == values(saved["lms"])


@pytest.mark.slow
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
