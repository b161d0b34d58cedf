"""Swapping from a GPU to a disk, on the stand-in GPU: what the device holds, and the same bits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest
from patience import HANGS
from places import FAULT_SHIM, PYTHONPATH, ROOT

pytestmark = pytest.mark.slow

STANDIN = ROOT / "tests" / "standin"

CHILD = """
import ctypes, json, sys
import standin
standin.load(memory_mb=128, guard=True)
import numpy as np, tensorflow as tf
import lms
from lms import _native
from helpers import train_chain
from swaps import swap_graph

spill = sys.argv[1]
library = ctypes.CDLL(None)
kind = ctypes.c_int.in_dll(library, "fault_kind")
MIB = 2**20

def peak_of(call):
    tf.config.experimental.reset_memory_stats("GPU:0")
    before = tf.config.experimental.get_memory_info("GPU:0")["current"]
    result = call()
    return result, tf.config.experimental.get_memory_info("GPU:0")["peak"] - before

def tell(name, **figures):
    print(json.dumps({"name": name, **figures}), flush=True)

# One tensor out, another one while the disk holds, and the first one back.
size = MIB  # floats
graph = swap_graph(tf.float32, spill)

@tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
def turns(seed):
    with tf.device("GPU:0"):
        x = tf.fill([size], seed)
        out, back = tf.graph_util.import_graph_def(
            graph, input_map={"x:0": x}, return_elements=["swap_out", "swap_in_0"])
        with tf.control_dependencies([out]):
            total = tf.reduce_max(tf.fill([size], tf.identity(seed) + 1.0))
        back._add_control_input(total.op)
        return tf.reduce_max(back.outputs[0]) + total

first = float(turns(tf.constant(1.0)))
kind.value = ord("h")
second, peak = peak_of(lambda: float(turns(tf.constant(2.0))))
kind.value = 0
tell("held", results=[first, second], tensors=peak / (4 * size))

# A training step, beside stock.
def start():
    return [tf.Variable(tf.random.stateless_normal([256, 256], [1, i]) / 16) for i in range(12)]

def make(weights):
    return tf.function(lambda x: train_chain(weights, x))

with tf.device("GPU:0"):
    x = tf.random.stateless_normal([2048, 256], [1, 2])
    stock, swapped = start(), start()
reference, step = make(stock), make(swapped)
_, stock_peak = peak_of(lambda: [float(reference(x)) for _ in range(2)])
for limit in (None, "5MiB"):
    lms.enable(
        memory_budget="50%", swap_to=spill, recompute=False, reorder=False, replan=False,
        swap=lms.SwapOptions(out_bandwidth=1e12, in_bandwidth=1e12, host_limit=limit))
    if limit is None:
        for _ in range(2):
            step(x)  # as stock has done
    _native.reset_swap_statistics()
    kind.value = ord("s")  # a slow disk
    losses, peak = peak_of(lambda: [float(step(x)) for _ in range(2)])
    kind.value = 0
    report, statistics = lms.report(), lms.swap_statistics()
    lms.disable()
    expected = [float(reference(x)) for _ in range(2)]
    tell(
        "limited" if limit else "free", losses=losses == expected, tier=report.swap_tier,
        status=report.status, swapped=report.swapped_bytes, peak=peak / stock_peak,
        host=statistics.peak_host_bytes,
        same=all(a.numpy().tobytes() == b.numpy().tobytes() for a, b in zip(stock, swapped)))
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    sys.path.insert(0, str(STANDIN))
    try:
        import standin
    finally:
        sys.path.remove(str(STANDIN))
    if not standin.available():
        pytest.skip("the stand-in GPU is not built here")
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler for the library that holds and slows down a disk")
    place = tmp_path_factory.mktemp("gpu")
    shim, spill = place / "shim.so", place / "spill"
    spill.mkdir()
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(shim), str(FAULT_SHIM)]
    subprocess.run([*command, "-ldl"], check=True)
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(spill)],
        env={
            **os.environ,
            "PYTHONPATH": f"{PYTHONPATH}:{STANDIN}",
            "LD_PRELOAD": str(shim),
            "LMS_FAULT_DIRECTORY": str(spill),
        },
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    assert list(spill.iterdir()) == []
    found = [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]
    return {row["name"]: row for row in found}


def test_the_device_does_not_hold_what_the_disk_has_yet_to_write(rows: dict[str, Any]) -> None:
    # The disk writes nothing during the second call. One of the two tensors at a time.
    assert rows["held"]["results"] == [3.0, 5.0]
    assert 1 <= rows["held"]["tensors"] < 1.1


@pytest.mark.parametrize("name", ["free", "limited"])
def test_a_step_swapped_to_a_slow_disk_has_the_same_bits(rows: dict[str, Any], name: str) -> None:
    row = rows[name]
    assert row["status"] == "rewritten" and row["tier"] == "disk", row
    assert row["swapped"] > 4 << 20
    assert row["losses"] and row["same"]
    assert row["peak"] < 0.8


def test_staging_keeps_below_the_host_limit(rows: dict[str, Any]) -> None:
    assert 0 < rows["limited"]["host"] <= 5 << 20
