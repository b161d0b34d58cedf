"""lms.keras: one fit under a budget, its peaks in the logs, its report, TensorBoard's events."""

from __future__ import annotations

import csv
import gc
import json
import logging
import struct

import keras
import lms
import lms.keras
import numpy as np
import pytest
import tensorflow as tf
from keras_forms import BATCH, data, dense
from lms import _native
from lms._base import failure as _failure
from lms._base.format import format_bytes
from lms._control import switch as _switch
from tensorflow.core.util import event_pb2
from test_keras_xla import gpu  # noqa: F401 (a fixture)

STEPS = 4
DEPTH = 24  # of a model beside whose peak a tile more or less counts for little
TILE = BATCH * 64 * 4  # bytes of an activation


@pytest.fixture(autouse=True)
def no_garbage():
    """What other tests left in memory is in no peak."""
    gc.collect()


def make_model(depth: int = 8, **options) -> keras.Model:
    keras.utils.set_random_seed(4)
    model = dense(depth)
    model.compile("sgd", "mse", **options)
    return model


def train(model, *callbacks, epochs=1, verbose=0, **options):
    x, y = data(rows=STEPS * BATCH)
    return model.fit(
        *(x, y),
        batch_size=BATCH,
        epochs=epochs,
        shuffle=False,
        verbose=verbose,
        callbacks=list(callbacks),
        **options,
    ).history


def rewritten():
    return [r for r in lms.reports() if r.status == "rewritten" and "on_iterator" in r.function]


class Look(keras.callbacks.Callback):
    """Notes the options in force in each step, and does what it is told there."""

    def __init__(self, act=lambda: None):
        super().__init__()
        self.options, self.act = [], act

    def on_train_batch_end(self, batch, logs=None):
        self.options.append(_switch.current())
        self.act()


def test_the_first_fit_and_the_second_are_rewritten_and_measured():
    stock = lms.keras.MemoryBudget("64GiB", verbose=0)
    expected = train(make_model(DEPTH), stock, epochs=2)
    assert stock.report.status == "fits"
    assert not rewritten()

    gc.collect()  # the first model
    others = lms.memory.bytes_in_use()  # other tests'
    model = make_model(DEPTH)  # compiled before anything is enabled
    budget, look = lms.keras.MemoryBudget("60%", verbose=0), Look()
    history = train(model, budget, look, epochs=2)
    assert history["loss"] == expected["loss"]
    assert [options["memory_budget"] for options in look.options] == ["60%"] * (2 * STEPS)
    assert _switch.current() is None
    assert len(rewritten()) == 1
    first = budget.report
    assert first.status == "rewritten"
    assert first.measured_peak_bytes > 0  # the second step was measured, and the report read after
    assert history["peak_MiB"] == [peak / 2**20 for peak in budget.peaks]
    assert len(budget.peaks) == 2
    # How much stock takes is drawn anew with each instance of the graph: nothing holds its order;
    # what lms takes is what it promised.
    promised = others + first.budget_bytes + 4 * TILE
    assert all(peak < promised for peak in budget.peaks)
    assert promised < others + first.peak_before_bytes
    assert abs(budget.peaks[1] - others - first.measured_peak_bytes) < 4 * TILE

    second = train(model, budget)
    assert second["loss"][0] < history["loss"][0]
    assert budget.report.sequence == first.sequence  # planned once
    assert [peak / 2**20 for peak in budget.peaks] == second["peak_MiB"]
    assert budget.peaks[0] < promised
    assert _switch.current() is None


def test_a_model_that_has_trained_without_it():
    model = make_model()
    train(model)
    assert not lms.reports()
    budget = lms.keras.MemoryBudget("60%", verbose=0)
    train(model, budget)
    assert budget.report.status == "rewritten"
    assert len(rewritten()) == 1
    before = _native.report_count()
    train(model)  # and is without it again
    assert _native.report_count() == before


