"""lms.calibrate: operations timed, kept and used; what it must leave as it was."""

from __future__ import annotations

import itertools
import os
import pathlib
import threading

import lms
import numpy as np
import pytest
import tensorflow as tf
from helpers import make_step, reports_on, skip_where_scratch_is_too_large
from lms import _native

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def own_profiles(tmp_path, monkeypatch):
    monkeypatch.setenv("LMS_PROFILE_DIR", str(tmp_path / "profiles"))


def make_conv_step():
    """Two convolutions with bias and ReLU, momentum SGD, and a dropout with a state."""
    rng = tf.random.Generator.from_seed(3)
    filters = [tf.Variable(rng.normal([3, 3, 8, 8]) / 9) for _ in range(3)]
    biases = [tf.Variable(tf.zeros([8])) for _ in range(3)]
    slots = [tf.Variable(tf.zeros_like(variable)) for variable in filters + biases]
    x = rng.normal([8, 32, 32, 8])

    def step():
        with tf.GradientTape() as tape:
            y = x
            for kernel, bias in zip(filters, biases):
                y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(y, kernel, 1, "SAME"), bias))
            loss = tf.reduce_mean(y * y * rng.normal(y.shape))
        variables = filters + biases
        for variable, slot, gradient in zip(variables, slots, tape.gradient(loss, variables)):
            slot.assign(0.9 * slot + gradient)
            variable.assign_sub(0.1 * slot)
        return loss

    step.__name__ = f"conv_step_{next(_numbers)}_"
    return tf.function(step), [*filters, *biases, *slots, rng.state]


def keys_in(path):
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("op ")]


def priced(step, budget="60%", **options):
    """The report on the step with lms."""
    with lms.enabled(budget, **options):
        step()
    return reports_on(step)[-1]


def test_the_way_to_the_disk_is_measured_anew(monkeypatch):
    asked = []
    monkeypatch.setattr(
        _native, "measure_disk_link", lambda to: asked.append(to) or ("", "/spill: 3 GB/s out")
    )
    step, _ = make_step()
    assert lms.calibrate(step, repeats=1).link == ""
    with lms.enabled("60%", swap_to="/spill"):
        result = lms.calibrate(step, repeats=1)
    assert asked == ["/spill"]
    assert result.link == "/spill: 3 GB/s out"
    assert "Swapping: /spill: 3 GB/s out." in str(result)
    compiled = tf.function(lambda x: x + x, jit_compile=True)
    xla, fails = pytest.warns(UserWarning, match="by XLA"), pytest.raises(RuntimeError)
    with lms.enabled("60%", swap_to="/spill"), xla, fails:
        lms.calibrate(compiled, tf.constant([1.0]), repeats=1)
    assert asked == ["/spill", "/spill"]


def decided_by(report):
    """What priced the decisions; order costs nothing.

    But for Tile: the gradient of a mean begins with one of a constant, which TensorFlow folds
    after Grappler, so that it never runs and stays an estimate.
    """
    decisions = [d for d in report.decisions if d["op_type"] != "Tile" and d["kind"] != "order"]
    return {d["priced_by"] for d in decisions}


def test_a_calibrated_step_is_priced_by_its_profile():
    step, _ = make_conv_step()
    before = priced(step)
    skip_where_scratch_is_too_large(before.status)
    assert before.status == "rewritten"
    assert (before.profile, before.profiled_share) == ("", 0)
    assert decided_by(before) == {"estimate"}
    assert "estimated" in str(before)

    result = lms.calibrate(step, repeats=3)
    assert pathlib.Path(result.path).parent == pathlib.Path(os.environ["LMS_PROFILE_DIR"])
    assert result.device.startswith("CPU ") and result.device.endswith("threads 1")
    assert result.replaced == ""
    # Convolutions, their gradients, ReLU and what updates the variables were seen.
    assert {"_FusedConv2D", "Conv2DBackpropFilter", "ReluGrad"} <= set(result.times_us)
    assert all(time > 0 for time in result.times_us.values())
    assert 0 < result.covered <= 1.01
    assert result.step_us > 0 and result.chained_us > 0
    assert result.keys <= result.operations
    assert len(keys_in(result.path)) >= result.keys
    assert result.path in str(result) and "Conv2DBackpropFilter" in result.table()
    assert next(iter(result.ratios())) == max(result.times_us, key=result.times_us.get)

    after = priced(step)
    assert after.profile == result.path
    assert 0 < after.profiled_share <= 1
    assert decided_by(after) == {"profile"}
    assert "measured" in str(after) and "measured times" in after.table()
    assert not [warning for warning in after.warnings if "profile" in warning]
    assert priced(step, profile="none").profile == ""
    assert priced(step, profile=False).profile == ""


def test_what_needs_no_kernel_takes_no_time():
    step, _ = make_conv_step()
    result = lms.calibrate(step, repeats=2)
    took = {}  # by type, the measured times
    for line in keys_in(result.path):
        took.setdefault(line.split("(")[0][4:], []).append(float(line.rsplit(" ", 3)[1]))
    assert all(time > 0 for time in took["Conv2DBackpropFilter"])
    assert took["Const"] and not any(took["Const"])
    assert not any(took["_Retval"])
    assert "Const" not in result.times_us


