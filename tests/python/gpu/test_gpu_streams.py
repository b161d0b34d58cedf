"""Swaps between a GPU and the host are waited for by the device alone: on the stand-in GPU, over a
link so slow that what does not wait gets other bytes."""

from __future__ import annotations

import functools
import json
import pathlib

import gpu_child
import pytest

pytestmark = gpu_child.needs_standin
run = functools.partial(gpu_child.run, "gpu_streams.py", memory_mb=64, out_gbps=0.5, in_gbps=0.5)


@pytest.mark.parametrize(
    ("program", "threads"),
    [
        ("chain", 1),
        pytest.param("branches", 3, marks=pytest.mark.slow),
        pytest.param("chain", 3, marks=pytest.mark.slow),
        pytest.param("branches", 1, marks=pytest.mark.slow),
    ],
)
def test_copies_behind_the_host_give_the_same_bits(
    program: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_THREADS", str(threads))
    found = run(program)
    assert found["status"] == "rewritten"
    assert found["swapped"] > 2 << 20
    assert found["same"]
    assert found["same_ahead"]
    assert found["copied"] >= found["swapped"]
    # However far the host runs ahead, it takes no more than a step needs, and gives it back.
    assert found["most_pinned"] <= found["swapped"]
    assert found["left"] == 0


def test_the_host_hands_a_step_over_while_its_copies_run() -> None:
    found = run("chain")
    assert found["handed_over"] < 0.5 * found["took"], found


@pytest.mark.parametrize(("program", "tensors"), [("held", 2), ("waited_for", 1)])
def test_memory_is_free_where_a_copy_is_waited_for_and_not_where_it_ends(
    program: str, tensors: int
) -> None:
    found = run(program, memory_mb=128)
    assert tensors <= found["tensors"] < tensors + 0.1


@pytest.mark.slow
def test_a_step_that_lacks_memory_gets_what_a_copy_that_has_ended_holds() -> None:
    found = run("lacking")
    assert found["ends"] == [6.0]
    assert found["tensors"] < 2


def test_small_tensors_do_not_go_behind_large_ones(tmp_path: pathlib.Path) -> None:
    trace = tmp_path / "trace.json"
    found = run("small_beside_large", trace=trace)
    assert found["ends"] == [2.0, 3.0]
    did = [json.loads(line.rstrip(",")) for line in trace.read_text().splitlines()[1:]]
    streams = {
        name: [one["tid"] for one in did if one["name"] == f"copy out {bytes}"]
        for name, bytes in (("small", 1 << 10), ("large", 4 << 20))
    }
    assert len(streams["small"]) == 1
    # In pieces.
    assert len(streams["large"]) == 2
    assert streams["small"][0] not in streams["large"]
