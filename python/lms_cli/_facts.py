"""What can be known of the installation without importing lms or TensorFlow."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pathlib
import runpy
import sys
from types import ModuleType

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


def build_facts() -> dict[str, str]:
    """What lms' native library was built from and for; empty where it was never built."""
    directory = package_directory()
    path = None if directory is None else directory / "_build_info.py"
    if path is None or not path.exists():
        return {}
    facts = runpy.run_path(str(path)).get("FACTS", {})
    return {str(key): str(value) for key, value in facts.items()}


def installed(*names: str) -> tuple[str, str] | None:
    """(name, version) of the first of these distributions that is installed."""
    for name in names:
        try:
            return name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def version_line() -> str:
    facts = build_facts()
    if not facts:
        return "lms (not built)"
    return f"lms {facts['lms_version']}, built for TensorFlow {facts['tensorflow_version']}"


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
