"""Steps on a stand-in GPU (tests/standin): TensorFlow's own arena and streams, kernels that run
behind the host, and a guard that ends the process where the host touches the device's memory."""

import functools
import statistics

import gpu_child
import pytest
from lms._base.format import parse_bytes

pytestmark = gpu_child.needs_gpu
on_the_standin = gpu_child.needs_standin
LAYER = 2**20

start = functools.partial(gpu_child.start, "gpu_programs.py")
run = functools.partial(gpu_child.run, "gpu_programs.py")


@on_the_standin
def test_kernels_compute_what_the_cpus_do():
    found = run("kernels", fresh=True, memory_mb=64)
    assert found["wrong"] == []
    assert found["count"] == 14


@pytest.mark.slow
@on_the_standin
def test_without_computing_steps_take_the_same_memory():
    computed = run("images", memory_mb=256, guard=0)
    bytes_alone = run("images", memory_mb=256, guard=0, compute=0)
    assert bytes_alone["stock"] == computed["stock"]
    assert bytes_alone["ours"] == computed["ours"]
    assert max(computed["ours"]) < 0.8 * max(computed["stock"])
    assert bytes_alone["loss"] != computed["loss"]


@on_the_standin
@pytest.mark.slow
def test_the_guard_ends_who_touches_device_memory():
    assert start("touch_from_the_host", memory_mb=64, guard=0)[0] == 0
    assert start("touch_from_the_host", memory_mb=64, guard=1)[0] < 0


@pytest.fixture(scope="module")
def ways():
    return run("ways", memory_mb=128)


@pytest.mark.parametrize("way", ["recompute", "host", "disk", "least"])
def test_each_way_gives_the_bits_of_stock(ways, way):
    assert ways[way]["status"] == "rewritten"
    assert ways[way]["losses"] == ways["stock"]["losses"]
    assert ways[way]["state"] == ways["stock"]["state"]


def test_what_is_assigned_into_a_variables_memory_has_the_bits_of_stock():
    found = run("assigned", memory_mb=128)
    assert found["rewritten"] == found["fits"]


@on_the_standin
@pytest.mark.parametrize("way", ["recompute", "host", "disk"])
def test_the_arenas_peak_is_within_the_budget(ways, way):
    found = ways[way]
    assert found["steps"] > 0
    assert found["measured"] <= found["budget"]
    assert found["measured"] >= 0.9 * found["after"]


def test_a_step_that_takes_more_than_the_least_is_said_to(ways):
    found = ways["least"]
    assert found["measured"] <= found["budget"] or found["warnings"]


@on_the_standin
def test_tensors_go_to_pinned_memory_and_come_back(ways):
    assert ways["wrong"] == 0
    assert ways["host"]["swapped"] >= LAYER
    assert ways["out"] >= 2 * 5 * LAYER  # by two ways, in five steps
    # The results that the program itself fetches are small.
    assert ways["pageable"] < ways["out"] / 4


@on_the_standin
def test_the_link_is_measured_with_less_than_the_step_takes(ways):
    assert "measured" in ways["host"]["link"]
    first, *others = ways["recompute"]["peaks"]
    assert first <= max(others) + LAYER


@pytest.mark.slow
@on_the_standin
def test_a_step_that_stock_cannot_run_fits_the_device():
    roomy = run("stock", memory_mb=128)
    assert roomy["error"] == ""
    assert run("stock", memory_mb=32)["error"] == "ResourceExhaustedError"
    found = run("automatic", memory_mb=32)
    assert found["error"] == ""
    assert found["status"] == "rewritten"
    assert found["after"] <= found["budget"] <= found["limit"]
    assert 0.95 * found["peak"] <= found["after"] <= 1.05 * found["peak"]
    assert 0.95 * roomy["peak"] <= found["before"] <= 1.05 * roomy["peak"]


