"""The command lms bench: what it compares, and what decides about its exit status."""

from __future__ import annotations

import json

import pytest
from lms_cli import _bench
from test_cli_lms import models, run  # noqa: F401 (a fixture)


@pytest.mark.slow
@pytest.mark.usefixtures("models")
def test_a_model_is_trained_and_compared(capfd):
    """Two processes that train."""
    words = ("--batch", 2048, "--arg", "width=128", "--steps", 3, "--threads", 1)
    status, out, _ = run(capfd, "bench", "my_models.py:make", *words, "--json")
    data = json.loads(out)
    assert status == 0, data
    assert data["bits"]["equal"] is True
    assert data["bits"]["losses"] == 6 and data["bits"]["variables"] > 18
    assert data["budget_met"] is True
    assert data["report"]["status"] == "rewritten"
    saved = data["lms"]["activations_bytes"] / data["stock"]["activations_bytes"]
    assert saved < 0.8
    assert data["lms"]["peak_bytes"] > data["lms"]["activations_bytes"]
    seconds = data["stock"]["step_seconds"]
    assert 0 < seconds["least"] <= seconds["median"] <= seconds["most"]


def fake_run(losses=("a", "b"), rise=100, variables=None, **more):
    steps = [
        {
            "measured": True,
            "seconds": 1.0,
            "cpu_seconds": 2.0,
            "before_bytes": 50,
            "peak_bytes": 50 + rise,
            "loss": loss,
        }
        for loss in losses
    ]
    plan = {"budget_bytes": 300, "resident_bytes": 200, "peak_after_bytes": 290}
    plan.update(status="rewritten", predicted_time_overhead=0.1, reason="")
    found = {"steps": steps, "variables": variables or {"v": "1"}, "report": plan}
    return {**found, "batch": 1, "device": "CPU", "versions": {}, **more}


@pytest.fixture
def processes(monkeypatch):
    """What the processes that train would answer, by (with lms, threads)."""
    answers, asked = {}, []

    def process(args, with_lms, threads, steps, move):
        asked.append((with_lms, threads, steps))
        return answers.get((with_lms, threads), answers[with_lms])

    monkeypatch.setattr(_bench, "_process", process)
    return answers, asked


@pytest.mark.parametrize(
    ("ours", "status", "text"),
    [
        (fake_run(), 0, "budget: met"),
        (fake_run(rise=101), 0, "budget: met"),
        (fake_run(rise=102), 1, "budget: NOT met"),
        (fake_run(losses=("a", "c")), 1, "DIFFERENT: 1 of 2 losses and 0 of 1 variables"),
        (fake_run(variables={"v": "2"}), 1, "0 of 2 losses and 1 of 1 variables"),
        (fake_run(error="it was ended by SIGKILL", said=["last words"]), 1, "last words"),
        (fake_run(error="it was ended by SIGSEGV", said=[]), 1, "where memory runs out"),
        (fake_run(error="it was ended by SIGABRT", said=[]), 1, "where memory runs out"),
    ],
)
def test_what_decides_about_a_bench(processes, capfd, ours, status, text):
    answers, asked = processes
    answers.update({False: fake_run(), True: ours})
    found, out, _ = run(capfd, "bench", "X")
    assert found == status and text in out
    differs = "DIFFERENT" in text or "1 of 1 variables" in text
    assert asked[:2] == [(False, None, 10), (True, None, 10)]
    assert asked[2:] == ([(False, 1, 2), (True, 1, 2)] if differs else [])


def test_bits_that_several_threads_make_differ(processes, capfd):
    answers, _ = processes
    answers.update({False: fake_run(), True: fake_run(losses=("a", "c"))})
    answers[True, 1] = fake_run()
    status, out, _ = run(capfd, "bench", "X")
    assert status == 0 and "equal: 2 losses and 1 variables (one thread of each kind)" in out


def test_stock_that_does_not_fit(processes, capfd):
    """That is what lms is for: nothing to compare, and no problem."""
    answers, _ = processes
    failed = fake_run(error="ResourceExhaustedError: OOM", said=[])
    answers.update({False: failed, True: fake_run()})
    status, out, _ = run(capfd, "bench", "X")
    assert status == 0
    assert "stock failed: ResourceExhaustedError" in out and "bits: not compared" in out
    answers[True] = failed
    status, out, _ = run(capfd, "bench", "X", "--json")
    assert status == 1 and "does not train at all" in json.loads(out)["error"]
