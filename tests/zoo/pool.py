"""Child processes: one per model, some at once, each with a time and a memory that it may take.

A child starts where the machine has the memory that it took the last time (or all that it may
take, where that is not known), or nothing else runs. No TensorFlow.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from zoo.kinds import Kind

_POLL_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What all children share: how many at once, seconds and resident bytes of each."""

    jobs: int
    seconds: float
    bytes: int


class _Child:
    def __init__(self, kind: Kind, name: str, place: pathlib.Path) -> None:
        self.name = name
        self.out = place / f"{name}.json"
        self.log = kind.logs / f"{name}.log"
        self.began = time.monotonic()
        self.highest = 0  # resident bytes
        self.ended = ""  # by us, and why
        kind.logs.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "zoo", *kind.flags, "--child", name]
        command += ["--out", str(self.out)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env=_environment(kind, place),
                start_new_session=True,
            )

    def poll(self, bounds: Bounds) -> bool:
        """Whether it has ended; ends it where it takes too much."""
        if self.process.poll() is not None:
            return True
        self.highest = max(self.highest, _resident(self.process.pid))
        taken = time.monotonic() - self.began
        if taken > bounds.seconds:
            self.end(f"took more than {bounds.seconds:g} s")
        elif self.highest > bounds.bytes:
            self.end(f"took more than {bounds.bytes / 2**30:.2g} GiB")
        return self.process.poll() is not None

    def end(self, why: str) -> None:
        self.ended = why
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {"model": self.name}
        status = self.process.returncode
        if self.ended or status != 0 or not self.out.exists():
            lines = self.log.read_text(errors="replace").strip().splitlines()
            # The last line of TensorFlow's errors names the function, and not what went wrong.
            errors = [line for line in lines if "Error" in line or "OOM" in line]
            said = f": {(errors or lines)[-1][:300]}" if lines and not self.ended else ""
            row["error"] = self.ended or f"the process ended with status {status}{said}"
        else:
            row.update(json.loads(self.out.read_text()))
        row["process_seconds"] = time.monotonic() - self.began
        row["process_bytes"] = self.highest
        return row


def run(
    kind: Kind, names: Sequence[str], bounds: Bounds, known: dict[str, dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """(name, None) where one begins, and (name, row) where it has ended.

    known: rows of earlier times. Closing the iterator ends the children that run.
    """
    waiting = list(names)
    running: list[_Child] = []
    with tempfile.TemporaryDirectory(prefix="lms-zoo-") as place:
        try:
            while waiting or running:
                if waiting and len(running) < bounds.jobs:
                    needed = known.get(waiting[0], {}).get("process_bytes") or bounds.bytes
                    # What those that run have not taken yet is theirs.
                    taken = [
                        max(0, (known.get(c.name, {}).get("process_bytes") or 0) - c.highest)
                        for c in running
                    ]
                    if not running or needed + sum(taken) < _available():
                        name = waiting.pop(0)
                        running.append(_Child(kind, name, pathlib.Path(place)))
                        yield name, None
                        continue
                time.sleep(_POLL_SECONDS)
                for child in [child for child in running if child.poll(bounds)]:
                    running.remove(child)
                    yield child.name, child.row()
        finally:
            for child in running:
                child.end("interrupted")


def _environment(kind: Kind, place: pathlib.Path) -> dict[str, str]:
    """One thread of each kind, no options of the user's, nor times measured on this machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LMS_")}
    if not kind.on_gpu:
        kept["CUDA_VISIBLE_DEVICES"] = ""
    return {
        **kept,
        "LMS_PROFILE_DIR": str(place),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_NUM_INTEROP_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": "1",
    }


def _resident(pid: int) -> int:
    try:
        pages = pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _available() -> int:
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
