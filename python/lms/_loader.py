"""Loads the native library, or says why it must not be loaded.

A library built for another TensorFlow minor version may load without an error and fail later
in ways that are hard to trace. So the facts that were written beside it when it was built
(`_build_info.FACTS`) are compared with what is installed *before* it is loaded. Each
mismatch raises an ImportError with what it was built for, what was found, and the command
that repairs it.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import logging
import pathlib
import re
import sys
import warnings
from collections.abc import Mapping
from typing import Any

_PACKAGE_DIR = pathlib.Path(__file__).resolve().parent
_log = logging.getLogger("lms")


def load() -> None:
    """Imports TensorFlow, compares the build facts, imports `lms._native`.

    Raises ImportError where that cannot be; but `python -m lms` goes on as the command, which
    says what is wrong (`lms doctor`) and needs nothing of this package.
    """
    try:
        _load()
    except ImportError:
        if not _asked_as_command():
            raise
        sys.argv[0] = "lms"  # what the command itself imports is no longer asked for by -m
        sys.modules.pop("lms", None)  # the half of it that there is
        command = importlib.import_module("lms_cli")
        raise SystemExit(command.main()) from None


def _asked_as_command() -> bool:
    """Is this the import that `python -m lms` begins with?"""
    words = list(getattr(sys, "orig_argv", ()))  # since Python 3.10
    if not words:
        with open("/proc/self/cmdline", "rb") as file:
            words = [word.decode(errors="replace") for word in file.read().split(b"\0")]
    named = any(
        option.startswith("-") and option.endswith("m") and name == "lms"
        for option, name in zip(words, words[1:])
    )
    return sys.argv[:1] == ["-m"] and named  # "-m" until the module has been found


def _load() -> None:
    try:
        # First: the native library finds TensorFlow's own library already loaded.
        tf = importlib.import_module("tensorflow")
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise ImportError(
            "lms needs TensorFlow, and none is installed in this environment.\n"
            "  fix:   " + _pip("install tensorflow") + "  (then build lms again for it)"
        ) from error
    facts = _facts()
    found = found_facts(tf)
    problems = mismatches(facts, found)
    if problems:
        raise ImportError(_mismatch_text(problems))
    library = _library()
    if library is None:
        raise ImportError(_missing_text("its native library (_native*.so) is missing"))
    try:
        native = importlib.import_module("lms._native")
    except ImportError as error:
        raise ImportError(
            f"lms' native library {library} cannot be loaded: {error}\n"
            f"  built for: {_show(facts)}\n  found:     {_show(found)}\n  fix:       {_fix()}"
        ) from error
    compiled_in = {key: str(value) for key, value in native.build_facts().items()}
    stale = [
        (key, compiled_in.get(key, "unknown"), value)
        for key, value in facts.items()
        if compiled_in.get(key) != value
    ]
    if stale:
        # The library and the file beside it come from two builds.
        raise ImportError(_mismatch_text(stale))
    if native.registration() == "duplicate":
        warnings.warn(
            "another copy of lms has registered LmsOptimizer in this process before "
            f"{library}: the first copy does the work, and the reports of this one stay "
            "empty. Import lms from one place only.",
            RuntimeWarning,
            stacklevel=3,
        )


def found_facts(tf: Any) -> dict[str, str]:
    """The installed counterparts of the build facts, as far as they can be known."""
    found = {
        "tensorflow_version": str(tf.__version__),
        "cxx11_abi": str(int(tf.sysconfig.CXX11_ABI_FLAG)),
        "python_version": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    installed = _installed_version()
    if installed is not None:
        found["lms_version"] = installed
    return found


def mismatches(facts: Mapping[str, str], found: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(fact, built for, found) of each fact that forbids loading; empty when all is well.

    TensorFlow and Python must agree in major.minor, the C++ ABI and lms' own version
    exactly. The compiler is no reason to refuse: g++ builds work with TensorFlow's wheels,
    which clang built.
    """
    problems = []
    for key in ("lms_version", "tensorflow_version", "python_version", "cxx11_abi"):
        if key not in found:
            continue
        built, here = facts.get(key, "unknown"), found[key]
        if key in ("tensorflow_version", "python_version"):
            same = _minor(built) == _minor(here)
        else:
            same = built == here
        if not same:
            problems.append((key, built, here))
    return problems


def version() -> str:
    """The version of this package."""
    return _facts()["lms_version"]


def _facts() -> dict[str, str]:
    try:
        module = importlib.import_module("lms._build_info")
    except ModuleNotFoundError as error:
        raise ImportError(
            _missing_text("its native library was never built (no _build_info.py)")
        ) from error
    return {key: str(value) for key, value in module.FACTS.items()}


def _library() -> pathlib.Path | None:
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = _PACKAGE_DIR / f"_native{suffix}"
        if path.exists():
            return path
    return None


def _installed_version() -> str | None:
    """The version in the metadata of the installed package, where that is this very copy."""
    try:
        distribution = importlib.metadata.distribution("tf-lms")
        if pathlib.Path(str(distribution.locate_file("lms"))).resolve() == _PACKAGE_DIR:
            return distribution.version
    except importlib.metadata.PackageNotFoundError:
        _log.debug("lms runs from a source tree: no installed metadata to compare with")
    return None


_NAMES = {
    "lms_version": "lms",
    "tensorflow_version": "TensorFlow",
    "python_version": "Python",
    "cxx11_abi": "C++11 ABI",
    "compiler": "compiler",
}


def _minor(text: str) -> str:
    match = re.match(r"\d+\.\d+", text)
    return match.group() if match else text


def _show(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{_NAMES.get(key, key)} {value}" for key, value in facts.items())


def _pip(arguments: str) -> str:
    return f"{sys.executable} -m pip {arguments}"


def _fix() -> str:
    root = _PACKAGE_DIR.parent.parent
    if (root / "CMakeLists.txt").exists():  # imported from a source tree
        return _pip(f"install --no-deps --editable {root}")
    return _pip("install --force-reinstall --no-deps --no-cache-dir <directory of lms' sources>")


def _mismatch_text(problems: list[tuple[str, str, str]]) -> str:
    built = ", ".join(f"{_NAMES.get(key, key)} {value}" for key, value, _ in problems)
    found = ", ".join(f"{_NAMES.get(key, key)} {value}" for key, _, value in problems)
    return (
        "lms' native library does not fit this environment.\n"
        f"  built for: {built}\n  found:     {found}\n  fix:       {_fix()}"
    )


def _missing_text(what: str) -> str:
    return f"lms cannot be imported: {what} in {_PACKAGE_DIR}.\n  fix: {_fix()}"
