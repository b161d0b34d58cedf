"""Several devices and strategies: the numbers of stock, and what is rewritten of each."""

from __future__ import annotations

import json
import re

import keras_forms
import pytest
from forked import run_forked
from quick import names_asked_for, quick_ones

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
def results(request):
    """In a process of its own, which has two logical CPUs."""
    names = names_asked_for(request, NAMES)
    status, output = run_forked(f"import devices; devices.main({names!r})")
    assert status == 0, output
    lines = [line for line in output.splitlines() if line.startswith(keras_forms.MARK)]
    return {
        line.pop("name"): line for line in (json.loads(x[len(keras_forms.MARK) :]) for x in lines)
    }


@pytest.mark.parametrize(
    "name", quick_ones((n for n in REWRITTEN if n not in MIRRORED), "a_small_part_elsewhere")
)
def test_rewritten_and_the_same(results, name):
    keras_forms.assert_rewritten(results[name])
    assert {device[-5:] for device in results[name]["devices"]} == {"CPU:0"}


@pytest.mark.parametrize("name", quick_ones(MIRRORED, "mirrored_fit"))
def test_each_replica_is_rewritten(results, name):
    """The budget is each device's own; the peak is of both together, which run side by side."""
    found = results[name]
    keras_forms.assert_same(found)
    assert [device[-5:] for device in found["devices"]] == ["CPU:0", "CPU:1"]
    steps = [status for _, status, _ in found["all"] if status != "skipped"]
    assert steps == ["rewritten", "rewritten"], found
    assert found["peak"] <= 2 * found["budget"], found
    first, second = found["plans"]
    assert first and not any("replica_1/" in op for _, op, _ in first)
    assert second and all("replica_1/" in op for _, op, _ in second)


def _plain(op: str) -> str:
    """The name without what tells replicas apart."""
    return re.sub(r"(replica_1/|(_\d+)+(?=/|$))", "", op)


@pytest.mark.parametrize("name", ["mirrored_fit"])
def test_replicas_get_one_plan(results, name):
    """The same operations of each, where TensorFlow's other passes have not made them differ."""
    first, second = results[name]["plans"]
    assert sorted((kind, _plain(op)) for kind, op, _ in first) == sorted(
        (kind, _plain(op)) for kind, op, _ in second
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model_parallel"])
def test_halves_on_two_devices(results, name):
    """TensorFlow puts the whole backward pass on the first one, which reads the other's tensors:
    the first is lowered, and of the other's nothing can be computed again."""
    found = results[name]
    keras_forms.assert_same(found)
    steps = [status for _, status, _ in found["all"] if status != "skipped"]
    assert steps == ["rewritten", "infeasible"], found
    assert found["predicted"] <= found["budget"] and found["peak"] < found["stock_peak"], found
