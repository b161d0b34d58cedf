"""Dimensions that a function leaves unknown: what the user says, unknown_dim."""

import lms
import numpy as np
import pytest
import tensorflow as tf
from helpers import make_open_step, reports_on, rows
from lms import _native


def test_the_users_word_comes_first():
    step, _ = make_open_step()
    for asked, sizes in (
        (128, "x:0 = 128 (unknown_dim)"),
        ({"x": 64}, "x:0 = 64 (unknown_dim)"),
        ("x:0=32", "x:0 = 32 (unknown_dim)"),
        ({"y": 16}, "x:0 = 512 (first call)"),
    ):
        lms.clear_reports()
        with lms.enabled("60%", unknown_dim=asked):
            step(rows(512))
        assert [report.sizes for report in reports_on(step)] == [(sizes,)]


def test_a_word_that_contradicts_the_function_is_an_error_where_it_is_called():
    step, weights = make_open_step()
    before = [weight.numpy() for weight in weights]
    with lms.enabled("60%", unknown_dim={"x:1": 32}):
        for _ in range(2):
            with pytest.raises(lms.OptionError, match=r"x:1=32 contradicts the shape \[\?, 64\]"):
                step(rows(512))
    with lms.enabled("60%", unknown_dim="x:2=32"), pytest.raises(ValueError, match="x:2=32"):
        step(rows(512))
    assert all((a == b.numpy()).all() for a, b in zip(before, weights))
    with lms.enabled("60%", unknown_dim={"x:1": 64}):
        step(rows(512))
    assert reports_on(step)[-1].status == "rewritten"


def test_a_contradiction_in_an_entry_written_by_hand_is_a_failed_report():
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 4], "images")
        y = tf.reduce_sum(tf.tanh(x))
    for asked, status, size in (
        ("images:1=5", "failed", None),
        ("images=7", "fits", "images:0 = 7 (unknown_dim)"),
    ):
        lms.clear_reports()
        config = lms.configure(None, "1GiB", unknown_dim=asked)
        with tf.compat.v1.Session(graph=graph, config=config) as session:
            session.run(y, {x: np.ones([3, 4])})
        report = lms.reports()[-1]
        assert report.status == status
        assert size is None or report.sizes == (size,)
        if status == "failed":
            assert "images:1=5 contradicts" in report.reason


def test_the_option_in_its_forms(monkeypatch):
    from lms._control import switch as _switch

    lms.enable(unknown_dim={"images": np.int32(64), "tokens:1": 128, "": 8})
    assert _switch.current() == {"unknown_dim": "images=64, tokens:1=128, =8"}
    monkeypatch.setenv("LMS_UNKNOWN_DIM", "images=64")
    lms.enable()
    assert _switch.current() == {"unknown_dim": "images=64"}
    for bad in ({"x": 0}, {"x": True}, {"x": "3"}, {3: 4}, {}, {"a,b": 3}, {"x:y": 3}, "x", [4]):
        with pytest.raises(lms.OptionError, match="accepted: a positive whole number, or"):
            lms.enable(unknown_dim=bad)


def test_what_is_internal_is_no_option():
    with pytest.raises(lms.OptionError, match="unknown option '_seen_sizes'"):
        lms.enable(_seen_sizes="first call|0:0=3")


def test_the_door_to_the_parser():
    problems = _native.unknown_dim_problems("x:1=3", [("x", "", False, [[-1, 4]])])
    assert problems == ["unknown_dim: x:1=3 contradicts the shape [?, 4] of 'x'"]
    assert _native.unknown_dim_problems("x:1=3", [("x", "", False, [None])]) == []
