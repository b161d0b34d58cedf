"""Copies of the package that differ from it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from helpers import PACKAGE
from lms import _loader

((MINOR, FACTS),) = _loader.libraries().items()
LIBRARY = PACKAGE / "_lib" / f"liblms-tf{MINOR}.so"


def copy_package(target: Path, facts: dict[str, Any] | None = None, without: str = "") -> Path:
    """A copy of the package whose build facts differ, or that lacks files like `without`."""
    copy = target / "lms"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.so", "lms-tf*"))
    for path in (*PACKAGE.glob("_native*.so"), LIBRARY):
        if not (without and path.match(without)):
            (copy / path.relative_to(PACKAGE)).symlink_to(path)
    facts = {**FACTS, **(facts or {})}
    (copy / "_lib" / f"lms-tf{facts['tensorflow_version']}.json").write_text(json.dumps(facts))
    return target
