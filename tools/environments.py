"""Environments for commands that install lms: TensorFlow versions, Pythons, and a log of commands.

To add a TensorFlow version, add a line to RELEASES: ./run matrix, wheels and packaging take it from
there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Of each minor version the latest patch release, and the Keras that pip gave beside x.y.0.
RELEASES = {
    "2.16.2": "3.0.5",
    "2.17.1": "3.4.1",
    "2.18.1": "3.6.0",
    "2.19.1": "3.9.0",
    "2.20.0": "3.11.2",
    "2.21.0": "3.13.2",
}
SUPPORTED = tuple(RELEASES)
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
# The newest TensorFlow minor version that has wheels for a Python, where that is not the newest.
NEWEST_FOR = {"3.9": "2.20"}


class Failure(Exception):
    """A step that did not work; the message is short, the log has the rest.

    output: what the step printed.
    """

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class Log:
    """Runs commands in a folder outside of the sources, and keeps what they print in log.txt."""

    def __init__(self, place: Path, title: str = "") -> None:
        self.place = place
        self.title = f"{title}: " if title else ""
        place.mkdir(parents=True, exist_ok=True)
        self.file = place / "log.txt"
        self.file.write_text("")

    def call(self, step: str, *command: object, **variables: str) -> str:
        """Returns the command's output; raises Failure where it fails."""
        print(f"    {self.title}{step}", flush=True)
        environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="")
        environment.pop("PYTHONPATH", None)
        result = subprocess.run(
            [str(word) for word in command],
            cwd=self.place,
            env={**environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        with self.file.open("a") as log:
            log.write(f"\n==> {step}: {' '.join(map(str, command))}\n{result.stdout}")
        if result.returncode:
            where = self.file.relative_to(ROOT)
            raise Failure(f"{step} failed: see {where}", result.stdout)
        return result.stdout


def minor_of(version: str) -> str:
    return ".".join(version.split(".")[:2])


def pythons_here() -> dict[str, Path]:
    """The Pythons of PYTHONS that can be found, on the PATH or where pyenv keeps them."""
    found = {}
    for version in PYTHONS:
        kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
        at = kept[-1] if kept else shutil.which(f"python{version}")
        if at:
            found[version] = Path(at)
    return found


def newest_for(python: str, versions: tuple[str, ...] = SUPPORTED) -> str:
    """The newest of these TensorFlow versions that has wheels for the Python; "" where none has."""
    newest = NEWEST_FOR.get(python)
    fitting = [v for v in versions if newest is None or minor_of(v) == newest]
    return fitting[-1] if fitting else ""


def print_table(rows: list[list[str]]) -> None:
    """The first row: the titles of the columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    print()
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
