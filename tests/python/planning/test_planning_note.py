"""Planning that takes long is said, once, where it can be seen."""

import io
import logging
import sys
import time

import lms
import pytest
from helpers import make_step
from lms import _native
from lms._base import planning_note


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def stderr(monkeypatch):
    """Makes sys.stderr the stream, and the waits short."""
    monkeypatch.setattr(planning_note, "_EVERY", 0.005)
    monkeypatch.setenv("TERM", "xterm")

    def use(stream):
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    return use


def planning(monkeypatch, *moments):
    """What the native library says, one after the other; then that nothing is planned."""
    left = list(moments)
    monkeypatch.setattr(_native, "planning_now", lambda: left.pop(0) if left else None)

    def wait():
        end = time.monotonic() + 10
        while left and time.monotonic() < end:
            time.sleep(0.005)
        time.sleep(0.05)

    return wait


NAME = "__inference_train_step_1932"


def test_a_line_where_nothing_can_be_taken_back(stderr, monkeypatch):
    stream = stderr(io.StringIO())
    wait = planning(monkeypatch, (NAME, 12345, "sizes", 0.4), *[(NAME, 12345, "plan", 1.2)] * 3)
    with planning_note.noted():
        wait()
    assert stream.getvalue() == (
        "lms: planning the memory of train_step: 12,345 operations; this may take some seconds\n"
    )


def test_a_terminal_has_a_line_of_its_own_that_is_taken_away(stderr, monkeypatch):
    stream = stderr(Terminal())
    wait = planning(monkeypatch, (NAME, 12345, "plan", 1.2), (NAME, 12345, "verify", 2.1))
    with planning_note.noted():
        wait()
    text = stream.getvalue()
    line = "\rlms: planning the memory of train_step: 12,345 operations, "
    assert text.startswith(f"\n{line}1 s (plan)") and f"{line}2 s (verify)" in text
    assert text.endswith(" \r\x1b[A") and text.count("\n") == 1


def test_what_is_soon_done_is_not_spoken_of(stderr, monkeypatch):
    stream = stderr(io.StringIO())
    wait = planning(monkeypatch, None, (NAME, 5, "plan", 0.9), (NAME, 5, "verify", 0.99))
    with planning_note.noted():
        wait()
    assert stream.getvalue() == ""


def test_who_wants_to_hear_nothing_does_not(stderr, monkeypatch):
    stream = stderr(io.StringIO())
    monkeypatch.setattr(logging.getLogger("lms"), "level", logging.ERROR)
    logging.getLogger("lms").manager._clear_cache()
    try:
        planning(monkeypatch, *[(NAME, 5, "plan", 3.0)] * 9)
        with planning_note.noted():
            time.sleep(0.1)
    finally:
        logging.getLogger("lms").manager._clear_cache()
    assert stream.getvalue() == ""


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_a_stream_that_is_gone_does_no_harm(stderr, monkeypatch, stream):
    if stream is not None:
        stream.close()
    stderr(stream)
    planning(monkeypatch, *[(NAME, 5, "plan", 3.0)] * 3)
    with planning_note.noted():
        time.sleep(0.1)  # nobody asks on where nothing can be shown


def test_the_first_call_of_a_real_step_is_watched(stderr, monkeypatch):
    """Whatever long is here: the native library tells what it plans while it does."""
    stream = stderr(io.StringIO())
    monkeypatch.setattr(planning_note, "_EVERY", 0.0005)
    monkeypatch.setattr(planning_note, "_AFTER", 0.0)
    lms.enable("60%")
    step, _ = make_step(layers=30, batch=512)
    step()
    said = stream.getvalue()
    assert said.startswith("lms: planning the memory of ") and said.count("\n") == 1
    step()
    assert stream.getvalue() == said
