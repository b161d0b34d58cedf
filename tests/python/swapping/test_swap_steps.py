"""Training steps at half of their activation peak by swapping alone: memory, bits, what is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import lms
import numpy as np
import pytest
import swap_models
import tensorflow as tf
from forked import run_forked
from helpers import ONEDNN, skip_where_scratch_is_too_large
from places import PYTHONPATH
from quick import names_asked_for, quick_ones
from swap_models import (
    Interruption,
    chain,
    interrupted,
    largest_report,
    make,
    normal,
    squares,
    swapping,
)
from tensorflow.python.eager import cancellation

STEPS = 3
# Beside its step fit() holds all of the images, and four batches that it has made ready.
HELD_BESIDE = {"keras_fit": (256 + 4 * 32) * 32 * 32 * 3 * 4}


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": PYTHONPATH, "TF_CPP_MIN_LOG_LEVEL": "3"}


MODELS = quick_ones(swap_models.MODELS, "cnn", "branch", "keras_fit")


@pytest.fixture(scope="module")
def trained(request: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The models asked for, in one child with one thread of each kind: stock, then swapped."""
    spill = tmp_path_factory.mktemp("spill")
    arguments = ["", str(spill), str(STEPS), *names_asked_for(request, swap_models.MODELS)]
    code = f"import runpy, sys; sys.argv = {arguments!r}; "
    code += f"runpy.run_path({swap_models.__file__!r}, run_name='__main__')"
    status, output = run_forked(code)
    assert status == 0, output
    assert list(spill.iterdir()) == []
    ways = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return {way["name"]: way for way in ways}


@pytest.mark.parametrize("name", MODELS)
def test_a_step_at_half_of_its_memory_has_the_same_bits(trained: Any, name: str) -> None:
    stock, swapped = trained[name]["stock"], trained[name]["swapped"]
    report = swapped["report"]
    details = [report[field] for field in ("reason", "warnings", "link", "planner_seconds")]
    skip_where_scratch_is_too_large(report["status"])
    assert report["status"] == "rewritten", details
    assert len(set(stock["losses"])) == STEPS  # it trains
    repeats = f"stock repeats itself: {trained[name].get('repeats')}"
    assert swapped["losses"] == stock["losses"], repeats
    assert swapped["digest"] == stock["digest"], repeats

    kinds = [decision["kind"] for decision in report["decisions"]]
    assert kinds.count("swap_out") >= 1 and kinds.count("swap_in") >= kinds.count("swap_out")
    assert "recompute" not in kinds
    assert report["swap_tier"] == "disk" and report["swap_note"] == ""
    out = [d["tensor_bytes"] for d in report["decisions"] if d["kind"] == "swap_out"]
    back = [d["tensor_bytes"] for d in report["decisions"] if d["kind"] == "swap_in"]
    assert sum(out) == report["swapped_bytes"] > 0
    # Keras runs 8 batches, four in a call; the loop has 4 parts; every second step takes the
    # large branch.
    times = {"keras_fit": [8] * STEPS, "accumulation": [4] * STEPS}
    moved, all_of_it = swapped["moved"], [sum(out), sum(back)]
    if name == "branch":  # what is of the other branch is moved in the other steps
        assert moved[0] == moved[2]
        for large, small, both in zip(moved[0], moved[1], all_of_it):
            assert 0 < large <= both <= large + small
    else:
        counts = times.get(name, [1] * STEPS)
        assert moved == [[count * size for size in all_of_it] for count in counts]
    assert swapped["stored_bytes"] == 0


@pytest.mark.parametrize("name", MODELS)
def test_the_measured_peak_keeps_the_budget(trained: Any, name: str) -> None:
    stock, swapped = trained[name]["stock"], trained[name]["swapped"]
    report = swapped["report"]
    budget = report["budget_bytes"] - report["resident_bytes"]
    skip_where_scratch_is_too_large(report["status"])
    assert report["peak_after_bytes"] <= report["budget_bytes"]
    # The first call also makes what its function keeps.
    highest = max(swapped["peaks"][1:])
    assert highest < max(stock["peaks"][1:])
    assert highest <= budget + HELD_BESIDE.get(name, 0)


# ---- In this process: several threads, as TensorFlow has them by default ----


def test_an_error_in_the_middle_of_a_step_gives_everything_back(tmp_path: Path) -> None:
    interruption = Interruption()
    step, other = interrupted(7, interruption), interrupted(7, Interruption())
    expected = [float(other.run()) for _ in range(3)]

    def fail() -> None:
        raise ValueError("half-way")

    with swapping(tmp_path):
        assert float(step.run()) == pytest.approx(expected[0], rel=1e-5)
        assert largest_report().swapped_bytes > 0
        in_use = lms.memory.bytes_in_use()
        interruption.action = fail
        with pytest.raises(tf.errors.OpError, match="half-way"):
            step.run()
        assert interruption.stored > 0
        assert lms.swap_statistics().stored_bytes == 0
        assert lms.memory.bytes_in_use() <= in_use
        interruption.action = None
        for loss in expected[1:]:
            assert float(step.run()) == pytest.approx(loss, rel=1e-5)
    assert list(tmp_path.iterdir()) == []