def test_variables_stay_as_they_were():
    step, variables = make_conv_step()
    step()
    before = [variable.numpy().tobytes() for variable in variables]
    next_loss = float(step())
    for variable, value in zip(variables, before):
        array = np.frombuffer(value, variable.dtype.as_numpy_dtype).reshape(variable.shape)
        variable.assign(array)
    lms.calibrate(step, repeats=2)
    assert [variable.numpy().tobytes() for variable in variables] == before
    assert float(step()) == next_loss


def test_variables_stay_where_the_function_fails():
    step, variables = make_conv_step()
    calls = tf.Variable(0)

    @tf.function
    def fails():
        loss = step()
        tf.debugging.assert_less(calls.assign_add(1), 2)
        return loss

    before = [variable.numpy().tobytes() for variable in variables]
    with pytest.raises(tf.errors.InvalidArgumentError):
        lms.calibrate(fails)
    assert [variable.numpy().tobytes() for variable in variables] == before
    assert int(calls) == 0
    assert not list(pathlib.Path(os.environ["LMS_PROFILE_DIR"]).glob("*"))


def test_a_second_function_adds_to_the_file():
    one, _ = make_conv_step()
    other, _ = make_step(layers=3)
    first = lms.calibrate(one, repeats=1)
    assert decided_by(priced(other)) == {"estimate"}
    second = lms.calibrate(other, repeats=1)
    assert second.path == first.path
    assert len(keys_in(first.path)) > first.keys
    assert decided_by(priced(other)) == {"profile"}
    again = priced(one)
    skip_where_scratch_is_too_large(again.status)
    assert decided_by(again) == {"profile"}


def test_a_rewritten_step_can_be_calibrated(tmp_path):
    step, _ = make_step(layers=6)
    with lms.enabled("60%"):
        result = lms.calibrate(step, repeats=1, path=tmp_path / "p")
    assert reports_on(step)[-1].status == "rewritten"  # of the run without the chain
    report = priced(step, profile=tmp_path / "p")
    assert report.profile == result.path == str(tmp_path / "p")
    assert decided_by(report) == {"profile"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (('device "CPU', 'device "DPU'), "it was measured on DPU"),
        (("lms-profile 1", "lms-profile 7"), "version"),
        (("tensorflow 2", "tensorflow 1"), "it was measured with TensorFlow 1"),
        (("onednn", "twodnn"), "there is no statement"),
    ],
)
def test_a_foreign_or_damaged_profile_is_refused_and_made_anew(change, reason):
    step, _ = make_step(layers=4)
    path = pathlib.Path(lms.calibrate(step, repeats=1).path)
    path.write_text(path.read_text(encoding="utf-8").replace(*change, 1), encoding="utf-8")
    report = priced(step)
    assert report.status == "rewritten"
    warnings = [warning for warning in report.warnings if "profile" in warning]
    assert len(warnings) == 1 and reason in warnings[0], warnings
    assert report.profile == "" and report.profiled_share == 0
    again = lms.calibrate(step, repeats=1)
    assert reason in again.replaced and ".old" in str(again)
    assert path.with_name(path.name + ".old").exists()
    assert priced(step).profile == str(path)


def test_a_profile_that_is_not_there_is_said(tmp_path):
    step, _ = make_step(layers=4)
    report = priced(step, profile=tmp_path / "none such")
    assert report.status == "rewritten"
    assert any("does not exist" in warning for warning in report.warnings)


def test_two_threads_lose_nothing():
    steps = [make_step(layers=3, width=64 + 32 * i)[0] for i in range(2)]
    results = {}

    def work(i):
        results[i] = lms.calibrate(steps[i], repeats=1)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0].path == results[1].path
    for step in steps:
        assert decided_by(priced(step)) == {"profile"}


def test_what_cannot_be_calibrated_is_said(tmp_path):
    step, _ = make_step(layers=2)
    for repeats in (0, -1, 1.5, True, None):
        with pytest.raises(ValueError, match="repeats="):
            lms.calibrate(step, repeats=repeats)
    with pytest.raises(TypeError, match="iterator"):
        lms.calibrate(lambda batch: batch, iter(tf.data.Dataset.range(3)))
    with pytest.warns(UserWarning, match="XLA"), pytest.raises(RuntimeError, match="XLA"):
        lms.calibrate(tf.function(lambda x: x * 2, jit_compile=True), tf.ones([2]), repeats=1)
    with pytest.raises(OSError, match="is a directory"):
        lms.calibrate(step, repeats=1, path=tmp_path)
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="eager"):
        lms.calibrate(step)
    queue = tf.queue.FIFOQueue(2, [tf.float32])

    @tf.function
    def waits(x):
        queue.enqueue(x)
        return tf.exp(queue.dequeue())

    with pytest.raises(RuntimeError, match="may wait"):
        lms.calibrate(waits, tf.ones([]), repeats=1)


def test_it_leaves_no_trace():
    step, _ = make_step(layers=4)
    step()
    lms.calibrate(step, repeats=1)
    assert not lms.reports()
    step()
    assert not lms.reports()
