"""Runs programs on the stand-in GPU (tests/standin), each in a process of its own.

A file of programs ends with `gpu_child.main(globals())`; run as a program,

    python FILE NAME [standin settings as name=value …]

prints what the function NAME of it returns as JSON, in a line that begins with "RESULT ".
Where LMS_TEST_CARD is set they run on the first GPU of the machine instead, as ./run gpu does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from forked import SERVER, run_forked
from patience import HANGS
from places import ROOT

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tests" / "standin"))
import standin  # noqa: E402

ON_CARD = bool(os.environ.get("LMS_TEST_CARD"))
_PROGRAM = """
import runpy, sys
sys.argv = {0!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
CARD_BYTES = 2 << 30  # libraries of a card take some memory of their own
needs_gpu = pytest.mark.skipif(
    not ON_CARD and not standin.available(),
    reason="the stand-in GPU needs x86-64 and TensorFlow 2.21",
)
needs_standin = pytest.mark.skipif(
    ON_CARD or not standin.available(), reason="what is tested is seen on the stand-in GPU alone"
)


def start(file: str, name: str, fresh: bool = False, **settings: Any) -> tuple[int, str]:
    """Exit status and output. On the stand-in in a fork: a card's driver wants a whole process.
    `fresh`: one there, too, for a program that sets what TensorFlow reads as it is imported."""
    arguments = [str(HERE / file), name, *(f"{key}={value}" for key, value in settings.items())]
    if not ON_CARD and fresh:
        from helpers import run_python  # imports TensorFlow, which programs do not want yet

        return run_python(_PROGRAM.format(arguments), PYTHONPATH=SERVER["PYTHONPATH"])
    if not ON_CARD:
        return run_forked(_PROGRAM.format(arguments))
    child = subprocess.run(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANGS,
        check=False,
    )
    return child.returncode, child.stdout


def run(file: str, name: str, **settings: Any) -> Any:
    """What the program returns; with the guard, unless the settings say otherwise."""
    status, output = start(file, name, **{"guard": 1, **settings})
    assert status == 0, output
    line = next(line for line in output.splitlines() if line.startswith("RESULT "))
    return json.loads(line[len("RESULT ") :])


def main(programs: Mapping[str, Callable], threads: int = 1) -> None:
    """`threads`: of the executor, that start kernels."""
    name, *settings = sys.argv[1:]
    if ON_CARD:
        sys.path.insert(0, str(ROOT / "benchmarks"))
        import _gpu

        _gpu.prepare(CARD_BYTES)
    else:
        standin.load(**dict(setting.split("=") for setting in settings))
    import tensorflow as tf

    if ON_CARD:
        tf.config.experimental.enable_op_determinism()

    tf.config.threading.set_inter_op_parallelism_threads(threads)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    print("RESULT", json.dumps(programs[name]()))