@on_the_standin
@pytest.mark.parametrize(
    "program",
    [
        pytest.param("more_than_the_device", marks=pytest.mark.slow),
        "more_bytes_than_the_device",
    ],
)
def test_a_budget_above_the_device_is_what_the_device_has(program):
    found = run(program, memory_mb=32)
    assert found["error"] == ""
    assert found["status"] == "rewritten"
    assert found["after"] <= found["budget"] <= found["limit"]
    assert "has 3" in " ".join(found["warnings"]) and "as by" in " ".join(found["warnings"])
    assert "as by" not in " ".join(run(program, memory_mb=128)["warnings"])


@pytest.mark.slow
@on_the_standin
def test_where_the_device_is_too_small_the_lowest_plan_is_taken():
    found = run("automatic", memory_mb=15)
    assert found["status"] == "rewritten"
    assert found["budget"] <= found["limit"]
    assert found["budget"] < found["after"] < 0.4 * found["before"]
    assert "this one comes nearest" in " ".join(found["warnings"])


@on_the_standin
@pytest.mark.parametrize(
    ("program", "learnt", "reason", "most"),
    [
        ("open_sizes", "boolean_mask", "", 1.05),
        ("open_loop", "= 16 iterations (earlier steps)", "of a loop's body", 1.08),
    ],
)
def test_what_only_the_run_decides_is_learnt(program, learnt, reason, most):
    found = run(program, memory_mb=128)
    assert found["same"]
    assert found["status"] == "rewritten"
    assert any(learnt in line for line in found["sizes"])
    assert reason in found["reason"]
    assert 0.95 * found["stock_peak"] <= found["before"] <= most * found["stock_peak"]
    assert 0 < found["measured"] <= found["budget"]


@on_the_standin
def test_a_step_that_takes_more_later_is_planned_anew():
    found = run("more_in_later_steps", memory_mb=128)
    settled, more, last = 6, 7, -1
    assert found["peaks"][settled] <= found["left"] < found["peaks"][more]
    # Once, or once more where the first of these plans is above the budget as well.
    assert 1 <= found["plans"][last] - found["plans"][settled] <= 2
    assert len(set(found["plans"][-3:])) == 1
    assert found["peaks"][last] <= found["left"]


@on_the_standin
def test_a_failing_copy_fails_the_step_alone():
    found = run("a_copy_fails", memory_mb=64)
    assert len(found["errors"]) == 2
    assert all("this copy was asked to fail" in error for error in found["errors"])
    assert found["losses"] == found["expected"]
    assert found["left"] <= 4096


@on_the_standin
@pytest.mark.parametrize("devices", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "program", ["mirrored_fit", pytest.param("mirrored_loop", marks=pytest.mark.slow)]
)
def test_replicas_have_the_same_plans_and_weights_as_stock(program, devices):
    found = gpu_child.run("gpu_replicas.py", program, memory_mb=128, devices=devices)
    assert len(found["devices"]) == devices
    assert found["lms"] == found["stock"]
    first = {}  # by device: before what steps took was measured
    for report in found["reports"]:
        assert report["status"] == "rewritten"
        assert report["after"] <= report["budget"]
        first.setdefault(report["device"], report)
    assert len(first) == devices
    # The first one adds up the gradients of all, too. What does not hold in the free memory of
    # another one is not carried over, which the report says.
    replicas = [report for name, report in first.items() if name[-1] != "0"]
    for number, report in enumerate(replicas[1:], start=1):
        carried_over = report["plan"] in [other["plan"] for other in replicas[:number]]
        too_much = [parse_bytes(peak, "") > 0.99 * report["budget"] for peak in report["others"]]
        assert carried_over or too_much == [True]
    # Replicas run beside each other, and some steps hold an activation more.
    for steps, report in zip(found["peaks"], first.values()):
        left = report["budget"] - report["resident"]
        assert statistics.median(steps) <= left
        assert max(steps) <= left + LAYER
