"""What can be known of the installation without importing lms or TensorFlow."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from lms_cli._status import NotLoadedError

# TensorFlow is installed under one of these names.
TENSORFLOW_NAMES = (
    "tensorflow",
    "tensorflow-cpu",
    "tensorflow-gpu",
    "tensorflow-intel",
    "tf-nightly",
    "tf-nightly-cpu",
)


def package_directory() -> pathlib.Path | None:
    """Where the package lms is; None where there is none. lms is not imported."""
    loaded = sys.modules.get("lms")
    if loaded is not None and getattr(loaded, "__file__", None):
        return pathlib.Path(str(loaded.__file__)).parent
    try:
        spec = importlib.util.find_spec("lms")
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return pathlib.Path(next(iter(spec.submodule_search_locations)))


def libraries() -> dict[str, dict[str, str]]:
    """What each of lms' native libraries was built from and for, by TensorFlow's minor version."""
    directory = package_directory()
    found = {}
    for path in sorted(directory.glob("_lib/lms-tf*.json")) if directory else ():
        facts = {key: str(value) for key, value in json.loads(path.read_text("utf-8")).items()}
        found[minor(facts["tensorflow_version"])] = facts
    return found


def has_module() -> bool:
    """Is there a native module for this Python?"""
    directory = package_directory()
    suffixes = importlib.machinery.EXTENSION_SUFFIXES
    return directory is not None and any(
        (directory / f"_native{suffix}").exists() for suffix in suffixes
    )


def minor(version: str) -> str:
    match = re.match(r"\d+\.\d+", version)
    return match.group() if match else version


def installed(*names: str) -> tuple[str, str] | None:
    """(name, version) of the first of these distributions that is installed."""
    for name in names:
        try:
            return name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def version_line() -> str:
    built = list(libraries().values())
    if not built:
        return "lms (not built)"
    versions = ", ".join(facts["tensorflow_version"] for facts in built)
    return f"lms {built[0]['lms_version']}, built for TensorFlow {versions}"


def grouped(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by names of their own ("swap_host_limit") as lms.enable takes them; lms is loaded."""
    from lms._settings import swap_options

    return swap_options.grouped(options)


def load_lms() -> ModuleType:
    """The package lms.

    Raises:
      NotLoadedError: where it, or TensorFlow, cannot be imported, with the reason.
    """
    try:
        import lms
    except ImportError as error:
        raise NotLoadedError(f"{error}\n`lms doctor` tells more.") from error
    except Exception as error:  # TensorFlow's own start, as with a NumPy that it is not made for
        raise NotLoadedError(
            f"TensorFlow or lms could not be loaded: {type(error).__name__}: {error}\n"
            "`lms doctor` tells more."
        ) from error
    return lms


def process_seconds() -> float:
    """Since this process was started, loading of Python and packages included."""
    with (
        open("/proc/self/stat", encoding="utf-8") as stat,
        open("/proc/uptime", encoding="utf-8") as uptime,
    ):
        started = float(stat.read().rpartition(")")[2].split()[19])  # field 22 of proc(5)
        return float(uptime.read().split()[0]) - started / os.sysconf("SC_CLK_TCK")
