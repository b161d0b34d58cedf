"""Runs Python code in forks of a process that has imported TensorFlow, Keras and lms already, and
has done nothing with them: to import them takes longer than many a child has to do.

For code that asks for nothing else: not for what TensorFlow reads from the environment as it is
imported, nor for how a process begins or ends (exit handlers do not run).
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from patience import HANGS
from places import PYTHONPATH

# TF_CPP_MIN_LOG_LEVEL is read once, as TensorFlow is imported.
SERVER = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": PYTHONPATH}
_starting = threading.Lock()


class Fork:
    """A child that runs `code`; what it prints is in the file `output`, which is made."""

    def __init__(self, code: str, output: Path, environment: Mapping[str, str] | None = None):
        _start_server()
        self._output = output
        output.touch()
        environment = {**os.environ, **SERVER, **(environment or {})}
        forks = multiprocessing.get_context("forkserver")
        self._child = forks.Process(target=_run_code, args=(code, environment, str(output)))
        self._child.start()

    @property
    def status(self) -> int | None:
        """As of subprocess: less than 0 for a signal; None while it runs."""
        return self._child.exitcode

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def wait(self, seconds: float = HANGS) -> None:
        self._child.join(seconds)

    def kill(self) -> None:
        self._child.kill()
        self._child.join()


def run_forked(code: str, **environment: str) -> tuple[int, str]:
    """Exit status and output, as of helpers.run_python()."""
    with tempfile.TemporaryDirectory(prefix="lms-fork-") as directory:
        child = Fork(code, Path(directory) / "output", environment)
        child.wait()
        status = child.status
        if status is None:
            child.kill()
            raise subprocess.TimeoutExpired("run_forked", HANGS, child.output.encode())
        return status, child.output


def _start_server() -> None:
    """The process that is forked, where it does not run yet: one for each that tests."""
    with _starting, mock.patch.dict(os.environ, SERVER):
        multiprocessing.set_forkserver_preload(["tensorflow", "keras", "lms", __name__, "frozen"])
        multiprocessing.forkserver.ensure_running()


def _run_code(code: str, environment: dict[str, str], output: str) -> None:
    """In the fork."""
    file = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c"]  # not those of the process that tests, nor is its path
    sys.path[:0] = PYTHONPATH.split(os.pathsep)
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
