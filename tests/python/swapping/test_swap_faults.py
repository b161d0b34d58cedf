"""Faults of the spill file in the middle of training: a clear error, and no wrong number.

One child trains for the faults that a preloaded library makes, or that the file itself has; its
steps are compared with those of a twin that never swaps, bit for bit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import lms
import pytest
import tensorflow as tf
from patience import HANGS
from places import FAULT_SHIM, PYTHONPATH
from swap_models import Interruption, interrupted, largest_report, make, swapping

# Trains `step` and its twin. fault(name) prints what one step with a fault came to, and checks
# that the next ones are right, first without swapping and then with it.
FAULTS = """
import ctypes, errno, json, os, resource, sys
import numpy as np, tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
import lms
from lms import _native
from swap_models import largest_report, make, swapping

directory = sys.argv[1]
spill = directory
step, twin = make("dense"), make("dense")
position = 0
library = ctypes.CDLL(None)

def shim(name):
    return ctypes.c_int.in_dll(library, "fault_" + name)

def arm(kind, after=0, error=0):
    if "LMS_FAULT_DIRECTORY" not in os.environ:
        return
    shim("hits").value, shim("errno").value, shim("after").value = 0, error, after
    shim("kind").value = ord(kind) if kind else 0

def values(of):
    return [variable.numpy() for variable in of.variables]

def same(ones, others):
    return all(a.tobytes() == b.tobytes() for a, b in zip(ones, others))

def good(**options):
    with swapping(spill, **options):
        loss = float(step.run())
    return loss == float(twin.run()) and same(values(step), values(twin))

def fault(name, **result):
    before, in_use = values(twin), lms.memory.bytes_in_use()
    try:
        with swapping(spill):
            result["loss"] = float(step.run())
    except tf.errors.OpError as error:
        result["type"], result["message"] = type(error).__name__, error.message
    arm("")
    statistics = lms.swap_statistics()
    result["stored"] = statistics.stored_bytes
    result["left"] = lms.memory.bytes_in_use() - in_use
    now = values(step)
    twin.run()
    after = values(twin)
    result["unchanged"] = same(now, before)
    # A step that fails in its backward pass has updated the variables whose gradients were there.
    result["mixed"] = [
        same([n], [b]) or same([n], [a]) for n, b, a in zip(now, before, after)
    ]
    for variable, value in zip(step.variables, after):
        variable.assign(value)
    result["next"] = [good(swap=False), good(), good()]
    print(json.dumps({"name": name, **result}), flush=True)

def open_spill_files():
    for fd in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{fd}"
        if os.path.islink(path) and os.path.realpath(path).startswith(directory + "/"):
            yield path

assert good() and good()
swapped = largest_report().swapped_bytes
assert swapped > 0
"""


def run_faults(tmp_path: Path, program: str, *arguments: str, **environment: str) -> dict[str, Any]:
    spill = tmp_path / "spill"
    spill.mkdir(exist_ok=True)
    child = subprocess.run(
        [sys.executable, "-c", FAULTS + program, str(spill), *arguments],
        env={
            **os.environ,
            "PYTHONPATH": PYTHONPATH,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    rows = [json.loads(line) for line in child.stdout.splitlines()]
    return {row["name"]: row for row in rows}


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler for the library that makes calls fail")
    place = tmp_path_factory.mktemp("faults")
    shim = place / "shim.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(shim), str(FAULT_SHIM)]
    subprocess.run([*command, "-ldl"], check=True)
    program = """
arm("w", 0, errno.EIO)
fault("first write")
arm("w", 3, errno.EIO)
fault("later write")
arm("w", 2, errno.ENOSPC)
fault("full while writing")
arm("r", 0, errno.EIO)
fault("first read")
arm("r", 4, errno.EIO)
fault("later read")
_native.trim_spill()
arm("f", 0, errno.ENOSPC)
fault("full while growing")
_native.trim_spill()
resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, resource.RLIM_INFINITY))
run = step.run
def limited():
    try:
        return run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        step.run = run
step.run = limited
fault("limit on file sizes")

# The file is cut when the first swap-in reads: by then all that the step swaps is out.
import threading
ended = threading.Event()
def cut():
    while lms.swap_statistics().stored_bytes < swapped:
        if ended.wait(0.001):
            return
    for path in open_spill_files():
        os.truncate(path, 4096)
arm("s")  # so slow that the file is cut in time
thread = threading.Thread(target=cut)
thread.start()
fault("truncated")
ended.set()
thread.join()

