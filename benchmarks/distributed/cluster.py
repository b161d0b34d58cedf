"""Workers of one cluster on this machine: processes, and what they say. No TensorFlow."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_EVERY = 0.2  # seconds between two looks at the processes


class Cluster:
    """`module` run by so many workers, each with TF_CONFIG and `task` as JSON in its arguments.

    problem: of run(): why not all workers came to their end; "": all did.
    """

    def __init__(self, module: str, task: Any, workers: int) -> None:
        self._module, self._task, self._workers = module, task, workers
        self.problem = ""

    def run(self, patience: float) -> list[list[Any]]:
        """What each worker has said, in its order. All are killed where one has failed, or all
        have been silent for `patience` seconds."""
        addresses = _free_addresses(self._workers)
        with tempfile.TemporaryDirectory() as directory:
            files = [Path(directory) / str(index) for index in range(self._workers)]
            children = []
            for index, file in enumerate(files):
                file.touch()
                place = {"cluster": {"worker": addresses}}
                place["task"] = {"type": "worker", "index": index}  # type: ignore[assignment]
                command = [sys.executable, "-m", self._module, json.dumps(self._task), str(file)]
                environment = {**os.environ, "TF_CONFIG": json.dumps(place)}
                children.append(subprocess.Popen(command, env=environment))
            try:
                self._wait(children, files, patience)
            finally:
                for child in children:
                    child.kill()
                    child.wait()
            return [[json.loads(line) for line in file.open(encoding="utf-8")] for file in files]

    def _wait(self, children: list[Any], files: list[Path], patience: float) -> None:
        heard, last = 0, time.monotonic()
        while any(child.poll() is None for child in children):
            failed = [child.returncode for child in children if child.returncode]
            if failed:
                self.problem = f"a worker ended with status {failed[0]}"
                return
            size = sum(file.stat().st_size for file in files)
            if size != heard:
                heard, last = size, time.monotonic()
            elif time.monotonic() - last > patience:
                self.problem = f"nothing happened for {patience:g} s"
                return
            time.sleep(_EVERY)


def _free_addresses(count: int) -> list[str]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    finally:
        for one in sockets:
            one.close()


def say(value: Any) -> None:
    """Of a worker: one more thing that it says."""
    with open(sys.argv[2], "a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")
