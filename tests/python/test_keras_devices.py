"""Several devices and strategies: the numbers of stock, and what is rewritten of each."""

from __future__ import annotations

import json
from pathlib import Path

import keras_forms
import pytest
from helpers import run_python

HERE = Path(__file__).parent
REWRITTEN = (
    "a_small_part_elsewhere",
    "mirrored_own_loop",
    "mirrored_fit",
    "one_device_own_loop",
    "one_device_fit",
    "one_worker_own_loop",
)
NAMES = ("model_parallel", *REWRITTEN, "mirrored_by_collectives")


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
    """The peak is of all devices; the budget is for the first one, which is planned."""
    alone = "mirrored" not in name
    keras_forms.assert_rewritten(results[name], within=1.05 if alone else None)
    assert {device[-5:] for device in results[name]["devices"]} == {"CPU:0"}


@pytest.mark.parametrize("name", ["mirrored_own_loop", "mirrored_fit"])
def test_one_replica_is_planned(results, name):
    """What is run again is of one replica: the other one's ops are on the other device."""
    (plan,) = results[name]["plans"]
    assert plan
    replicas = {op.count("replica_1/") for _, op, _ in plan}
    assert replicas == {0}, plan


def test_halves_on_two_devices(results):
    """TensorFlow puts the whole backward pass on the first one: it reads the other's tensors."""
    found = results["model_parallel"]
    keras_forms.assert_same(found)
    assert found["status"] == "infeasible", found


def test_collectives_are_left_alone(results):
    found = results["mirrored_by_collectives"]
    keras_forms.assert_same(found)
    assert {status for _, status, _ in found["all"]} == {"skipped"}, found
    assert "CollectiveReduce" in found["reason"] and "may wait" in found["reason"], found
