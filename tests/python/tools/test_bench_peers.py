"""The benchmark of what could be used instead: its cuts into blocks, verdicts and page."""

from __future__ import annotations

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import _models
from peers import blocks, page, table
from published.verdict import AHEAD, BEHIND, LEVEL, NOT_MEASURED

SMALL = {
    "cifar": lambda: _models.cifar_resnet(2, blocks=2),
    "gpt": lambda: _models.gpt(2, depth=3, width=12, heads=2, length=8, vocabulary=16),
    "unet": lambda: _models.unet(2, size=32, channels=2),
}


@pytest.mark.parametrize(("name", "count"), [("cifar", 6), ("gpt", 3), ("unet", 9)])
def test_a_model_in_blocks_is_the_same_function_of_the_same_variables(name, count):
    problem = SMALL[name]()
    parts = blocks.CUTS[name](problem.model)
    assert sum(part.block for part in parts) == count
    in_blocks = blocks.by_block(problem.model, parts)
    variables = problem.model.trainable_variables
    assert {id(v) for v in in_blocks.trainable_variables} == {id(v) for v in variables}

    def gradients(model: keras.Model) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = problem.loss(problem.labels, model(problem.inputs, training=True))
        return [tf.convert_to_tensor(found) for found in tape.gradient(loss, variables)]

    expected = tf.function(gradients)(problem.model)
    for one, other in zip(expected, tf.function(gradients)(in_blocks)):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


def point(cut: float, added: float, **more: object) -> dict[str, object]:
    figures = {"added_least": added, "added_most": added, "pairs": 3}
    peaks = {"stock_peak": 10**9, "peer_peak": int(1e9 * (1 - cut))}
    return {"cut": cut, "added": added, "status": "rewritten", **figures, **peaks, **more}


def row(peer: float, ours: float, share: float = 0.5, bits: int = 0) -> dict[str, object]:
    """Both take half of stock's peak, unless `share` says otherwise of lms."""
    found = {"peer": 2, "lms": bits}
    return {"peer": point(0.5, peer), "lms": point(1 - share, ours), "bits": found}


def test_lms_is_ahead_for_half_of_the_added_time():
    assert table.judge(row(0.3, 0.15))[0] == AHEAD
    assert table.judge(row(0.3, 0.2))[0] == LEVEL
    assert table.judge(row(0.3, 0.31))[0] == BEHIND
    assert table.judge(row(0.3, 0.0, share=0.6))[0] == BEHIND
    assert table.judge(row(0.3, 0.0, bits=1))[0] == BEHIND
    assert table.judge({"peer": point(0.01, 0.3), "bits": {"peer": 0}})[0] == AHEAD
    assert table.judge({"why": "no such thing"}) == (NOT_MEASURED, "no such thing")


def test_the_page_shows_every_way_and_why_lms_is_not_ahead():
    machine = {"cpu": "A CPU", "cores": 2, "memory_gib": 8, "date": "2026-01-01"}
    machine |= {"tensorflow": "2", "keras": "3", "lms": "0"}
    first, second, third, *_ = table.WAYS
    rows = {("gpt", first): row(0.3, 0.1), ("gpt", second): row(0.3, 0.2)}
    rows["gpt", first]["peer"]["machine"] = machine
    rows["gpt", third] = {"why": "it failed"}
    text = page.text(rows, "picture.svg")
    line = f"| {table.WAYS[first]} | 1000 MB | 50.0% | 1.30 (1.30 to 1.30) | other |"
    assert f"{line} 50.0% | 1.10 (1.10 to 1.10) | equal | ahead |" in text
    assert f"- {table.WAYS[second]}, level: +20.0% is more than half of +30%." in text
    assert f"- {table.WAYS[third]}, not measured: it failed." in text
    assert f"| **all** | {4 * len(table.WAYS)} | 1 | 1 | 0 |" in text
    assert "- 2 cores of A CPU, 8 GiB" in text


def test_what_keras_says_is_cut_down_to_the_sentence():
    from peers.__main__ import said

    text = (
        "in user code:\n\n    File x, line 1\n    ValueError: Exception encountered when calling "
    )
    text += "A.call().\n    \n    \x1b[1mNo keywords here.\x1b[0m\n    \n    Arguments received"
    assert said(ValueError(text)) == "No keywords here."
    assert said(ValueError("\nIt is so.\nAnd more.")) == "It is so."
