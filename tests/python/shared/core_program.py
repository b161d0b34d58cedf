"""The program lms-core, as it was built last."""

from __future__ import annotations

import subprocess
import sys

from places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from patience import HANGS
from planner.core import program


def run_core(
    *words: object, text: str | bytes = "", status: int = 0
) -> subprocess.CompletedProcess:
    """Runs lms-core with `text` as its standard input, and checks its exit status."""
    done = subprocess.run(
        [str(program()), *map(str, words)],
        input=text.encode() if isinstance(text, str) else text,
        capture_output=True,
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == status, done.stderr.decode()
    assert bool(done.stderr) == (status >= 2)
    return done
