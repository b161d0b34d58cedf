"""Where things lie, and the path on which a process of its own finds lms and all tests' modules."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parents[1]
_lms = importlib.util.find_spec("lms")
assert _lms is not None and _lms.origin is not None
SOURCES = Path(_lms.origin).parents[1]  # the checkout's, or where the package is installed
ROOMS = [str(room) for room in sorted(TESTS.iterdir()) if any(room.glob("*.py"))]
PYTHONPATH = os.pathsep.join([str(SOURCES), *ROOMS])
FAULT_SHIM = TESTS / "swapping" / "fault_shim.c"  # a library that makes calls of the system fail
