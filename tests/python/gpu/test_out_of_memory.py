"""Steps that run out of memory: what they are told, and being run again with less."""

from __future__ import annotations

import logging
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gpu_child
import lms
import pytest
import tensorflow as tf
from gpu_child import needs_standin
from helpers import make_step
from lms import _native
from lms._base import failure
from lms._base.format import format_bytes
from lms._learnt import out_of_memory

FILE = "oom_programs.py"
ARENA_MB = 200
# Each allocation that finds no room is waited for some ten seconds by TensorFlow: all at once.
PROGRAMS = ("told", "run_again", "run_again_with_less", "session")


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    with ThreadPoolExecutor(len(PROGRAMS)) as pool:
        made = pool.map(lambda name: gpu_child.run(FILE, name, memory_mb=ARENA_MB), PROGRAMS)
        return dict(zip(PROGRAMS, made))


@pytest.fixture(scope="module")
def others() -> dict[str, str]:
    return gpu_child.run(FILE, "others", memory_mb=ARENA_MB)


@pytest.mark.slow
@needs_standin
def test_the_error_says_what_was_asked_for_and_what_was_done(found):
    note = found["told"]["note"]
    assert (
        "out of memory on GPU:0. TensorFlow asked for 1 MiB, a tensor of shape [1024, 256]" in note
    )
    # Which operation finds no room hangs on where the step before has left holes.
    most, others = found["told"]["most"], found["told"]["others"]
    assert most >= (ARENA_MB - 2) << 20 and others >= (ARENA_MB - 40) << 20
    assert (
        f"up to {format_bytes(most)} were in use there, "
        f"{format_bytes(others)} of them not by this step" in note
    )
    assert "lms has left the step as it is, because it is predicted to take 54 MiB" in note
    assert note.endswith("More: docs/out-of-memory.md")
    assert found["told"]["unchanged"]


@pytest.mark.slow
@needs_standin
def test_the_budget_that_it_names_trains(found):
    told = found["told"]
    assert "This budget is predicted to train" in told["note"]
    assert len(told["losses"]) == 3
    assert told["measured"] <= 40 << 20


@pytest.mark.slow
@needs_standin
def test_a_v1_session_is_told_the_same(found):
    note = found["session"]["note"]
    assert "out of memory on GPU:0. TensorFlow asked for 1 MiB" in note
    assert "lms has left the step as it is, because it is predicted to take" in note
    assert "This budget is predicted to train: memory_budget=" in note
    assert "lms does not run the step again" in note and "not for sessions" in note


@pytest.mark.slow
@needs_standin
def test_a_step_is_undone_and_run_again_with_the_same_bits(found):
    """Averages of batches, seeds of dropout and counters change before the step fails."""
    enough, short = found["run_again"], found["run_again_with_less"]
    assert enough["lines"] == [] and enough["status"] == "fits"
    assert short["lines"] and short["status"] == "rewritten"
    assert all("planned for less, and run again" in line for line in short["lines"])
    assert short["losses"] == enough["losses"]
    assert short["state"] == enough["state"]


@pytest.mark.slow
@needs_standin
def test_what_cannot_be_undone_is_not_run_again(others):
    note = others["changes_first"]
    assert "lms does not run the step again: a variable has been changed already." in note


@pytest.mark.slow
@needs_standin
def test_a_batch_that_is_lost_is_said_to_be(others):
    lines = others["takes_a_batch"]
    assert "The batch that it had taken from its iterator is lost." in lines


@pytest.mark.slow
@needs_standin
def test_where_there_is_nothing_to_gain_that_is_said(others):
    assert "No plan was found that takes less than" in others["forward_only"]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (
            "OOM when allocating tensor with shape[64,256,56,56] and type half on /job:localhost/"
            "replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node a/Conv2D}}]]",
            ("98 MiB, a tensor of shape [64, 256, 56, 56] and type half", "a/Conv2D", "GPU:0"),
        ),
        (
            "OOM when allocating tensor with shape[] and type resource on /job:localhost/replica:0/"
            "task:0/device:CPU:0 by allocator cpu",
            ("a tensor of shape [] and type resource", "", "CPU:0"),
        ),
        ("lms/swap_out/x: swapped tensors take more than the limit", None),
        ("SameWorkerRecvDone unable to allocate output tensor", None),
    ],
)
def test_what_tensorflow_says_is_read(text, asked):
    found = out_of_memory.asked_for(text)
    if found is None or asked is None:
        assert found is asked
        return
    what, node, device = found
    assert (what, node, re.sub(r".*/device:", "", device)) == asked


def _no_room() -> None:
    raise MemoryError(  # of which TensorFlow makes a ResourceExhaustedError
        "OOM when allocating tensor with shape[2,3] and type float on /job:localhost/replica:0/"
        "task:0/device:CPU:0 by allocator cpu"
    )


def _failing_step():
    """A step of which an operation says that there is no room."""
    train, _ = make_step()

    @tf.function
    def step():
        tf.py_function(_no_room, [], [])
        return train()

    return step


def _error(step) -> tf.errors.ResourceExhaustedError:
    with pytest.raises(tf.errors.ResourceExhaustedError) as raised:
        step()
    return raised.value


def _words(error: Exception, caplog: Any) -> str:
    return " ".join([*getattr(error, "__notes__", []), caplog.text])


def test_the_note_stands_where_people_read_it(caplog):
    """Below the error from Python 3.11 on, else in a warning before it."""
    with lms.enabled("60%"):
        error = _error(_failing_step())
    text = " ".join(getattr(error, "__notes__", []))
    text = text if sys.version_info >= (3, 11) else caplog.text
    assert "lms: out of memory on CPU:0. TensorFlow asked for 24 B" in text
    assert "lms has changed the step for a budget of" in text


def test_the_least_that_it_names_is_no_more_than_is_predicted(caplog, monkeypatch):
    """What is planned there and then may do with fewer means than the step."""
    points = [(1 << 40, 1 << 40, 0.5, False)]
    monkeypatch.setattr(_native, "plan_for_budgets", lambda *_: {"points": points})
    with lms.enabled("60%"):
        words = _words(_error(_failing_step()), caplog)
    predicted = re.search(r"it is predicted to take (\S+ \S+)\. ", words)
    least = re.search(r"No plan was found that takes less than (\S+ \S+):", words)
    assert least.group(1) == predicted.group(1)


def test_without_lms_nothing_is_added(caplog):
    assert "lms" not in _words(_error(_failing_step()), caplog)


def test_what_acts_outside_of_tensorflow_is_not_run_again(caplog):
    with lms.enabled("60%", on_oom="replan"):
        words = _words(_error(_failing_step()), caplog)
    assert re.search(r"does not run the step again: \w*PyFunc \S+ has run already", words), words


def test_an_error_of_our_own_there_is_logged_and_the_error_stays(caplog):
    failure.inject("out of memory")
    with lms.enabled("60%"), caplog.at_level(logging.WARNING, logger="lms"):
        error = _error(_failing_step())
    assert "lms: out of memory on" not in _words(error, caplog)
    assert "injected into" in caplog.text
