"""A line on stderr while planning takes long, so that nobody thinks that the program hangs.

Planning happens inside TensorFlow, in the first call of a function, and holds that thread. A thread
of its own asks the native library now and then what is being planned.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

from lms import _native

_log = logging.getLogger("lms")
_AFTER = 1.0  # seconds: what takes less is not spoken of
_EVERY = 0.25
_AT_MOST = 600.0  # TensorFlow's own passes, and what a call does before, may take as long


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Around a call that may be planned: says so, once, where planning takes more than a second."""
    if sys.stderr is None or not _log.isEnabledFor(logging.WARNING):
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_watch, args=(done, sys.stderr), daemon=True, name="lms note")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _watch(done: threading.Event, stream: TextIO) -> None:
    waited = 0.0
    try:
        line = _Line(stream)
        while waited < _AT_MOST and not done.wait(_EVERY):
            waited += _EVERY
            now = _native.planning_now()
            if now is not None and now[3] >= _AFTER:
                line.show(*now)
            elif line.shown:
                break
        line.end()
    except (OSError, ValueError):  # a stream that is closed, or has lost its other end
        _log.debug("what is being planned could not be shown", exc_info=True)


class _Line:
    """What is being planned: kept up to date where that can be, else written once."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._live = self._terminal or type(stream).__module__.startswith("ipykernel")
        self._width = 0
        self.shown = False

    def show(self, function: str, operations: int, stage: str, seconds: float) -> None:
        if self.shown and not self._live:
            return
        text = f"lms: planning the memory of {_short(function)}: {operations:,} operations"
        if not self._live:
            self._write(f"{text}; this may take some seconds\n")
        else:
            text += f", {seconds:.0f} s" + f" ({stage})" * bool(stage)
            # Below what stands in the terminal's line, which may be a progress bar.
            below = "\n" if self._terminal and not self.shown else ""
            self._write(below + "\r" + text.ljust(self._width))
            self._width = len(text)
        self.shown = True

    def end(self) -> None:
        """Takes the line away, where it can be."""
        if self.shown and self._live:
            up = "\x1b[A" if self._terminal else ""
            self._write("\r" + " " * self._width + "\r" + up)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _short(function: str) -> str:
    """The name in the program: "train_step" of "__inference_train_step_1932"."""
    name = re.sub(r"^__(?:inference|forward|backward)_|_\d+$", "", function)
    return re.sub(r"_\d+$", "", name) or function
