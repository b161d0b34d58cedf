"""The benchmark of swapping: its search, its arithmetic and its tables, without training."""

from __future__ import annotations

import sys

import lms
import pytest
from places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from swap import cpu, disk, published, table, throttle
from swap.problems import SCALABLES, options_of
from swap.search import largest


@pytest.mark.parametrize("start", [1, 3, 64, 1000])
@pytest.mark.parametrize("true", [0, 1, 2, 63, 64, 65, 200])
def test_the_largest_is_found_and_nothing_is_tried_twice(true, start):
    tried = []

    def fits(size):
        assert size not in tried
        tried.append(size)
        return size <= true

    assert largest(fits, start, closeness=0) == true
    assert len(tried) < 22  # at most ten doublings or halvings, then ten bisections


def test_a_search_that_need_not_be_exact_ends_sooner():
    tried = []
    found = largest(lambda size: not tried.append(size) and size <= 1000, 16, closeness=0.1)
    assert 900 < found <= 1000
    assert len(tried) == 10  # 16 to 1024 are seven; 768, 896 and 960, and 64 is close enough


def test_a_search_from_a_good_guess_takes_few_trials():
    tried = []
    assert largest(lambda size: not tried.append(size) and size <= 103, 100, step=0.04) == 102
    assert tried == [100, 104, 102]


def test_a_search_ends_at_the_most():
    assert largest(lambda size: True, 3, most=100) == 100


def test_sizes_are_picked_by_amount():
    volume = SCALABLES["unet3d"]
    assert volume.amount(8) == 128**3
    # 4 times 128^3 is 203^3: 208^3 (13 * 16) is closer to it than 192^3.
    assert volume.size_for(4 * 128**3) == 13
    assert SCALABLES["resnet50"].size_for(7.5 * 25) == 187


def test_the_ways_differ_in_what_is_allowed():
    assert options_of("recompute", "/disk") == {"swap": False}
    assert options_of("swap", "/disk") == {"swap_to": "/disk", "recompute": False}
    given = options_of("mix", "/disk", 5)
    link = lms.SwapOptions(out_bandwidth=5, in_bandwidth=5)
    assert given == {"swap_to": "/disk", "swap": link}


def test_what_a_disk_allows():
    # 3 GB at 3 GB/s out and 1 GB/s in: 1 + 3 s, in a step of 2 s.
    need = disk.allows({"out": 3e9, "in": 1e9}, 3 * 10**9, 2.0)
    assert (need["out_seconds"], need["in_seconds"], need["share"]) == (1, 3, 2)


def test_a_disk_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "SECONDS", 0.01)
    monkeypatch.setattr(disk, "MOST_BYTES", 2 * disk.CHUNK)
    figures = disk.measure(str(tmp_path))
    assert min(figures["out"], figures["in"], figures["both"]) > 0
    assert not list(tmp_path.iterdir())


def test_no_throttle_without_a_block_device():
    with (
        pytest.raises(throttle.NoThrottle, match="no block device"),
        throttle.throttled("/proc", 1),
    ):
        pass


ROW = {
    "way": "swap",
    "status": "rewritten",
    "out_seconds": 0.5,
    "in_seconds": 1.5,
    "added_wall_seconds": 0.5,
}


@pytest.mark.parametrize(
    ("change", "share"),
    [
        ({}, 0.75),  # half a second of two is noticed
        ({"added_wall_seconds": -0.1}, 1.0),
        ({"added_wall_seconds": 3.0}, -0.5),  # more is added than the link is busy
        ({"way": "mix"}, None),
        ({"status": "infeasible"}, None),
        ({"out_seconds": 0.0, "in_seconds": 0.0}, None),
    ],
)
def test_the_share_that_is_hidden(change, share):
    assert cpu.hidden({**ROW, **change}) == share


def test_speeds_are_columns():
    def row(way, speed, added, feasible=True):
        return {
            "model": "m",
            "budget": "50%",
            "way": way,
            "speed": speed,
            "added_share": added,
            "feasible": feasible,
        }

    columns, lines = table.speed_rows(
        [row("recompute", 12.0, 0.05), row("swap", 0.1, 9.0, False), row("mix", 0.1, 0.04)]
    )
    assert columns == ["model", "budget", "recompute", "swap 0.1 GB/s", "mix 0.1 GB/s"]
    assert lines == [["m", "50%", "+5.0%", "not possible", "+4.0%"]]


def test_published_figures_have_sources():
    assert all(row["source"] and row["multiple"] > 1 for row in published.rows())
    assert "7.5x batch" in published.of("resnet50")
