"""PyTorch in a virtual environment of its own, so that nothing of it comes into .venv."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

BENCHMARKS = pathlib.Path(__file__).resolve().parents[1]
VENV = BENCHMARKS.parent / "build" / "peers" / "venv"
WANTED = ("torch==2.14.1", "numpy")


class NotThere(Exception):
    """PyTorch could not be installed."""


def python() -> str:
    """The environment's Python; makes the environment where it is lacking or another one."""
    stamp = VENV / "lms-stamp"
    if not stamp.exists() or stamp.read_text() != " ".join(WANTED):
        print(
            f"  making {VENV.relative_to(BENCHMARKS.parent)}: {', '.join(WANTED)} (some GB)",
            flush=True,
        )
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
            pip = [str(VENV / "bin" / "python"), "-m", "pip", "-q", "install", *WANTED]
            subprocess.run(pip, check=True)
        except subprocess.CalledProcessError as error:
            raise NotThere(f"{WANTED[0]} could not be installed") from error
        stamp.write_text(" ".join(WANTED))
    return str(VENV / "bin" / "python")


def run(module: str, words: Sequence[str], seconds: float) -> dict[str, Any]:
    """What the module writes as JSON into --out FILE."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as out:
        command = [python(), "-m", module, *words, "--out", out.name]
        path = {**os.environ, "PYTHONPATH": str(BENCHMARKS)}
        subprocess.run(command, check=True, timeout=seconds, env=path)
        found: dict[str, Any] = json.load(out)
        return found