arm("s")
short = good()
hits = [shim("hits").value]
arm("i")
interrupted = good()
hits.append(shim("hits").value)
arm("")
print(json.dumps({"name": "no faults", "equal": [short, interrupted], "hits": hits}))
"""
    spill = place / "spill"
    spill.mkdir()
    rows = run_faults(place, program, LD_PRELOAD=str(shim), LMS_FAULT_DIRECTORY=str(spill))
    assert list(spill.iterdir()) == []
    return {**rows, "directory": str(spill)}


def check(row: dict[str, Any], directory: str, error: str, node: str, words: str) -> None:
    """A clear error; nothing stored, held or wrong; and the steps after it are right."""
    assert row.get("type") == error, row
    message = row["message"]
    assert re.search(rf"{node}/\d+/\w+: lms could not|{node}/\d+/\w+: lms read", message), message
    assert directory in message and words in message and "swap" in message
    assert row["stored"] == 0 and row["left"] <= 0
    assert all(row["mixed"])
    assert row["next"] == [True, True, True]


CASES = [
    ("first write", "InternalError", "swap_out", "Input/output error. Check the disk"),
    ("later write", "InternalError", "swap_out", "Input/output error. Check the disk"),
    ("full while writing", "ResourceExhaustedError", "swap_out", "Free space there"),
    ("full while growing", "ResourceExhaustedError", "swap_out", "Free space there"),
    ("limit on file sizes", "ResourceExhaustedError", "swap_out", "ulimit -f"),
    ("first read", "InternalError", "swap_in", "Input/output error. Check the disk"),
    ("later read", "InternalError", "swap_in", "Input/output error. Check the disk"),
    ("truncated", "DataLossError", "swap_in", "that are not what it wrote: "),
]


@pytest.mark.parametrize(("name", "error", "node", "words"), CASES, ids=[c[0] for c in CASES])
def test_a_fault_fails_its_step_alone(
    faults: Any, name: str, error: str, node: str, words: str
) -> None:
    check(faults[name], faults["directory"], error, "lms/" + node, words)
    if node == "swap_out":  # before the loss is there nothing has been updated
        assert faults[name]["unchanged"]


def test_short_and_interrupted_transfers_are_no_faults(faults: Any) -> None:
    row = faults["no faults"]
    assert row["equal"] == [True, True]
    assert min(row["hits"]) > 0


def mounted(place: Path, *arguments: str) -> None:
    place.mkdir()
    result = subprocess.run(
        ["mount", *arguments, str(place)], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        pytest.skip(f"mounting is not permitted here: {result.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    if shutil.which("mount") is None:
        pytest.skip("there is no program mount here")
    place = tmp_path / "spill"
    mounted(place, "-t", "tmpfs", "-o", "size=64m", "tmpfs")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow
def test_a_disk_that_others_have_filled(tmp_path: Path, small_disk: Path) -> None:
    program = """
_native.trim_spill()
with open(directory + "/others", "wb") as others:
    try:
        while True:
            others.write(b"x" * 65536)
            others.flush()
    except OSError:
        pass
run = step.run
def emptied():
    try:
        return run()
    finally:
        os.remove(directory + "/others")
        step.run = run
step.run = emptied
fault("full")
"""
    row = run_faults(tmp_path, program)["full"]
    check(row, str(small_disk), "ResourceExhaustedError", "lms/swap_out", "Free space there")
    assert row["unchanged"]
    assert list(small_disk.iterdir()) == []


def expect_no_swapping(directory: str, *words: str) -> None:
    step, twin = make("dense"), make("dense")
    expected = [float(twin.run()) for _ in range(2)]
    with swapping(directory):
        assert [float(step.run()) for _ in range(2)] == pytest.approx(expected, rel=1e-5)
    report = largest_report()
    assert report.swap_tier == "" and report.swapped_bytes == 0
    assert report.swap_note.startswith(f"nothing is swapped: {directory}")
    for word in words:
        assert word in report.swap_note
    assert "Nothing is swapped" in str(report)


@pytest.mark.parametrize("directory", ["/proc/self", "/sys/kernel"])
def test_where_nothing_can_be_written_training_goes_on(directory: str) -> None:
    expect_no_swapping(directory, "no file can be made there", "set swap_to to a directory")


def test_a_read_only_file_system(tmp_path: Path) -> None:
    if shutil.which("mount") is None:
        pytest.skip("there is no program mount here")
    place = tmp_path / "read_only"
    mounted(place, "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs")
    try:
        expect_no_swapping(str(place), "Read-only file system")
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_directory_of_others(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    place = tmp_path / "others"
    place.mkdir(mode=0o500)
    expect_no_swapping(str(place), "Permission denied")


def test_a_directory_that_goes_before_the_first_step(tmp_path: Path) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    interruption = Interruption()
    step, twin = interrupted(0, interruption), interrupted(0, Interruption())
    expected = [float(twin.run()) for _ in range(3)]
    interruption.action = place.rmdir  # planned by then, and nothing is out yet
    before = [variable.numpy() for variable in step.variables]
    with swapping(place):
        with pytest.raises(tf.errors.InternalError) as error:
            step.run()
        assert largest_report().swap_directory == str(place)
        message = error.value.message
        assert "lms/swap_out" in message and str(place) in message
        assert "No such file or directory" in message and "swap_to" in message
        assert lms.swap_statistics().stored_bytes == 0
        for variable, value in zip(step.variables, before):
            assert (variable.numpy() == value).all()
        interruption.action = None
        with swapping(place, swap=False):
            assert float(step.run()) == pytest.approx(expected[0], rel=1e-5)
        place.mkdir()
        assert float(step.run()) == pytest.approx(expected[1], rel=1e-5)
    assert float(step.run()) == pytest.approx(expected[2], rel=1e-5)  # lms is off
