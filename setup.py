"""Builds the Python package: setuptools for the Python files, CMake for the native library.

The library is compiled for one TensorFlow: the one of the environment that the package is
installed into. A wheel for several TensorFlow versions and Pythons is put together of what was
compiled before (./run wheels). Everything else about the package is in pyproject.toml.

Environment variables:
  LMS_PREBUILT    a directory with libraries (_lib) and modules (_native*.so): nothing is compiled
  LMS_BUILD_DIR   a CMake build directory to use and keep; by default a fresh one is made each time
  LMS_JOBS        how many compilers run at once (default: CMAKE_BUILD_PARALLEL_LEVEL, else as
                  many as there are processors, and 1.5 GB of free memory for each)
  LMS_CMAKE_ARGS  more arguments for CMake, separated by spaces
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.errors import SetupError

ROOT = Path(__file__).resolve().parent
PREBUILT = os.environ.get("LMS_PREBUILT", "")
GB_PER_COMPILER = 1.5  # what a source that includes TensorFlow takes

NO_TENSORFLOW = """
lms is compiled for the TensorFlow that is installed, and {python} has none.

  Install one first, then repeat your command:
    {python} -m pip install tensorflow-cpu        (or tensorflow, for GPUs)

  If it is installed and this build cannot see it (some installers build in an environment of
  their own), repeat your command with --no-build-isolation after
    {python} -m pip install "setuptools>=77" wheel cmake ninja pybind11
"""


def version() -> str:
    """The version in CMakeLists.txt, the one place that holds it."""
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    match = re.search(r"^project\(lms VERSION ([0-9.]+)", text, re.MULTILINE)
    if match is None:
        raise SetupError("CMakeLists.txt has no line project(lms VERSION ...)")
    return match.group(1)


def target_environment() -> dict[str, str]:
    """The environment variables under which sys.executable sees the installed TensorFlow.

    pip's build isolation hides the installed packages by PYTHONPATH and PYTHONNOUSERSITE alone,
    so a child process without them sees what the user has.
    """
    if importlib.util.find_spec("tensorflow") is not None:
        return dict(os.environ)
    hidden_by = ("PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE")
    clean = {name: value for name, value in os.environ.items() if name not in hidden_by}
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('tensorflow') is None)"
    # Not in the source directory: "" is on the child's path.
    if subprocess.run([sys.executable, "-c", code], env=clean, cwd=os.sep, check=False).returncode:
        raise SetupError(NO_TENSORFLOW.format(python=sys.executable))
    return clean


def compile_jobs(meminfo: str = "/proc/meminfo") -> str:
    """How many compilers run at once. The script `run` counts likewise."""
    for name in ("LMS_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL"):
        if os.environ.get(name):
            return os.environ[name]
    jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        text = Path(meminfo).read_text(encoding="utf-8")
    except OSError:  # no Linux: the processors alone count
        text = ""
    free = re.search(r"^MemAvailable: *([0-9]+) kB", text, re.MULTILINE)
    if free is not None:
        jobs = min(jobs, int(int(free.group(1)) * 1024 / GB_PER_COMPILER / 1e9))
    return str(max(1, jobs))


def tool(name: str) -> str:
    """The cmake or ninja program: of the PyPI package if this Python has it, else of the PATH.

    The program itself, not its Python wrapper: the wrapper cannot run in the clean environment.
    """
    spec = importlib.util.find_spec(name)
    if spec is not None:
        module = importlib.import_module(name)
        directory = getattr(module, "CMAKE_BIN_DIR", getattr(module, "BIN_DIR", None))
        if directory and os.access(os.path.join(directory, name), os.X_OK):
            return os.path.join(directory, name)
    found = shutil.which(name)
    if found is None:
        raise SetupError(f"{name} is missing: {sys.executable} -m pip install {name}")
    return found


class Build(build):
    """Keeps setuptools' own leftovers in one place and never packs those of an earlier build."""

    def finalize_options(self) -> None:
        if self.build_base == "build":
            self.build_base = os.path.join("build", "setuptools")
        super().finalize_options()

    def run(self) -> None:
        for package in ("lms", "lms_cli"):
            shutil.rmtree(os.path.join(self.build_lib, package), ignore_errors=True)
        super().run()


class BuildWithCMake(build_ext):
    """Makes lms/_native and lms/_lib, in the build tree or (editable) in the sources."""

    def run(self) -> None:
        inplace = self.inplace or getattr(self, "editable_mode", False)
        output = ROOT / "python" / "lms" if inplace else Path(self.build_lib).resolve() / "lms"
        if PREBUILT:
            shutil.copytree(PREBUILT, output, dirs_exist_ok=True)
            return
        environment = target_environment()
        if "LMS_BUILD_DIR" in os.environ:
            directory = Path(os.environ["LMS_BUILD_DIR"]).resolve()
        else:
            directory = Path(self.build_temp).resolve() / "cmake"
            shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)
        output.mkdir(parents=True, exist_ok=True)
        import pybind11

        cmake = tool("cmake")
        arguments = [
            "-G",
            "Ninja",
            f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
            f"-DLMS_PYTHON_OUTPUT_DIR={output}",
            *os.environ.get("LMS_CMAKE_ARGS", "").split(),
        ]
        for command in (
            [cmake, "-S", str(ROOT), "-B", str(directory), *arguments],
            [cmake, "--build", str(directory), "--target", "_native", "-j", compile_jobs()],
        ):
            print(" ".join(command), flush=True)
            if subprocess.run(command, env=environment, check=False).returncode:
                raise SetupError(
                    "the native library could not be built; the reason is above "
                    "(pip shows it with --verbose)"
                )

    def get_outputs(self) -> list[str]:
        return [self.get_ext_fullpath("lms._native")]


class Wheel(bdist_wheel):
    """Says of one that has modules for several Pythons that it is for all of them."""

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        return ("py3", "none", platform) if PREBUILT else (python, abi, platform)


setup(
    version=version(),
    # The sources are CMake's business; this says that the wheel is for one Python and platform.
    ext_modules=[Extension("lms._native", sources=[])],
    cmdclass={"build": Build, "build_ext": BuildWithCMake, "bdist_wheel": Wheel},
)
