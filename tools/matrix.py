"""Builds and smoke-tests the package with several TensorFlow versions, each in its own environment.

Use `./run matrix [X.Y.Z ...]`. Everything is kept under build/matrix/<minor version>/: the virtual
environment (made once), the CMake build directory and log.txt. The table shows which of install,
build and tests/smoke.py worked; the exit status is 1 when a step failed for a listed version.
"""

from __future__ import annotations

import json
import shutil
import sys
import time

from environments import ROOT, SUPPORTED, Failure, Log, minor_of, print_table

VERSIONS = ("2.15.1", *SUPPORTED)  # the first: with Keras 2, tried and not promised
BUILD_TOOLS = ("cmake>=3.22", "ninja", "pybind11>=2.11", "setuptools>=77", "wheel", "rich>=12")

FACTS = """
import json, platform
import keras
from lms import _native
facts = dict(_native.build_facts())
facts.update(python=platform.python_version(), keras=keras.__version__)
print("FACTS " + json.dumps(facts))
"""


class Environment:
    """One TensorFlow version in its own directory."""

    def __init__(self, tensorflow: str) -> None:
        self.tensorflow = tensorflow
        self.directory = ROOT / "build" / "matrix" / minor_of(tensorflow)
        self.python = self.directory / "venv" / "bin" / "python"
        self.call = Log(self.directory, tensorflow).call

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
        smoke = str(failure)
    names = ("python", "keras", "compiler")
    return works, [tensorflow, *(facts.get(name, "") for name in names), built, seconds, smoke]


def main() -> int:
    versions = sys.argv[1:] or VERSIONS
    print(f"==> {len(versions)} TensorFlow versions, logs in build/matrix/*/log.txt", flush=True)
    results = [try_version(version) for version in versions]
    titles = ["TensorFlow", "Python", "Keras", "compiler", "built", "seconds", "smoke test"]
    print_table([titles, *(row for _, row in results)])
    return 0 if all(works for works, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