def test_several_steps_in_one_call():
    model = make_model(steps_per_execution=2)
    expected = train(make_model())["loss"]
    budget = lms.keras.MemoryBudget("60%", verbose=0)
    assert train(model, budget)["loss"] == pytest.approx(expected, rel=1e-6)
    assert budget.report.status == "rewritten", budget.report.reason


@pytest.mark.parametrize("trained", [False, True])
def test_xla_of_keras_own_choice_is_off_meanwhile(gpu, trained):  # noqa: F811
    """With a GPU, Keras answers "auto" with XLA, which hides the step."""
    model = make_model()
    assert model.jit_compile is True
    if trained:
        train(model)
    seen = []
    budget = lms.keras.MemoryBudget("60%", verbose=0)
    train(model, budget, Look(lambda: seen.append(model.jit_compile)))
    assert seen == [False] * STEPS
    assert budget.report.status == "rewritten"
    assert model.jit_compile is True  # as it was
    again = lms.keras.MemoryBudget("60%", verbose=0)
    train(model, again, Look(lambda: seen.append(model.jit_compile)))
    assert seen == [False] * (2 * STEPS)
    assert again.report.status == "rewritten"


@pytest.mark.parametrize(
    ("before", "kind"),
    [
        ("70%", KeyboardInterrupt),
        pytest.param("70%", ValueError, marks=pytest.mark.slow),
        pytest.param(None, KeyboardInterrupt, marks=pytest.mark.slow),
        pytest.param(None, ValueError, marks=pytest.mark.slow),
    ],
)
def test_what_was_before_is_in_force_after_an_error(before, kind):
    if before:
        lms.enable(before)
    options = _switch.current()

    def fail():
        raise kind("stop")

    budget, look = lms.keras.MemoryBudget("60%", verbose=0), Look(fail)
    with pytest.raises(kind, match="stop"):
        train(make_model(), budget, look)
    assert look.options[0]["memory_budget"] == "60%"
    assert _switch.current() == options
    train(make_model(), budget)  # and can be used again
    assert _switch.current() == options


@pytest.mark.parametrize("form", ["one", "nested", "list"])
def test_however_it_is_given(form):
    if form == "nested":
        try:
            keras.callbacks.CallbackList([[keras.callbacks.Callback()]])
        except AttributeError:  # 3.6
            pytest.skip("this Keras itself takes no list of callbacks within another")
    budget, look = lms.keras.MemoryBudget("60%", verbose=0), Look()
    callbacks = {
        "one": budget,
        "nested": [[budget], look],
        "list": keras.callbacks.CallbackList([budget, look], add_history=True),
    }[form]
    model = make_model()
    if form == "list":
        callbacks.set_model(model)
    x, y = data(rows=BATCH)
    model.fit(x, y, batch_size=BATCH, verbose=0, callbacks=callbacks)
    assert budget.report.status == "rewritten"
    if form != "one":
        assert look.options[0] is not None
    assert _switch.current() is None


def test_a_loop_that_is_not_keras_own():
    """No fit to wrap: on_train_begin enables; `with` puts back what an error left."""
    held = [lms.keras.MemoryBudget("60%", verbose=0)]

    def own_fit(model, fail=False):
        budget = held[0]
        callbacks = keras.callbacks.CallbackList([budget], model=model)
        callbacks.on_train_begin()
        inside.append(_switch.current()["memory_budget"])
        if fail:
            raise ValueError("stop")
        callbacks.on_train_end()

    inside: list[str] = []
    own_fit(make_model())
    assert inside == ["60%"]
    assert _switch.current() is None
    with pytest.raises(ValueError, match="stop"), held[0]:
        own_fit(make_model(), fail=True)
    assert inside == ["60%"] * 2
    assert _switch.current() is None
    with pytest.raises(ValueError, match="stop"):
        own_fit(make_model(), fail=True)
    assert _switch.current() is not None  # nobody has said that it is over ...
    own_fit(make_model())
    assert _switch.current() is None  # ... until the next one is
    with pytest.raises(ValueError, match="stop"):
        own_fit(make_model(), fail=True)
    held.clear()  # ... or the callback is gone
    gc.collect()
    assert _switch.current() is None


