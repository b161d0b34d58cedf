"""The benchmark of published tables: verdicts, what is kept, the page. Nothing trains."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from _store import Store, newest
from published import graphs, options, page, reach, search
from published.verdict import AHEAD, BEHIND, LEVEL, NOT_MEASURED, OPEN, judge_cut


def point(cut: float, added: float, **more: object) -> dict[str, object]:
    figures = {"added_least": added, "added_most": added, "pairs": 3, "pairs_with_other_bits": 0}
    peaks = {"stock_peak": 1_000_000_000, "lms_peak": int(1e9 * (1 - cut))}
    return {"cut": cut, "added": added, "status": "rewritten", **figures, **peaks, **more}


@pytest.mark.parametrize(
    ("cut", "added", "verdict"),
    [
        (0.63, 0.155, AHEAD),  # half of 31% exactly
        (0.626, 0.10, AHEAD),  # a peak may miss by half a point
        (0.63, 0.16, LEVEL),
        (0.63, 0.31, LEVEL),
        (0.63, 0.32, BEHIND),
        (0.62, 0.01, BEHIND),  # the cut is not reached, whatever it costs
    ],
)
def test_a_row_is_judged_at_half_of_the_published_added_time(cut, added, verdict):
    found, why = judge_cut(point(cut, added), 0.63, 0.31)
    assert found == verdict
    assert bool(why) == (verdict != AHEAD)


def test_other_bits_are_behind_whatever_they_save():
    found, why = judge_cut(point(0.9, 0.0, pairs_with_other_bits=1), 0.63, 0.31)
    assert found == BEHIND
    assert "other bits" in why


def budget(**figures: object) -> dict[str, object]:
    of_none = {"oracle_percent": None, "oracle_status": "", "oracle_seconds": None}
    return {
        "percent": 50.0,
        "added_percent": 5.0,
        "bound_percent": 4.5,
        "seconds": 0.3,
        **of_none,
    } | (figures)


def test_a_plan_is_judged_beside_the_solver_and_else_beside_the_bound():
    solved = {"oracle_percent": 5.0, "oracle_status": "optimal", "oracle_seconds": 60.0}
    assert graphs.judge_budget(budget(**solved))[0] == AHEAD
    assert graphs.judge_budget(budget(**{**solved, "oracle_seconds": 1.0}))[0] == LEVEL
    assert graphs.judge_budget(budget(**{**solved, "oracle_percent": 4.0}))[0] == BEHIND
    assert graphs.judge_budget(budget())[0] == LEVEL  # within a point of the bound
    assert graphs.judge_budget(budget(bound_percent=2.0))[0] == OPEN


def test_rows_are_kept_and_a_later_day_goes_on_with_them(tmp_path):
    first = tmp_path / "2026-01-01_published.json"
    Store(first).add({}, {"table": "search", "row": "A", "planned": 1})
    second = tmp_path / "2026-01-02_published.json"
    store = Store(second, newest(tmp_path, "published"))
    assert list(store.rows()) == [("search", "A")]
    store.add({}, {"table": "search", "row": "B", "planned": 2})
    assert [row["planned"] for row in Store(second).rows().values()] == [1, 2]
    assert list(Store(first).rows()) == [("search", "A")]  # the older file stays as it was
    assert newest(tmp_path, "published") == second


def test_the_page_shows_every_row_and_why_it_is_not_ahead():
    machine = {"cpu": "A CPU", "cores": 2, "memory_gib": 8, "date": "2026-01-01"}
    machine |= {"tensorflow": "2", "keras": "3", "lms": "0"}
    measured = {"batch": 8, "side": 224, "at_cut": point(0.63, 0.1), "tried": [point(0.8, 0.3)]}
    rows = {
        ("search", "Resnet 50"): {"row": "Resnet 50", "measured": measured | {"machine": machine}}
    }
    text = page.text(rows, {"search": search}, "picture.svg")
    lines = [line for line in text.splitlines() if line.startswith("| Resnet 50 |")]
    assert lines[0].startswith("| Resnet 50 | 63% at +31% | 8, 224 px | 1000 to 370 MB | 63.0% |")
    assert "80.0% at +30.0%" in lines[0]  # the most within the published 31%
    assert lines[0].endswith("| equal, 6 pairs | ahead |")
    assert "| **all** | 18 | 1 | 0 | 0 | 0 | 17 |" in text
    assert "- Alexnet, not measured: not run yet." in text
    assert "- Resnet 50" not in text
    assert "- 2 cores of A CPU, 8 GiB" in text


def test_a_failed_row_says_why():
    empty = SimpleNamespace(
        NAME="search", ROWS=("X",), judge=lambda row, rows: (NOT_MEASURED, "it failed")
    )
    assert page.verdicts({}, {"search": empty}) == {"search": {"X": (NOT_MEASURED, "it failed")}}
    assert "- X, not measured: it failed." in page.reasons({"X": (NOT_MEASURED, "it failed")})


def largest(batch: int) -> dict[str, object]:
    return {"measured": {"batch": batch, "beside": {"losses_equal": True, "weights_equal": True}}}


def test_an_option_is_judged_by_the_largest_batches():
    def judged(theirs: int, ours: int) -> tuple[str, str]:
        row = {"row": "HEURISTICS", **largest(theirs)}
        return options.judge(row, {("options", "lms"): largest(ours)})

    assert judged(400, 800) == (AHEAD, "")
    assert judged(400, 799)[0] == LEVEL
    assert judged(400, 399)[0] == BEHIND
    # 512 MiB hold 1069 images of 501,760 bytes: twice 600 is more than any plan could train.
    assert options.MOST_POSSIBLE == 1069
    assert "fills the limit" in judged(600, 800)[1]
    gone = {"row": options.GONE[0], "measured": {"gone": True}}
    assert options.judge(gone, {})[0] == NOT_MEASURED


def test_reach_is_judged_by_the_way_that_reaches_furthest():
    def judged(*multiples: float) -> str:
        ways = {str(n): {"multiple": multiple} for n, multiple in enumerate(multiples)}
        return reach.judge({"row": "resnet50 4x", "planned": {"ways": ways}}, {})[0]

    assert judged(2.0, 4.5) == AHEAD
    assert judged(4.05) == LEVEL  # within 2%
    assert judged(3.9) == BEHIND
