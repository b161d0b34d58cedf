"""Sizes that a program computes from shapes are predicted, with a batch that only the run knows."""

from __future__ import annotations

import json
from pathlib import Path

import lms
import pytest
import tensorflow as tf
from forked import run_forked
from helpers import reports_on
from shape_cases import FUNCTIONS, MODELS

CASES = Path(__file__).with_name("shape_cases.py")
# How far a prediction may be off, for the order that it seems to run in.
OFF = dict.fromkeys([*FUNCTIONS, *MODELS], 0.05)
# A variable of a loop, and what comes out of a branch, count beside what they share storage with,
# whether the batch is known or not.
OFF |= {"loop": 0.25, "branch": 0.4}


@pytest.fixture(scope="module")
def figures() -> dict[str, dict]:
    """Of every case, measured in one process with one thread of each kind."""
    status, output = run_forked(
        f"import runpy; runpy.run_path({str(CASES)!r}, run_name='__main__')"
    )
    assert status == 0, output[-4000:]
    lines = [line.split(" ", 2) for line in output.splitlines() if line.startswith("CASE ")]
    return {name: json.loads(text) for _, name, text in lines}


@pytest.mark.parametrize("name", [*FUNCTIONS, *MODELS])
def test_what_is_predicted_is_what_is_taken(name, figures):
    made = figures[name]
    assert made["status"] == "fits"
    near = OFF[name] * made["measured"] + made["ahead"]
    assert made["predicted"] == pytest.approx(made["measured"], abs=near)
    assert not any("unknown_dim" in warning for warning in made["warnings"])
    assert not made["reason"].startswith("if ")


def make_masked_step():
    """Half of the rows are taken by what is in them; the rest goes on from there."""

    @tf.function
    def masked_step(x, mask):
        rows = tf.boolean_mask(x, mask)
        return tf.reduce_sum(tf.tanh(tf.reshape(rows, [-1])))

    return masked_step


def test_what_rests_on_an_assumption_is_said_first():
    step = make_masked_step()
    lms.enable("1GiB")
    step(tf.ones([64, 2048]), tf.range(64) % 2 == 0)
    (report,) = reports_on(step)
    assert report.status == "fits"
    (warning,) = report.warnings
    assert "boolean_mask" in warning and "taken to be 32" in warning
    # 32 rows of 2,048 floats, at least once: the product of an assumed size and a known one.
    assert report.peak_before_bytes - report.resident_bytes >= 32 * 2048 * 4
    assert report.reason.startswith(f"if {report.assumption}: the predicted peak of ")
    assert " is 32 (assumed: " in report.assumption or " are 32 (assumed: " in report.assumption
    first_line = str(report).splitlines()[0]
    assert f": fits, if {report.assumption}. " in first_line
    assert "if boolean_mask" in report.table()
    copy = lms.Report.from_json(report.to_json()) if hasattr(lms, "Report") else report
    assert copy.assumption == report.assumption


def test_nothing_is_said_where_the_user_has_said_it():
    step = make_masked_step()
    lms.enable("1GiB", unknown_dim=48)
    step(tf.ones([64, 2048]), tf.range(64) % 2 == 0)
    (report,) = reports_on(step)
    assert report.warnings == () and report.assumption == ""
    assert report.peak_before_bytes - report.resident_bytes >= 48 * 2048 * 4


def test_nothing_is_said_where_next_to_nothing_rests_on_it():
    @tf.function
    def counting_step(x):
        count = tf.size(tf.where(x[:, 0] > 0)[:, 0])
        return tf.reduce_sum(tf.tanh(x)) + tf.cast(count, tf.float32)

    lms.enable("1GiB")
    counting_step(tf.ones([512, 1024]))
    (report,) = reports_on(counting_step)
    assert report.assumption == "" and report.reason.startswith("the predicted peak of ")
