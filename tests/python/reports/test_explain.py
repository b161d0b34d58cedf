"""lms.explain: a paragraph that says where one stands, and what to do next."""

import dataclasses
import logging

import lms
import pytest
import tensorflow as tf
from helpers import make_step
from lms._base.format import format_bytes
from lms._control.explain import in_a_line


@pytest.fixture(autouse=True)
def nothing_reported():
    lms.disable()
    lms.clear_reports()
    yield
    lms.disable()
    lms.clear_reports()


def test_off(caplog):
    with caplog.at_level(logging.WARNING, "lms"):
        text = lms.explain()
    assert text.startswith("lms is off now. It has seen no training step.")
    assert "lms is not enabled: call lms.enable() before the step." in text
    assert not caplog.records  # it is said, not logged as well


def test_on_without_a_step():
    lms.enable("60%")
    assert lms.explain().startswith("lms is on, with memory_budget='60%'. It has seen no training")


def test_a_step_that_was_changed():
    step, _ = make_step()
    lms.enable("60%")
    for _ in range(3):
        step()
    text = lms.explain()
    report = lms.report()
    assert f"The step {report.function} was changed to need less memory" in text
    assert "It really took" in text and "within the budget" in text
    assert "The largest layers at the peak: " in text
    assert "  " not in text
    lms.disable()
    assert lms.explain().startswith("lms was on when this step ran, and is off now. The step")
    above = dataclasses.replace(report, measured_peak_bytes=2 * report.budget_bytes)
    assert "above the budget" in lms.explain(above)
    no_less = dataclasses.replace(report, peak_after_bytes=report.peak_before_bytes)
    assert "was changed to be sure to fit: its predicted peak is" in lms.explain(no_less)


def test_one_function_of_several():
    step, _ = make_step()

    @tf.function
    def forward(x):
        return tf.reduce_sum(tf.tanh(x @ x) @ x)

    lms.enable("60%")
    step()
    forward(tf.ones([64, 64]))
    assert "The step __inference_forward_" in lms.explain(forward)
    assert lms.report("forward") == lms.report(forward) != lms.report(step) == lms.report()
    assert lms.report("forwar") is None
    assert "It has seen no run of it" in lms.explain("forwar")
    with pytest.raises(TypeError, match="expected a function or its name"):
        lms.report(3)


def test_a_step_that_fits():
    step, _ = make_step()
    lms.enable("4GiB")
    step()
    assert "was left as it is, because it fits" in lms.explain()


def test_a_budget_that_cannot_be_met():
    step, _ = make_step()
    lms.enable("200KiB")
    step()
    report = lms.report()
    assert report.status == "infeasible"
    text = lms.explain()
    assert f"ask for that (memory_budget={report.min_budget_bytes})" in text
    lms.enable(report.min_budget_bytes)
    step()
    assert lms.report().status == "rewritten"  # what it says is true


def test_a_function_that_trains_nothing():
    @tf.function
    def forward(x):
        return tf.reduce_sum(tf.tanh(x @ x) @ x)

    lms.enable("60%")
    forward(tf.ones([64, 64]))
    (report,) = lms.reports()
    assert report.status == "skipped"
    text = lms.explain()
    assert f"The step {report.function} was left as it is. {report.reason[0].upper()}" in text


def test_what_went_wrong_inside():
    step, _ = make_step()
    lms.enable("60%")
    step()
    failed = dataclasses.replace(lms.report(), status="failed", reason="no luck", stage="plan")
    text = lms.explain(failed)
    assert "(stage plan); training goes on with the step as it was. No luck." in text
    assert "lms doctor --json" in text


def test_a_line_at_the_end_of_a_fit():
    step, _ = make_step()
    lms.enable("60%")
    for _ in range(2):
        step()
    report = lms.report()
    line = in_a_line(report)
    assert line.startswith(f"a step took {format_bytes(report.measured_peak_bytes)} at its peak;")
    assert f"Added time, predicted: {report.predicted_time_overhead:.1%}." in line
    said = {
        "fits": "nothing had to be changed",
        "infeasible": "no plan fits",
        "skipped": f"nothing was changed: {report.reason}",
    }
    for status, words in said.items():
        assert words in in_a_line(dataclasses.replace(report, status=status)), status


def test_what_xla_compiles_is_named_beside_the_rest():
    step, _ = make_step()
    lms.enable("60%")
    step()
    assert "Not planned" not in lms.explain()
    compiled = tf.function(lambda x: tf.tanh(x) * 2.0 + 1.0, jit_compile=True)
    compiled(tf.ones([4]))
    name = compiled.get_concrete_function(tf.ones([4])).name.decode()
    assert f"Not planned: {name}, which XLA compiles (jit_compile=True)" in lms.explain()
    assert "Not planned" not in lms.explain(step)
