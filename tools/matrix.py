"""Builds and smoke-tests the package with several TensorFlow versions, each in its own environment.

Use `./run matrix [X.Y.Z ...]`. Everything is kept under build/matrix/<minor version>/: the virtual
environment (made once), the CMake build directory and log.txt. The table shows which of install,
build and tests/smoke.py worked; the exit status is 1 when a step failed for a listed version.

To add a TensorFlow version, add its latest patch release to VERSIONS.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

VERSIONS = ("2.15.1", "2.16.2", "2.17.1", "2.18.1", "2.19.1", "2.20.0", "2.21.0")
BUILD_TOOLS = ("cmake>=3.22", "ninja", "pybind11>=2.11", "setuptools>=77", "wheel", "rich>=12")

ROOT = Path(__file__).resolve().parent.parent
FACTS = """
import json, platform
import keras
from lms import _native
facts = dict(_native.build_facts())
facts.update(python=platform.python_version(), keras=keras.__version__)
print("FACTS " + json.dumps(facts))
"""


class Failure(Exception):
    """A step that did not work; the message is short, the log has the rest."""


class Environment:
    """One TensorFlow version in its own directory."""

    def __init__(self, tensorflow: str) -> None:
        self.tensorflow = tensorflow
        self.directory = ROOT / "build" / "matrix" / ".".join(tensorflow.split(".")[:2])
        self.python = self.directory / "venv" / "bin" / "python"
        self.log = self.directory / "log.txt"

    def call(self, step: str, *command: object, **variables: str) -> str:
        """Runs a command outside the source tree; returns its output, raises Failure."""
        print(f"    {self.tensorflow}: {step}", flush=True)
        environment = dict(
            os.environ, TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="", **variables
        )
        environment.pop("PYTHONPATH", None)
        result = subprocess.run(
            [str(word) for word in command],
            cwd=self.directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        with self.log.open("a") as log:
            log.write(f"\n==> {step}: {' '.join(map(str, command))}\n{result.stdout}")
        if result.returncode:
            raise Failure(f"{step} failed")
        return result.stdout

    def install(self) -> None:
        """Makes the virtual environment, unless an earlier run finished making the same one."""
        stamp = self.directory / "venv" / "lms-stamp"
        wanted = f"{sys.executable} {self.directory} {self.tensorflow} {BUILD_TOOLS}"
        if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
            return
        shutil.rmtree(self.directory / "venv", ignore_errors=True)
        self.call("making the environment", sys.executable, "-m", "venv", "venv")
        packages = (f"tensorflow-cpu=={self.tensorflow}", *BUILD_TOOLS)
        self.call("installing TensorFlow", self.python, "-m", "pip", "install", "-q", *packages)
        stamp.write_text(wanted)

    def build(self) -> None:
        self.call(
            "building",
            *(self.python, "-m", "pip", "install", "--no-build-isolation", "--no-deps"),
            *("--force-reinstall", "--verbose", ROOT),
            LMS_BUILD_DIR=str(self.directory / "cmake"),
        )

    def facts(self) -> dict[str, str]:
        output = self.call("reading the build facts", self.python, "-c", FACTS)
        line = next(line for line in output.splitlines() if line.startswith("FACTS "))
        return dict(json.loads(line[len("FACTS ") :]))

    def smoke(self) -> str:
        output = self.call("smoke test", self.python, ROOT / "tests" / "smoke.py")
        return output.strip().splitlines()[-1]


def try_version(tensorflow: str) -> tuple[bool, list[str]]:
    """Everything for one version: whether all of it worked, and its line of the table."""
    environment = Environment(tensorflow)
    environment.directory.mkdir(parents=True, exist_ok=True)
    environment.log.write_text("")
    facts: dict[str, str] = {}
    built, seconds, smoke = "no", "", ""
    works = False
    try:
        environment.install()
        start = time.monotonic()
        environment.build()
        built, seconds = "yes", f"{time.monotonic() - start:.0f}"
        facts = environment.facts()
        smoke = environment.smoke()
        works = True
    except Failure as failure:
        smoke = f"{failure}: see {environment.log.relative_to(ROOT)}"
    names = ("python", "keras", "compiler")
    return works, [tensorflow, *(facts.get(name, "") for name in names), built, seconds, smoke]


def main() -> int:
    versions = sys.argv[1:] or VERSIONS
    print(f"==> {len(versions)} TensorFlow versions, logs in build/matrix/*/log.txt", flush=True)
    results = [try_version(version) for version in versions]
    rows = [["TensorFlow", "Python", "Keras", "compiler", "built", "seconds", "smoke test"]]
    rows += [row for _, row in results]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    print()
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    return 0 if all(works for works, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
