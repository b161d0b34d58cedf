"""Loads the native library, or says why it must not be loaded.

There is one library for each TensorFlow minor version that lms was built for, in `_lib`, and one
small module, `_native`, for each Python. The library for the TensorFlow that is installed is
loaded first, as any shared library; the module asks for it by a name that all of them share.

A library built for another TensorFlow minor version may load without an error and fail later
in ways that are hard to trace. So the facts that were written beside it when it was built
(`_lib/lms-tf*.json`) are compared with what is installed *before* it is loaded. Each
mismatch raises an ImportError with what it was built for, what was found, and the command
that repairs it.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.machinery
import importlib.metadata
import json
import logging
import pathlib
import re
import sys
import warnings
from collections.abc import Mapping
from typing import Any

_PACKAGE_DIR = pathlib.Path(__file__).resolve().parent
_LIBRARIES = _PACKAGE_DIR / "_lib"
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
            f"  fix:   {_pip('install tensorflow')}  ({_built_for()})"
        ) from error
    built = libraries()
    if not built:
        raise ImportError(_missing_text("its native library was never built (nothing in _lib)"))
    found = found_facts(tf)
    facts = built.get(_minor(found["tensorflow_version"]))
    problems = mismatches(facts, found) if facts else _no_library(built, found)
    if problems:
        raise ImportError(_mismatch_text(problems))
    assert facts is not None  # else there is a problem
    library = _LIBRARIES / f"liblms-tf{_minor(facts['tensorflow_version'])}.so"
    for path in (library, _module()):
        if not path.exists():
            raise ImportError(_missing_text(f"its native library ({path.name}) is missing"))
    try:
        ctypes.CDLL(str(library))
        native = importlib.import_module("lms._native")
    except (ImportError, OSError) as error:
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
    }
    installed = _installed_version()
    if installed is not None:
        found["lms_version"] = installed
    return found


def mismatches(facts: Mapping[str, str], found: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(fact, built for, found) of each fact that forbids loading; empty when all is well.

    TensorFlow must agree in major.minor, the C++ ABI and lms' own version exactly. The compiler
    is no reason to refuse: g++ builds work with TensorFlow's wheels, which clang built.
    """
    problems = []
    for key in ("lms_version", "tensorflow_version", "cxx11_abi"):
        if key not in found:
            continue
        built, here = facts.get(key, "unknown"), found[key]
        same = _minor(built) == _minor(here) if key == "tensorflow_version" else built == here
        if not same:
            problems.append((key, built, here))
    return problems


def version() -> str:
    """The version of this package."""
    return next(iter(libraries().values()))["lms_version"]


def libraries() -> dict[str, dict[str, str]]:
    """What each library that there is was built from and for, by TensorFlow's minor version."""
    found = {}
    for path in sorted(_LIBRARIES.glob("lms-tf*.json")):
        facts = {key: str(value) for key, value in json.loads(path.read_text("utf-8")).items()}
        found[_minor(facts["tensorflow_version"])] = facts
    return found


def _built_for() -> str:
    versions = [facts["tensorflow_version"] for facts in libraries().values()]
    return f"lms is built for {', '.join(versions)}" if versions else "then build lms for it"


def _no_library(
    built: Mapping[str, Mapping[str, str]], found: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    versions = " and ".join(facts["tensorflow_version"] for facts in built.values())
    return [("tensorflow_version", versions, found["tensorflow_version"])]


def _module() -> pathlib.Path:
    """The module for this Python; a name for it where there is none."""
    suffixes = importlib.machinery.EXTENSION_SUFFIXES
    paths = [_PACKAGE_DIR / f"_native{suffix}" for suffix in suffixes]
    return next((path for path in paths if path.exists()), paths[0])


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
