"""What the build promises: one version, a complete sdist, one question to TensorFlow."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import tarfile

import lms
import pytest
import setuptools
from lms import _loader, _native
from places import ROOT

pytestmark = pytest.mark.slow


def _run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]


def test_the_version_is_the_one_of_cmakelists() -> None:
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    (version,) = re.findall(r"^project\(lms VERSION ([0-9.]+)", text, re.MULTILINE)
    assert lms.__version__ == version
    ((minor, facts),) = _loader.libraries().items()
    assert facts["lms_version"] == version
    assert facts["tensorflow_version"].startswith(minor)
    assert "VERSION" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_versions_are_those_that_are_tried() -> None:
    environments = runpy.run_path(str(ROOT / "tools" / "environments.py"))
    minors = [version.split(".")[:2] for version in environments["SUPPORTED"]]
    (oldest, newest) = (minors[0], minors[-1])
    bounds = f">={'.'.join(oldest)},<{newest[0]}.{int(newest[1]) + 1}"
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r'"tensorflow(?:-cpu)?([<>=].*?)"', text) == [bounds, bounds]
    assert f"tensorflow-cpu=={environments['SUPPORTED'][-1]}" in (ROOT / "run").read_text("utf-8")


def test_the_command_is_installed_under_its_name() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    ((name, module, function),) = re.findall(r'^(\w+) = "(\w+):(\w+)"$', text, re.MULTILINE)
    assert name == "lms"
    assert callable(getattr(importlib.import_module(module), function))


def test_both_copies_of_the_build_facts_are_the_same() -> None:
    (facts,) = _loader.libraries().values()
    assert _native.build_facts() == facts
    assert all(facts.values())


PACKAGE = pathlib.Path(_native.__file__).parent
# What a file of those must say of itself: where it looks for others, and two that it needs.
BINARIES = {
    "_lib/liblms-tf*.so": (["$ORIGIN/../../tensorflow"], "libtensorflow_framework.so.2"),
    "_native*.so": ([], f"liblms-{lms.__version__}.so"),
}


@pytest.mark.parametrize("pattern", BINARIES)
def test_the_library_needs_no_path_of_the_machine_that_built_it(pattern: str) -> None:
    (library,) = PACKAGE.glob(pattern)
    dynamic = _run("readelf", "-d", library)
    assert dynamic.returncode == 0, dynamic.stderr
    paths = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic.stdout)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic.stdout)
    assert paths == BINARIES[pattern][0]
    assert BINARIES[pattern][1] in needed
    assert not [name for name in needed if "/" in name or "tensorflow_cc" in name]
    if pattern.startswith("_native"):  # one for all TensorFlow versions
        assert not [name for name in needed if "tensorflow" in name]


def _exported(pattern: str) -> list[str]:
    (library,) = PACKAGE.glob(pattern)
    symbols = _run("nm", "--dynamic", "--defined-only", "--demangle", library)
    assert symbols.returncode == 0, symbols.stderr
    return [line.split(maxsplit=2)[2] for line in symbols.stdout.splitlines()]


def test_the_module_exports_its_init_function_and_nothing_of_ours() -> None:
    exported = _exported("_native*.so")
    assert "PyInit__native" in exported
    assert not [name for name in exported if re.match(r"(.* for )?lms::", name)]


def test_the_library_exports_what_is_ours_and_nothing_else() -> None:
    """Symbols of TensorFlow or of the standard library could take the place of others'."""
    others = [
        n for n in _exported("_lib/*.so") if not re.match(r"((typeinfo|guard).* for )?lms::", n)
    ]
    assert others == []