def test_later_callbacks_see_the_peak_and_validation_is_not_in_it(tmp_path):
    x, y = data(rows=16 * BATCH)
    large = make_model()
    plain = lms.keras.MemoryBudget("60%", verbose=0)
    train(make_model(), plain)
    budget = lms.keras.MemoryBudget("60%", verbose=0)
    logger = keras.callbacks.CSVLogger(tmp_path / "log.csv")
    model = keras.Sequential([keras.Input(large.input_shape[1:]), *large.layers])
    model.compile("sgd", "mse")
    history = train(
        *(model, budget, logger),
        validation_data=(x, y),
        validation_batch_size=16 * BATCH,  # two activations of 16 times the rows
    )
    with open(tmp_path / "log.csv", encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert [float(row["peak_MiB"])] == history["peak_MiB"] == [budget.peaks[0] / 2**20]
    assert lms.memory.peak_bytes() > budget.peaks[0] + 16 * TILE
    assert budget.peaks[0] < 1.5 * plain.peaks[0]


@pytest.mark.parametrize(
    "when", ["in the second fit", pytest.param("in the fit", marks=pytest.mark.slow), "before"]
)
def test_the_report_is_the_training_steps_not_that_of_validation(when, capsys, tmp_path):
    """Its own share is less than validation can do with: it is "infeasible", and comes later."""
    x, y = data(rows=8 * BATCH)
    validation = {"validation_data": (x, y), "validation_batch_size": 8 * BATCH}
    model = make_model()
    if when == "before":
        with lms.enabled("60%"):
            train(model)
            model.evaluate(x, y, batch_size=8 * BATCH, verbose=0)
    budget = lms.keras.MemoryBudget("60%", report=tmp_path / "report.json")
    train(model, budget, **({"epochs": 2} if when == "in the second fit" else validation))
    if when == "in the second fit":
        capsys.readouterr()
        train(model, budget, lms.keras.MemoryTensorBoard(tmp_path), **validation)
        (_, shown) = events(tmp_path)["lms/budget_bytes"][-1]
        assert tf.make_ndarray(shown.tensor) == np.float32(budget.report.budget_bytes)
    first, *others = (r for r in lms.reports() if "on_iterator" in r.function)
    assert [r.status for r in others][-1:] == ["infeasible"]
    assert budget.report.sequence == first.sequence
    assert budget.report.status == "rewritten"
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("lms: ")]
    stock = format_bytes(first.peak_before_bytes)
    assert [stock in line for line in said] == [True]
    written = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert written["function"] == first.function


@pytest.mark.parametrize("ending", ["json", "txt", "png"])
def test_the_report_is_written_when_fit_ends(ending, tmp_path, capsys):
    path = tmp_path / "new" / f"report.{ending}"
    budget = lms.keras.MemoryBudget("60%", report=path)
    train(make_model(), budget)
    assert "lms: " in capsys.readouterr().out
    written = path.read_bytes()
    if ending == "json":
        assert json.loads(written)["function"] == budget.report.function
    elif ending == "txt":
        assert budget.report.function in written.decode()
    else:
        assert written[1:4] == b"PNG"


