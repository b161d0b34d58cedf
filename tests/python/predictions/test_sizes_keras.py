"""Dimensions of what Keras hands to its steps: model.fit() needs no hint."""

import types
import warnings

import keras
import lms
import numpy as np
import pytest
import tensorflow as tf
from lms._tf import keras_data as _keras_data


def make_model(width=64, layers=6):
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((width,))])
    for _ in range(layers):
        model.add(keras.layers.Dense(width, "tanh"))
    model.compile("sgd", "mse")
    return model


def planned():
    return [report for report in lms.reports() if report.status in ("rewritten", "infeasible")]


def data(count=1200, width=64):
    x = np.random.default_rng(5).normal(size=(count, width)).astype("float32")
    return x, x[:, ::-1].copy()


def test_fit_with_arrays_needs_no_hint(no_warning):
    x, y = data()
    stock = make_model().fit(x, y, batch_size=512, epochs=2, verbose=0).history["loss"]
    lms.enable("60%")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The last of three batches has 176 rows.
        history = make_model().fit(x, y, batch_size=512, epochs=2, verbose=0).history["loss"]
    assert history == stock
    report = lms.report()
    assert report.status == "rewritten"
    assert len(planned()) == 1
    assert set(report.sizes) == {
        "iterator[0]:0 = 512 (Keras batch_size)",
        "iterator[1]:0 = 512 (Keras batch_size)",
    }


def test_fit_with_fewer_rows_than_a_batch(no_warning):
    x, y = data(300)
    lms.enable("60%")
    make_model().fit(x, y, batch_size=512, verbose=0)
    assert lms.report().sizes[0] == "iterator[0]:0 = 300 (Keras batch_size)"


@pytest.mark.parametrize("drop", [True, False])
def test_fit_with_a_dataset_needs_no_hint(no_warning, drop):
    x, y = data()
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(512, drop_remainder=drop)
    lms.enable("60%")
    make_model().fit(dataset.prefetch(1), epochs=2, verbose=0)
    assert lms.report().status == "rewritten"
    assert lms.report().sizes[:1] == (() if drop else ("iterator[0]:0 = 512 (dataset)",))


def test_evaluate_predict_and_validation(no_warning):
    x, y = data()
    model = make_model()
    lms.enable("60%")
    model.fit(x, y, batch_size=512, verbose=0, validation_data=(x, y), validation_batch_size=500)
    model.evaluate(x, y, batch_size=256, verbose=0)
    # Its function takes the batch. Only the trace for the last, smaller one is open.
    model.predict(x, batch_size=128, verbose=0)
    sizes = [report.sizes for report in lms.reports() if report.sizes]
    found = {text.split(" = ")[1] for entry in sizes for text in entry}
    assert {"512 (Keras batch_size)", "500 (Keras batch_size)"} <= found
    assert "48 (first call)" in found


def test_several_steps_in_one_call(no_warning):
    x, y = data(2000)
    model = make_model()
    model.compile("sgd", "mse", steps_per_execution=2)
    lms.enable("1GiB")
    model.fit(x, y, batch_size=512, verbose=0)
    sizes = {text for report in lms.reports() for text in report.sizes}
    assert "iterator[0]:0 = 512 (Keras batch_size)" in sizes


def test_generators_and_py_datasets(no_warning):
    x, y = data(256)

    def generate():
        while True:
            yield x[:100], y[:100]
            yield x[:80], y[:80]

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return x[: 60 - index], y[: 60 - index]

    lms.enable("1GiB")
    make_model().fit(generate(), steps_per_epoch=2, verbose=0)
    make_model().fit(Batches(), verbose=0)
    found = {text for report in lms.reports() for text in report.sizes}
    assert "iterator[0]:0 = 100 (first batches of the Keras input)" in found
    assert "iterator[0]:0 = 60 (first batches of the Keras input)" in found


def test_the_generators_of_keras_3_0():
    """Their adapter keeps the first batch: nothing else there has its size."""
    x, y = data(100)
    adapter = types.SimpleNamespace(_first_batch=(x, y), batch_size=None)
    dataset = tf.data.Dataset.from_tensors((x, y))
    _keras_data._tag(dataset, adapter)
    assert dataset._lms_sizes == ([[100, 64], [100, 64]], "first batches of the Keras input")


def test_two_fits_with_other_batch_sizes(no_warning):
    x, y = data(1000)
    model = make_model()
    lms.enable("60%", replan=False)
    for size in (256, 64, 512):
        model.fit(x, y, batch_size=size, verbose=0)
    found = [r.sizes[0] for r in lms.reports() if r.sizes and r.status == "rewritten"]
    assert found == [
        "iterator[0]:0 = 256 (Keras batch_size)",
        "iterator[0]:0 = 512 (Keras batch_size)",
    ]
