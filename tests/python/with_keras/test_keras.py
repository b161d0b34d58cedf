"""Keras: fit is reached, and XLA that Keras turns on by itself is turned off."""

import gc
import warnings

import keras
import lms
import numpy as np
import pytest
import tensorflow as tf
from helpers import make_step


@pytest.fixture
def gpu(monkeypatch):
    """A GPU, as far as Keras can see when it decides about jit_compile="auto"."""
    device = tf.config.PhysicalDevice(name="/physical_device:GPU:0", device_type="GPU")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [device])


def make_model(**compile_options):
    model = keras.Sequential(
        [keras.Input((16,), batch_size=8), keras.layers.Dense(16, "tanh"), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse", **compile_options)
    return model


def fit(model, epochs=1, rows=32):
    x = np.linspace(0, 1, rows * 16, dtype="float32").reshape(rows, 16)
    return model.fit(x, x[:, :1], batch_size=rows // 4, epochs=epochs, verbose=0, shuffle=False)


def test_fit_is_reached():
    lms.enable("50%")
    fit(make_model())
    report = lms.report()
    assert report is not None and report.budget == "50%"
    assert "one_step_on" in report.function or "multi_step" in report.function


def test_fit_gives_the_same_losses():
    def losses():
        keras.utils.set_random_seed(4)
        model = keras.Sequential([keras.Input((16,), batch_size=512)])
        for _ in range(6):
            model.add(keras.layers.Dense(64, "tanh"))
        model.compile("sgd", "mse")
        return fit(model, epochs=2, rows=2048).history["loss"]

    expected = losses()
    with lms.enabled("min"):
        assert losses() == expected
        assert lms.report().status == "rewritten"


def test_auto_is_xla_without_lms(gpu):
    assert make_model().jit_compile is True  # else the tests below test nothing


def test_auto_is_no_xla_with_lms(gpu):
    lms.enable("min")
    model = make_model()
    assert model.jit_compile is False
    lms.disable()
    assert model.jit_compile is True


def test_auto_of_a_model_compiled_before(gpu, monkeypatch):
    asked, function = [], tf.function

    def spy(*args, **options):
        asked.append(options.get("jit_compile"))
        return function(*args, **options)

    model = make_model()
    monkeypatch.setattr(tf, "function", spy)
    model.make_train_function()
    assert True in asked
    first = model.train_function
    asked.clear()
    lms.enable("min")
    assert model.jit_compile is False
    # The training step was made again, without XLA.
    assert model.train_function is not first
    assert asked and True not in asked
    lms.disable()
    assert model.jit_compile is True
    assert True in asked


def test_auto_of_a_model_that_was_never_compiled(gpu):
    lms.enable("min")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    assert model.jit_compile is False


def test_an_explicit_choice_stays(gpu):
    models = [make_model(jit_compile=True), make_model(jit_compile=False), make_model()]
    models[2].jit_compile = False  # by hand, after "auto"
    with lms.enabled("min"):
        assert [model.jit_compile for model in models] == [True, False, False]
        models[2].jit_compile = True
    assert [model.jit_compile for model in models] == [True, False, True]


def test_compiling_again_forgets_the_first_answer(gpu):
    model = make_model()
    model.compile("sgd", "mse", jit_compile=True)
    lms.enable("min")
    assert model.jit_compile is True


def test_enabling_in_a_callback_of_fit(gpu):
    class Enable(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            lms.enable("50%")

    model = make_model()
    model.fit(np.ones((16, 16)), np.ones((16, 1)), batch_size=8, verbose=0, callbacks=[Enable()])
    assert model.jit_compile is False
    assert any(report.budget == "50%" for report in lms.reports())


def test_explicit_xla_in_keras_is_warned_of():
    lms.enable("min")
    with pytest.warns(UserWarning, match="compiled by XLA"):
        fit(make_model(jit_compile=True))


def test_explicit_xla_of_a_model_that_trained_before_is_warned_of():
    gc.collect()  # the models of other tests
    model = make_model(jit_compile=True)
    model.make_train_function()
    with pytest.warns(UserWarning, match=f"{model.name}.*jit_compile=True"):
        lms.enable("min")


def test_explicit_xla_in_a_function_is_warned_of_once(caplog):
    function = tf.function(lambda x: x * 2 + 1, jit_compile=True)
    lms.enable("min")
    with pytest.warns(UserWarning, match="compiled by XLA"):
        function(tf.constant(1.0))
    assert "compiled by XLA" in caplog.text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(tf.constant(2.0))
        make_step(layers=1)[0]()


def test_xla_without_lms_is_nobodys_business():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tf.function(lambda x: x * 2 + 1, jit_compile=True)(tf.constant(1.0))
