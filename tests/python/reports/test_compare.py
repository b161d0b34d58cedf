"""Reports side by side: figures, layers, the page, and lms report with several files."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import lms
import lms_cli
import pytest
from html_reports import HOSTILE, synthetic
from lms._base.format import format_bytes
from lms._reports import compare_page


def report(**changes: Any) -> lms.Report:
    return lms.Report.from_json(json.dumps(synthetic(20, **changes)))


def row(comparison: lms.Comparison, name: str) -> lms.ComparedRow:
    (found,) = [row for row in comparison.figures() if row.name == name]
    return found


def test_figures_and_what_changed() -> None:
    one = report(peak_after_bytes=8 << 20, predicted_time_overhead=0.1, measured_peak_bytes=0)
    two = dataclasses.replace(one, peak_after_bytes=6 << 20, predicted_time_overhead=0.25)
    comparison = lms.compare(one, two, names=["old", "new"])
    peak = row(comparison, "predicted peak with lms")
    assert peak.values == (8 << 20, 6 << 20)
    assert comparison.cells(peak) == ["8 MiB", "6 MiB", "-2 MiB (-25%)"]
    added = comparison.cells(row(comparison, "predicted added time"))
    assert added == ["+10.0%", "+25.0%", "+15.0 points"]
    assert comparison.cells(row(comparison, "predicted peak, stock"))[2] == "same"
    # What no report knows has no row; what one knows has one, without a change.
    assert "measured peak" not in [row.name for row in comparison.figures()]
    measured = lms.compare(one, dataclasses.replace(two, measured_peak_bytes=5 << 20))
    assert measured.cells(row(measured, "measured peak")) == ["", "5 MiB", ""]
    table = comparison.table()
    assert "old" in table and "new" in table and "-2 MiB (-25%)" in table


def test_more_than_two_have_no_change() -> None:
    one = report()
    comparison = lms.compare(one, one, one)
    assert comparison.columns() == ["1", "2", "3"]
    assert len(comparison.cells(comparison.figures()[0])) == 3


def test_what_cannot_be_compared() -> None:
    one = report()
    with pytest.raises(ValueError, match="1 reports: expected are 2 to 8"):
        lms.compare(one)
    with pytest.raises(ValueError, match="2 different names"):
        lms.compare(one, one, names=["a", "a"])
    with pytest.raises(TypeError, match="not dict"):
        lms.compare(one, {})  # type: ignore[arg-type]


def renamed(one: lms.Report, old: str, new: str) -> lms.Report:
    data = json.loads(one.to_json())
    strings = [re.sub(old, new, text) for text in data["details"]["strings"]]
    data["details"]["strings"] = strings
    return lms.Report.from_json(json.dumps(data))


def test_layers_of_a_model_that_was_made_anew() -> None:
    one = report()
    names = [layer.layer for layer in one.by_layer()]
    assert len(names) > 3
    same = lms.compare(one, one).layers()
    assert {row.name for row in same} == set(names)
    assert all(row.values[0] == row.values[1] for row in same)
    number = r"_(\d+)"
    assert any(re.search(number, name) for name in names)
    anew = renamed(one, number, lambda match: f"_{int(match[1]) + 40}")  # type: ignore[arg-type]
    assert {layer.layer for layer in anew.by_layer()} != set(names)
    assert lms.compare(one, anew).layers() == same
    # Of another model they stay apart.
    other = lms.compare(one, renamed(one, "stage4", "tail")).layers()
    assert any(row.values[1] is None for row in other)


def test_the_page_runs_nothing_and_shows_text_as_text() -> None:
    one = report(hostile=True)
    page = lms.compare(one, one, names=["<b>old</b>", HOSTILE]).to_html()
    assert page.isascii()
    assert "<script" not in page and "<b>old" not in page and "<img" not in page
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.S)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert "prefers-color-scheme: dark" in style
    assert page.count("<svg") == 2


def test_pictures_have_one_scale_and_keep_the_peak() -> None:
    one = report()
    low = dataclasses.replace(one, timeline={"before": [1 << 20] * 9, "after": []})
    page = lms.compare(one, low).to_html()
    highest = max(max(line) for line in one.timeline.values() if line)
    first, second = re.findall(r"<svg.*?</svg>", page, re.S)
    labels = re.findall(r'class="left">([^<]*iB)<', first)
    assert labels == re.findall(r'class="left">([^<]*iB)<', second) and len(labels) == 4
    assert f"peak {format_bytes(highest)}" in first and "peak 1 MiB" in second
    line = list(range(5000))
    line[3210] = 10**9
    thin = compare_page._thinned(line)
    assert len(thin) == 400 and max(thin) == 10**9


def test_files_side_by_side(tmp_path: Path, capfd: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    report().to_json("old.json")
    report(status="infeasible").to_json("new.json")
    Path("other").mkdir()
    report().to_json("other/old.json")
    assert lms_cli.main(["report", "old.json", "other/old.json"]) == 0
    assert "other/old.json" in capfd.readouterr().out
    assert lms_cli.main(["report", "old.json", "new.json", "--html", "both.html", "--json"]) == 1
    printed = json.loads(capfd.readouterr().out)
    assert printed["files"] == ["old.json", "new.json"] and len(printed["reports"]) == 2
    assert printed["written"] == {"html": "both.html"}
    assert "<svg" in Path("both.html").read_text(encoding="utf-8")
    assert lms_cli.main(["report", "old.json", "new.json", "--plot", "x.png"]) == 2
    assert "of one report" in capfd.readouterr().err