def test_what_cannot_be_written_does_not_end_the_training(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    budget = lms.keras.MemoryBudget("60%", report=tmp_path / "file" / "r.json", verbose=0)
    with caplog.at_level(logging.WARNING, "lms"):
        history = train(make_model(), budget)
    assert len(history["loss"]) == 1
    assert "could not be written" in caplog.text


def test_an_error_of_lms_own_is_logged_and_training_goes_on(caplog):
    expected = train(make_model())["loss"]
    _failure.inject("keras callback")
    with caplog.at_level(logging.WARNING, "lms"):
        budget = lms.keras.MemoryBudget("60%", verbose=0)
        assert train(make_model(), budget)["loss"] == expected
    assert len([r for r in caplog.records if "injected into" in r.getMessage()]) == 1
    assert _switch.current() is None


def test_bad_arguments_are_refused_at_once():
    with pytest.raises(lms.OptionError, match=r"memory_budget.*\n.*no_such"):
        lms.keras.MemoryBudget("6 bananas", no_such=1)
    with pytest.raises(ValueError, match=r"\.html, \.json"):
        lms.keras.MemoryBudget(report="report")


def events(directory):
    (path,) = (directory / "lms").glob("events.out.tfevents.*")
    found = {}
    for record in tf.data.TFRecordDataset(str(path)):
        event = event_pb2.Event.FromString(record.numpy())
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value))
    return found


def test_tensorboard(tmp_path):
    pytest.importorskip("matplotlib")
    budget = lms.keras.MemoryBudget("60%", verbose=0)
    train(make_model(), budget, lms.keras.MemoryTensorBoard(tmp_path), epochs=3)
    report, found = budget.report, events(tmp_path)

    def numbers(tag):
        assert all(v.metadata.plugin_data.plugin_name == "scalars" for _, v in found[tag])
        return [(step, float(tf.make_ndarray(v.tensor))) for step, v in found[tag]]

    assert numbers("lms/measured_peak_bytes") == [
        (epoch, float(np.float32(peak))) for epoch, peak in enumerate(budget.peaks)
    ]
    predicted = float(np.float32(report.peak_after_bytes))
    assert numbers("lms/predicted_peak_bytes") == [(epoch, predicted) for epoch in range(3)]
    assert numbers("lms/predicted_peak_bytes_stock")[-1][1] == np.float32(report.peak_before_bytes)
    assert numbers("lms/budget_bytes")[-1][1] == np.float32(report.budget_bytes)
    assert numbers("lms/measured_step_peak_bytes")[-1][1] == np.float32(report.measured_peak_bytes)
    ((step, picture),) = found["lms/timeline"]
    assert step == 0  # the plan's
    assert picture.metadata.plugin_data.plugin_name == "images"
    width, height, png = picture.tensor.string_val
    assert struct.unpack(">II", png[16:24]) == (int(width), int(height))
    pixels = tf.io.decode_png(png).numpy()
    assert pixels.shape[:2] == (int(height), int(width))
    assert pixels.std() > 1  # there is something to see
    (_, text) = found["lms/report"][-1]
    assert report.function in tf.make_ndarray(text.tensor).item().decode()


def test_tensorboard_alone_measures_what_enable_does(tmp_path, monkeypatch):
    """Without MemoryBudget, and where matplotlib is missing: numbers, and no picture."""

    def no_plot(self, path=None):
        raise ImportError("no matplotlib")

    monkeypatch.setattr(lms.Report, "plot", no_plot)
    lms.enable("60%")
    gc.collect()
    before = lms.memory.bytes_in_use()
    train(make_model(), lms.keras.MemoryTensorBoard(tmp_path))
    found = events(tmp_path)
    assert "lms/timeline" not in found
    ((_, peak),) = found["lms/measured_peak_bytes"]
    (report,) = rewritten()
    rise = float(tf.make_ndarray(peak.tensor)) - before
    assert 0 < rise - (report.peak_after_bytes - report.resident_bytes) < 2**19
    assert "lms/report" in found


def test_the_old_name_of_the_callback_for_tensorboard():
    with pytest.warns(DeprecationWarning, match="MemoryTensorBoard"):
        assert lms.keras.TensorBoard is lms.keras.MemoryTensorBoard
    with pytest.raises(AttributeError, match="Nothing"):
        lms.keras.Nothing  # noqa: B018