def test_a_cancelled_step_gives_everything_back(tmp_path: Path) -> None:
    interruption = Interruption()
    step, other = interrupted(7, interruption), interrupted(7, Interruption())
    expected = [float(other.run())]
    after_one = [variable.numpy() for variable in other.variables]
    expected += [float(other.run()) for _ in range(2)]
    manager = cancellation.CancellationManager()
    cancelled = manager.get_cancelable_function(step.run.get_concrete_function())
    with swapping(tmp_path):
        assert float(cancelled()) == pytest.approx(expected[0], rel=1e-5)
        assert largest_report().swapped_bytes > 0
        in_use = lms.memory.bytes_in_use()
        interruption.action = manager.start_cancel
        with pytest.raises(tf.errors.CancelledError):
            cancelled()
        assert interruption.stored > 0
        assert lms.swap_statistics().stored_bytes == 0
        assert lms.memory.bytes_in_use() <= in_use
        interruption.action = None
        # What was cancelled may have come to some of its updates, as in any step.
        for variable, value in zip(step.variables, after_one):
            variable.assign(value)
        for loss in expected[1:]:
            assert float(step.run()) == pytest.approx(loss, rel=1e-5)


def in_threads(*bodies: Any) -> None:
    threads = [threading.Thread(target=body) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.slow
def test_functions_side_by_side_swap_into_one_directory(tmp_path: Path) -> None:
    names = ["dense", "dense", "masks", "cnn"]
    expected = [[float(step.run()) for _ in range(6)] for step in map(make, names)]
    steps = [make(name) for name in names]
    losses: list[list[float]] = [[] for _ in names]
    with swapping(tmp_path):
        in_threads(
            *(
                lambda step=step, of=of: of.extend(float(step.run()) for _ in range(6))
                for step, of in zip(steps, losses)
            )
        )
    for got, wanted in zip(losses, expected):
        assert got == pytest.approx(wanted, rel=1e-3)
    swapped = sum(report.swapped_bytes > 0 for report in lms.reports())
    assert swapped >= len(names) - (0 if ONEDNN else names.count("cnn"))
    assert lms.swap_statistics().stored_bytes == 0
    assert list(tmp_path.iterdir()) == []


def test_one_function_from_two_threads(tmp_path: Path) -> None:
    weights = squares(10, 128)

    @tf.function
    def gradients(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            y = chain(x, weights)
            loss = tf.reduce_mean(y * y)
        return [loss, *tape.gradient(loss, weights)]

    data = [tf.constant(normal(2048, 128, seed=i)) for i in range(2)]
    expected = [[part.numpy() for part in gradients(x)] for x in data]
    wrong = []

    def run(number: int) -> None:
        for _ in range(10):
            for got, wanted in zip(gradients(data[number]), expected[number]):
                if not np.allclose(got.numpy(), wanted, rtol=1e-4, atol=1e-6):
                    wrong.append(number)

    with swapping(tmp_path):
        in_threads(lambda: run(0), lambda: run(1))
    assert largest_report().swapped_bytes > 0
    assert wrong == []
    assert lms.swap_statistics().stored_bytes == 0


@pytest.mark.slow
def test_many_steps_take_no_more_of_anything(tmp_path: Path) -> None:
    step = make("dense")

    def taken() -> tuple[int, int, int]:
        return (
            len(os.listdir("/proc/self/fd")),
            lms.memory.bytes_in_use(),
            lms.swap_statistics().file_bytes,
        )

    with swapping(tmp_path):
        for _ in range(10):
            step.run()
        assert largest_report().swapped_bytes > 0
        before, threads = taken(), len(os.listdir("/proc/self/task"))
        for _ in range(200):
            step.run()
        # Python may have let go of what tests before this one held.
        assert all(now <= then for now, then in zip(taken(), before))
        assert len(os.listdir("/proc/self/task")) <= threads + 2  # TensorFlow's come and go
        peak = lms.swap_statistics().peak_stored_bytes
    assert peak >= largest_report().swapped_bytes > 0
    lms.enable("50%")
    lms.disable()
    assert lms.swap_statistics().file_bytes == 0


# ---- Processes that end ----

KILLED = """
import sys
import tensorflow as tf, lms
from swap_models import make, swapping, largest_report
step = make("dense")
with swapping(sys.argv[1]):
    step.run()
    assert largest_report().swapped_bytes > 0
    while True:
        step.run()
        print("step", flush=True)
"""


def spill_links(pid: int, directory: Path) -> list[str]:
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return [link for link in links if link.startswith(str(directory))]


def test_a_process_that_is_killed_while_it_trains_leaves_nothing(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(spill)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout is not None
    for _ in range(5):
        assert child.stdout.readline() == "step\n"
    links = spill_links(child.pid, spill)
    size = sum(
        os.stat(f"/proc/{child.pid}/fd/{fd}").st_blocks * 512
        for fd in os.listdir(f"/proc/{child.pid}/fd")
        if os.path.realpath(f"/proc/{child.pid}/fd/{fd}").startswith(str(spill))
    )
    child.send_signal(signal.SIGKILL)
    assert child.wait(60) == -signal.SIGKILL
    child.stdout.close()
    assert len(links) == 1 and links[0].endswith("(deleted)")
    assert size > 0  # which the disk had, and has again, as no name holds the file
    assert list(spill.iterdir()) == []
