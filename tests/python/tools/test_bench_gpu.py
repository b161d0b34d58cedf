"""./run gpu: its search and its table, and the whole of it on the stand-in."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from patience import HANGS
from places import ROOT

sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests"), str(ROOT / "tests" / "standin")]

import standin  # noqa: E402
from gpu import reach  # noqa: E402
from zoo import verdict  # noqa: E402

ARGS = SimpleNamespace(memory=1000, small=True, quick=False, rounds=2, ways="swap,mix")


def child(model, way, size, rounds, memory):
    """A model that takes 100 bytes, and 20 a unit; lms lets it have five times that."""
    room = memory - 100 if way == "stock" else 5 * (memory - 100)
    if 20 * size > room:
        return {"fits": False, "reason": "out of memory", "seconds": []}
    seconds = 0.01 * size * (1 if way == "stock" else 1.25)
    facts = {"status": "rewritten", "swapped_bytes": 10**9, "swap_hidden": 0.9}
    facts |= {"predicted_time_overhead": 0.25, "transfer_seconds": 0.01 * size}
    facts |= {"predicted": 20 * size}
    return {
        "fits": True, "reason": "", "seconds": [seconds], "in_use": 100,
        "activations": 20 * size, **(facts if way != "stock" else {}),
    }  # fmt: skip


def test_the_largest_of_stock_is_found_and_ways_are_timed_at_multiples():
    said = []
    size = reach.sizes_of(child, ["cifar"], ARGS, 1, said.append)["cifar"]
    rows = reach.rows_of(child, "cifar", size, ARGS, said.append)
    sizes = [(row["way"], row["size"]) for row in rows]
    assert sizes == [("stock", 45), ("swap", 180), ("mix", 180)]
    assert all(row["fits"] for row in rows)
    assert rows[1]["speed"] == pytest.approx(0.8)
    assert rows[1]["hidden"] == pytest.approx(0.75)  # a quarter of the step is added by transfers
    assert "hidden" not in rows[2]  # what recomputation adds is not told apart
    assert len(said) == 8


def test_sizes_that_are_known_are_read():
    assert reach.largest_of("resnet50=180,unet3d=4") == {"resnet50": 180, "unet3d": 4}
    for wrong in ("resnet50", "resnet50=many", "nobody=4"):
        with pytest.raises(argparse.ArgumentTypeError):
            reach.largest_of(wrong)


def test_a_row_says_what_does_not_fit():
    def only_stock(model, way, *rest):
        if way == "stock":
            return child(model, way, *rest)
        return {"fits": False, "reason": "out of memory", "seconds": []}

    rows = reach.rows_of(only_stock, "cifar", 45, ARGS, lambda line: None)
    cells = reach.cells(rows[1], small=True)
    assert cells[1:5] == ["swap", "180", "", "out of memory"]
    assert len(cells) == len(reach.COLUMNS)
    assert len(reach.cells(rows[0], small=True)) == len(reach.COLUMNS)


@pytest.mark.slow
@pytest.mark.skipif(not standin.available(), reason="the stand-in needs x86-64 and TensorFlow 2.21")
def test_the_whole_command_runs_on_the_stand_in(tmp_path):
    command = [sys.executable, "-m", "gpu", "--quick", "--out", str(tmp_path)]
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "benchmarks")])
    ended = subprocess.run(
        [*command, "--parts", "sanity,peaks,reach"],
        env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * HANGS,
        check=False,
    )
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert ended.returncode == bool(found["faults"]), ended.stdout
    # What free memory looks like differs from run to run: a peak may be above its budget, and what
    # is nearly too large for the device may be too large.
    chance = ("of the budget", "out of memory")
    other = [line for line in found["faults"] if not any(word in line for word in chance)]
    assert found["small"]
    assert other == []
    assert [row["model"] for row in found["peaks"]["rows"]] == ["residual"]
    for row in found["peaks"]["rows"]:
        assert list(row["budgets"]) == ["60%", "min", "auto"]
        assert {verdict.bits(at) for at in row["budgets"].values()} <= {"equal", "stock differs"}
    stock, mix = found["reach"]["rows"]
    assert stock["fits"] and stock["seconds"]
    assert (mix["way"], mix["size"]) == ("mix", 4 * stock["size"])
    assert (tmp_path / "gpu.md").read_text().startswith("# lms on a GPU")
