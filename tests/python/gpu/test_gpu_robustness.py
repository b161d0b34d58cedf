"""Steps that swap on the stand-in GPU, when something goes wrong in them and when they go on for
long: an error that says what to do, nothing kept, and the next step right to the bit."""

from __future__ import annotations

import functools
from typing import Any

import gpu_child
import pytest

pytestmark = gpu_child.needs_standin
SMALL = 4096  # bytes: TensorFlow keeps a scalar or two of an eager call
run = functools.partial(gpu_child.run, "gpu_robustness.py")


def check(found: dict[str, Any]) -> None:
    assert found["status"] == "rewritten"
    assert found["swapped"] > 2 << 20
    left = found["left"]
    for each in left if isinstance(left, list) else [left]:
        assert all(held <= SMALL for held in each.values()), left
    assert found["same"] in (True, [True, True])


@pytest.mark.slow
@pytest.mark.parametrize("program", ["many_steps", "many_steps_by_the_disk"])
def test_nothing_grows_in_many_steps(program: str) -> None:
    found = run(program, memory_mb=64)
    assert found["same"]
    growth = found["growth"]
    assert growth.pop("resident") <= 8 << 20, found
    assert all(more <= 0 for more in growth.values()), (growth, found)


@pytest.mark.slow
def test_a_step_without_device_memory_says_so_and_keeps_none() -> None:
    found = run("no_memory_on_the_device", memory_mb=24)
    check(found)
    kind, message = found["error"]
    assert kind == "ResourceExhaustedError"
    assert "OOM when allocating" in message
    assert found["taken"] > 0


def test_a_step_in_which_another_op_fails_keeps_nothing() -> None:
    found = run("another_op_fails", memory_mb=64)
    check(found)
    assert len(found["errors"]) == 5
    assert all("asked to fail" in message for _, message in found["errors"])


def test_a_cancelled_step_keeps_nothing() -> None:
    found = run("cancelled", memory_mb=64)
    check(found)
    kinds = {error[0] for error in found["errors"] if error}
    assert kinds == {"CancelledError"}
    # Not only before it began.
    assert sum("before it was started" not in error[1] for error in found["errors"] if error) >= 3


@pytest.mark.slow
def test_without_pinned_memory_the_error_names_what_to_set() -> None:
    found = run("no_pinned_memory", memory_mb=64, pinned_mb=2)
    check(found)
    for kind, message in found["errors"]:
        assert kind == "ResourceExhaustedError"
        assert "TF_GPU_HOST_MEM_LIMIT_IN_MB" in message
        assert "swap_host_limit" in message
    assert found["limited"]["status"] == "rewritten"
    assert 0 < found["limited"]["swapped"] <= 1 << 20


def test_over_the_host_limit_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_THREADS", "3")
    found = run("host_limit_shared", memory_mb=64)
    check(found)
    kind, message = found["error"]
    assert kind == "ResourceExhaustedError"
    assert "exceed swap_host_limit" in message and "Raise swap_host_limit" in message


def test_a_thread_that_finds_no_pinned_memory_runs_what_gives_it_back() -> None:
    found = run("pinned_memory_comes_back", memory_mb=64, pinned_mb=6)
    assert found["found"] == [2 * 2 * 2.0**20] * 3
    assert found["took"] < 9, "it waited for as long as TensorFlow's allocator waits"


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_two_functions_that_swap_at_once(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_THREADS", str(threads))
    check(run("two_at_once", memory_mb=64))
