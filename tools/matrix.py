"""Builds and tests the package with several TensorFlow versions, each in its own environment.

  ./run matrix [X.Y.Z ...]     those versions (default: all that are supported)
      --full                   the quick test set as well: with the Keras of the version's time all
                               of it and tf_keras, with the newest Keras the tests of Keras

Everything is kept under build/matrix/<minor version>/: the virtual environment (made once), the
CMake build directory and log.txt. The table shows which of install, build and tests/smoke.py
worked, and how many tests passed; the exit status is 1 where something failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import shutil
import sys
import time

from environments import RELEASES, ROOT, SUPPORTED, Failure, Log, minor_of, print_table

BUILD_TOOLS = ("cmake>=3.22", "ninja", "pybind11>=2.11", "setuptools>=77", "wheel", "rich>=12")
TEST_TOOLS = ("pytest>=7", "pytest-xdist>=3.8", "matplotlib>=3.5")
# What meets TensorFlow and Keras most: their private names, every form of program, sessions.
# Not those that go through the layers of the newest Keras one by one.
KERAS_TESTS = (
    *("keras", "keras_callback", "keras_data", "keras_export", "keras_xla", "hints_keras"),
    *("sizes_keras", "sizes_dataset", "private_names"),
)
QUICK_TESTS = (
    *(*KERAS_TESTS, "keras_2", "enable", "report", "explain", "no_report", "memory", "verify"),
    *("forms_branches", "forms_effects", "forms_functions", "forms_gradients", "forms_loops"),
    *("forms_sessions", "forms_tensors", "session", "sizes_session", "rewrite_flow"),
    *("rewrite_passes", "swap", "sums", "loop_segments", "mirrored", "random_state"),
)

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
        self._pip("installing TensorFlow", f"tensorflow-cpu=={self.tensorflow}", *BUILD_TOOLS)
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

    def install_test_tools(self) -> None:
        self._pip("installing pytest", *TEST_TOOLS)
        # Without its dependencies: it asks for the package tensorflow, also beside tensorflow-cpu.
        self._pip("installing tf_keras", "--no-deps", f"tf-keras=={minor_of(self.tensorflow)}.*")

    def install_keras(self, version: str) -> None:
        """`version`: of Keras 3; "": the newest."""
        what = ("-U", "keras") if not version else (f"keras=={version}",)
        self._pip(f"installing {' '.join(what)}", *what)

    def test(self, names: tuple[str, ...]) -> str:
        """How many passed; raises Failure where one did not, with that in its message."""
        files = [next((ROOT / "tests" / "python").glob(f"*/test_{name}.py")) for name in names]
        processes = len(os.sched_getaffinity(0))
        try:
            output = self.call(
                "testing",
                *(self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"),
                *("-n", processes, "--dist", "loadfile", "-c", ROOT / "pyproject.toml", *files),
            )
        except Failure as failure:
            counted = _counted(failure.output)
            raise Failure(f"{counted}; {failure}" if counted else str(failure)) from None
        return _counted(output)

    def _pip(self, step: str, *what: str) -> None:
        self.call(step, self.python, "-m", "pip", "install", "-q", *what)


def _counted(output: str) -> str:
    """pytest's last line, without how long it took."""
    lines = [line for line in output.splitlines() if re.search(r"\d (passed|failed|error)", line)]
    return re.sub(r" in [\d.]+s.*", "", lines[-1]).strip("= ") if lines else ""


@dataclasses.dataclass
class Row:
    """A line of the table: one TensorFlow with one Keras."""

    tensorflow: str
    python: str = ""
    keras: str = ""
    compiler: str = ""
    built: str = ""
    smoke: str = ""
    tests: str = ""
    works: bool = False

    TITLES = ("TensorFlow", "Python", "Keras", "compiler", "built in, s", "smoke test")

    def cells(self, full: bool) -> list[str]:
        first = [self.tensorflow, self.python, self.keras, self.compiler, self.built, self.smoke]
        return [*first, self.tests] if full else first


def try_version(tensorflow: str, full: bool) -> list[Row]:
    """Everything for one version: its lines of the table."""
    environment = Environment(tensorflow)
    known = [RELEASES[tensorflow]] if tensorflow in RELEASES else []
    kinds = [*known, ""] if full else [None]
    rows = [Row(tensorflow) for _ in kinds]
    try:
        environment.install()
        start = time.monotonic()
        environment.build()
        rows[0].built = f"{time.monotonic() - start:.0f}"
        if full:
            environment.install_test_tools()
    except Failure as failure:
        rows[0].smoke = str(failure)
        return rows[:1]
    for row, keras in zip(rows, kinds):
        try:
            if keras is not None:
                environment.install_keras(keras)
            facts = environment.facts()
            row.python, row.keras, row.compiler = (
                facts.get(name, "") for name in ("python", "keras", "compiler")
            )
            row.smoke = environment.smoke()
        except Failure as failure:
            row.smoke = str(failure)
            continue
        try:
            if keras is not None:
                row.tests = environment.test(QUICK_TESTS if row is rows[0] else KERAS_TESTS)
            row.works = True
        except Failure as failure:
            row.tests = str(failure)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./run matrix", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("versions", nargs="*", default=SUPPORTED, metavar="X.Y.Z")
    parser.add_argument("--full", action="store_true", help="the quick test set as well")
    args = parser.parse_args()
    count = len(args.versions)
    print(f"==> {count} TensorFlow versions, logs in build/matrix/*/log.txt", flush=True)
    rows = [row for version in args.versions for row in try_version(version, args.full)]
    titles = [*Row.TITLES, "quick tests"] if args.full else list(Row.TITLES)
    print_table([titles, *(row.cells(args.full) for row in rows)])
    return 0 if all(row.works for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
