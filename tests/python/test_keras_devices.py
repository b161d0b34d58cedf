"""Several devices and strategies: the numbers of stock, and what is rewritten of each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import keras_forms
import pytest
from helpers import run_python

HERE = Path(__file__).parent
MIRRORED = ("mirrored_own_loop", "mirrored_fit", "mirrored_by_collectives")
REWRITTEN = (
    "a_small_part_elsewhere",
    *MIRRORED,
    "one_device_own_loop",
    "one_device_fit",
    "one_worker_own_loop",
)
NAMES = ("model_parallel", *REWRITTEN)


@pytest.fixture(scope="module")
def results():
    """In a process of its own, which has two logical CPUs."""
    code = f"import sys; sys.path.insert(0, {str(HERE)!r}); import devices; devices.main({NAMES!r})"
    status, output = run_python(code)
    assert status == 0, output
    lines = [line for line in output.splitlines() if line.startswith(keras_forms.MARK)]
    return {line.pop("name"): line for line in (json.loads(x[len(keras_forms.MARK) :]) for x in lines)}


@pytest.mark.parametrize("name", REWRITTEN)
def test_rewritten_and_the_same(results, name):
    """The measured peak is of all devices, the budget of each."""
    alone = name not in MIRRORED
    keras_forms.assert_rewritten(results[name], within=1.05 if alone else None)
    assert {device[-5:] for device in results[name]["devices"]} == (
        {"CPU:0"} if alone else {"CPU:0", "CPU:1"}
    )


def _plain(op: str) -> str:
    """The name without what tells replicas apart."""
    return re.sub(r"(replica_1/|(_\d+)+(?=/|$))", "", op)


@pytest.mark.parametrize("name", MIRRORED)
def test_replicas_get_one_plan(results, name):
    """Each device's plan is about its own replica, and the two are the same."""
    first, second = results[name]["plans"]
    assert first and second
    assert not any("replica_1/" in op for _, op, _ in first)
    assert all("replica_1/" in op for _, op, _ in second)
    assert sorted((kind, _plain(op)) for kind, op, _ in first) == sorted(
        (kind, _plain(op)) for kind, op, _ in second
    )


def test_halves_on_two_devices(results):
    """TensorFlow puts the whole backward pass on the first one: it reads the other's tensors."""
    found = results["model_parallel"]
    keras_forms.assert_same(found)
    assert found["status"] == "infeasible", found
