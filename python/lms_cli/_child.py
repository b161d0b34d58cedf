"""Child processes that send JSON, an object a line, while they work."""

from __future__ import annotations

import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_TAIL = 4000  # characters of what a child said that are kept


def run_child(
    module: str,
    arguments: Sequence[str],
    receive: Callable[[dict[str, Any]], None],
    seconds: float,
    environment: Mapping[str, str] | None = None,
) -> tuple[str, str]:
    """Runs `python -m module DESCRIPTOR arguments...`, which writes its events to DESCRIPTOR.

    What it prints is kept apart. Returns ("" or why it did not end well, the end of what it
    printed). It is killed after `seconds`, or when the caller is interrupted.
    """
    reading, writing = os.pipe()
    path = os.pathsep.join(
        # So that a child finds what its parent runs from, installed or not.
        [str(pathlib.Path(__file__).absolute().parent.parent), os.environ.get("PYTHONPATH", "")]
    ).rstrip(os.pathsep)
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said,
        open(reading, "rb") as events,
    ):
        try:
            child = subprocess.Popen(
                [sys.executable, "-m", module, str(writing), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                pass_fds=[writing],
                env={**os.environ, "PYTHONPATH": path, **(environment or {})},
            )
        finally:
            os.close(writing)
        try:
            problem = _follow(child, events, receive, time.monotonic() + seconds, seconds)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        said.seek(0)
        return problem, said.read()[-_TAIL:]


def _follow(
    child: subprocess.Popen[bytes],
    events: Any,
    receive: Callable[[dict[str, Any]], None],
    until: float,
    seconds: float,
) -> str:
    rest = b""
    while True:
        left = until - time.monotonic()
        ready, _, _ = select.select([events], [], [], max(0.0, left))
        if not ready:
            return f"it took more than {seconds:g} s"
        data = os.read(events.fileno(), 1 << 16)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            receive(json.loads(line))
    try:
        code = child.wait(timeout=max(1.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return f"it took more than {seconds:g} s"
    if code < 0:
        import signal

        return f"it was ended by {signal.Signals(-code).name}"
    return f"it ended with status {code}" if code else ""