def _sources() -> set[str]:
    """Files of the repository, or of what was unpacked where there is none."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        listed = _run("git", "-C", ROOT, "-c", f"safe.directory={ROOT}", "ls-files")
        if listed.returncode == 0:  # it may be another user's
            return set(listed.stdout.splitlines())
    made = ("build", "dist", "_lib", "__pycache__")
    return {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*")
        if path.is_file()
        and not any(part in made or part.startswith(".") for part in path.relative_to(ROOT).parts)
        and path.suffix not in (".so", ".pyc")
        and ".egg-info" not in str(path)
    }


def test_the_sdist_holds_all_sources_and_no_results_of_a_build(
    tmp_path: pathlib.Path,
) -> None:
    if not os.access(ROOT, os.W_OK):
        pytest.skip("setuptools makes its tree in the sources, which cannot be written here")
    made = _run(
        *(sys.executable, "setup.py", "-q", "egg_info", "--egg-base", tmp_path),
        *("sdist", "--dist-dir", tmp_path / "dist"),
        cwd=ROOT,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    (archive,) = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        held = {name.partition("/")[2] for name in tar.getnames()}
    needed = _sources()
    assert "tests/cc/CMakeLists.txt" in needed
    assert needed - held == set()
    assert not [name for name in held if name.endswith((".so", ".pyc")) or "/_lib/" in name]


@pytest.mark.parametrize(
    ("free_kb", "environment", "expected"),
    [
        (64_000_000, {}, "8"),
        (7_000_000, {}, "4"),  # 7.2 GB
        (900_000, {}, "1"),
        (None, {}, "8"),  # not known
        (7_000_000, {"LMS_JOBS": "6"}, "6"),
        (7_000_000, {"CMAKE_BUILD_PARALLEL_LEVEL": "3"}, "3"),
        (7_000_000, {"CMAKE_BUILD_PARALLEL_LEVEL": "3", "LMS_JOBS": "6"}, "6"),
    ],
)
def test_as_many_compilers_as_memory_is_free_for(
    free_kb: int | None,
    environment: dict[str, str],
    expected: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    meminfo = tmp_path / "meminfo"
    if free_kb is not None:
        meminfo.write_text(f"MemTotal:  99999999 kB\nMemAvailable:   {free_kb} kB\n")
    for name in ("LMS_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(setuptools, "setup", lambda **told: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    setup_script = runpy.run_path(str(ROOT / "setup.py"))
    assert setup_script["compile_jobs"](str(meminfo)) == expected


def test_a_build_without_tensorflow_stops_and_names_the_fix(tmp_path: pathlib.Path) -> None:
    # An interpreter that has setuptools and nothing else.
    python = tmp_path / "venv" / "bin" / "python"
    _run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    only_setuptools = tmp_path / "packages"
    only_setuptools.mkdir()
    spec = importlib.util.find_spec("setuptools")
    assert spec is not None and spec.origin is not None
    installed = pathlib.Path(spec.origin).parents[1]
    for name in ("setuptools", "_distutils_hack", "pkg_resources"):
        if (installed / name).exists():
            (only_setuptools / name).symlink_to(installed / name)
    built = _run(
        *(python, "setup.py", "build_ext", "--build-lib", tmp_path / "lib"),
        *("--build-temp", tmp_path / "temp"),
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(only_setuptools)},
    )
    assert built.returncode != 0
    assert f"{python} has none" in built.stderr
    assert f"{python} -m pip install tensorflow" in built.stderr
    assert "--no-build-isolation" in built.stderr
    assert not (tmp_path / "temp").exists()


def test_tensorflow_is_asked_once_for_a_build_directory(tmp_path: pathlib.Path) -> None:
    programs = pathlib.Path(sys.executable).parent
    if not (programs / "cmake").exists() or not (programs / "ninja").exists():
        pytest.skip("cmake and ninja are not in this environment")
    configure = (
        *(programs / "cmake", "-S", ROOT, "-B", tmp_path, "-G", "Ninja"),
        f"-DCMAKE_MAKE_PROGRAM={programs / 'ninja'}",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DLMS_PYTHON_OUTPUT_DIR={tmp_path / 'lms'}",
    )
    first = _run(*configure)
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("Asking") == 1
    again = _run(*configure)
    assert again.returncode == 0, again.stderr
    assert "Asking" not in again.stdout
    # Another TensorFlow in its place, as far as the stored key can tell.
    (tmp_path / "tensorflow_query.key").write_text("another")
    assert "Asking" in _run(*configure).stdout
