"""The HTML page of a report: what it is made of, and what it says in a real browser."""

from __future__ import annotations

import base64
import contextlib
import fnmatch
import hashlib
import json
import pathlib
import re

import lms
import pytest
from html_browser import at, in_words, position, text
from html_reports import HOSTILE, synthetic, unchanged
from lms._reports import html_page as _report_html
from places import ROOT

FILES = pathlib.Path(_report_html.__file__).parent / "page"


def embedded(page: str) -> str:
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return data


def test_the_page_is_one_file_in_ascii_that_names_no_other():
    page = _report_html.render(synthetic(20))
    assert page.isascii()
    assert not re.search(r"https?://|\bimport\b.*\bfrom\b|@import|url\(", page)
    assert set(re.findall(r'\b(?:src|href)="([^"]*)"', page)) == {"data:,", "#main"}


def test_the_data_comes_back_as_it_was_and_ends_no_element():
    report = synthetic(20, hostile=True)
    data = embedded(_report_html.render(report))
    assert json.loads(data) == report
    assert not set("<>&\u2028\u2029") & set(data)


def test_placeholders_in_the_data_stay_as_they_are():
    report = synthetic(5, function="{{script}}{{data}}")
    assert json.loads(embedded(_report_html.render(report)))["function"] == "{{script}}{{data}}"


def test_numbers_that_json_does_not_have_become_null():
    report = synthetic(5, time_overhead_bound=float("nan"), step_time_us=float("inf"))
    data = json.loads(embedded(_report_html.render(report)))
    assert data["time_overhead_bound"] is None and data["step_time_us"] is None
    assert data["decisions"] == report["decisions"]


def test_the_policy_allows_what_is_in_the_page_and_nothing_else():
    page = _report_html.render(synthetic(5))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.S)
    for part in (script, style):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy


def test_no_script_makes_markup_of_text():
    for path in FILES.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "fetch(",
        ):
            assert word not in text, path.name
        assert text.isascii(), path.name


def test_every_file_of_the_page_is_used_and_packed():
    page = _report_html.render(synthetic(5))
    one = lms.Report.from_json(json.dumps(synthetic(5)))
    page += lms.compare(one, one).to_html()
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (packed,) = re.findall(r"\[tool\.setuptools\.package-data\]\nlms = (\[[^\]]*\])", project)
    for path in FILES.iterdir():
        assert any(fnmatch.fnmatch(f"_reports/page/{path.name}", p) for p in json.loads(packed)), (
            path.name
        )
        if path.suffix != ".html":
            assert path.read_text(encoding="utf-8") in page, path.name


def test_what_is_no_report_is_named():
    with pytest.raises(TypeError, match=r"expected an lms\.Report .*not list"):
        _report_html.render([])


def luminance(color: str) -> float:
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colors_have_the_contrast_of_wcag_aa(theme):
    css = (FILES / "page.css").read_text(encoding="utf-8")
    light, dark = re.findall(r"^:root(?:\[data-theme=\"dark\"\])? \{(.*?)^\}", css, re.M | re.S)
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light))
    assert set(dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", dark))) == set(colors)
    if theme == "dark":
        colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", dark))
    text = [
        (ink, back) for ink in ("ink", "muted") for back in ("page", "surface", "sunken", "picked")
    ]
    text += [("good", "good-back"), ("bad", "bad-back"), ("ink", "calm-back"), ("ink", "warn-back")]
    text += [("accent", "page"), ("surface", "accent")]
    text += [(name, "surface") for name in ("stock", "after", "budget")]
    text += [("ink", name) for name in colors if name.startswith("phase-")]
    marks = [
        name for name in colors if re.match(r"(role|fate|kind)-|focus|selected|pin|edge|unl", name)
    ]
    for ink, back, least in [(*pair, 4.5) for pair in text] + [(m, "surface", 3) for m in marks]:
        assert contrast(colors[ink], colors[back]) >= least, (ink, back)


def test_what_is_usual_is_said_where_it_is_less(show):
    report = synthetic(100)
    highest = report["peak_before_bytes"]
    lower = highest - highest // 10
    report["order_peaks"] = {"before": [lower, lower, highest], "after": []}
    assert f"usually {in_words(lower)}" in text(show(report), ".figures")
    report["order_peaks"]["before"] = [lower, highest, highest]
    assert "usually" not in text(show(report), ".figures")


def test_title_words_and_figures(show):
    page = show(synthetic(100, predicted_time_overhead=0.0712, time_overhead_bound=0.061))
    assert page.title() == "multi_step_on_iterator: rewritten (lms)"
    assert text(page, "h1") == "multi_step_on_iterator" and text(page, ".status") == "Rewritten"
    assert "less), for 7.1% more time." in text(page, ".lead")
    figures = text(page, ".figures")
    for words in (
        "Predicted peak, stock",
        "with lms",
        "0.4% above the prediction",
        "asked for: 75%",
    ):
        assert words in figures
    assert "+7.1%" in figures and "no plan adds less than 6.1%" in figures
    assert "assumed to be 32" in text(page, ".warnings")
    assert "images:0 = 64 (first call)" in text(page, "#facts")
    assert "a sum whose last bits" in text(page, "#kept")
    assert "Measured, 2 steps" in text(page, "#measured") and "Recomputed" in text(page, "#terms")


@pytest.mark.slow
def test_layers_and_what_they_hold(show):
    page = show(synthetic(200))
    layers = json.loads(page.locator("#layers-data").inner_text())
    assert len(layers) > 20
    rows = page.locator("#layers tbody tr")
    assert rows.count() == 20
    assert rows.first.locator("th").inner_text().replace("\u200b", "") == layers[0]["layer"]
    page.get_by_role("button", name=f"Show all {len(layers)} layers").click()
    assert rows.count() == len(layers)
    assert page.locator("#layers button").count() == 0
    assert show(unchanged(20)).locator("#layers thead th").all_inner_texts() == [
        "Layer",
        "Size",
        "Weights",
    ]


@pytest.mark.slow
def test_hints_and_what_each_costs(show):
    hint = {"kind": "keep", "where": "layer block/a", "tensors": 3, "bytes": 5 * 2**20}
    hint.update(cost_us=-1500.0, peak_bytes=9 * 2**20, peak_without_bytes=8 * 2**20, not_followed=1)
    page = show(synthetic(60, hints=[hint]))
    cells = page.locator("#hints tbody tr > *").all_inner_texts()
    wanted = ["layer block/a", "keep", "3", "5.0 MiB", "\u22121.50 ms", "9.0 MiB", "8.0 MiB", "1"]
    assert cells == wanted
    assert show(synthetic(60)).locator("#hints").is_hidden()


def test_the_button_changes_the_theme_and_the_system_chooses_the_first(show):
    def background(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    page = show(synthetic(50))
    light = background(page)
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "dark" and background(page) != light
    dark = background(page)
    page.click("#theme")
    assert background(page) == light
    page = show(synthetic(50), color_scheme="dark")
    assert background(page) == dark
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.get_attribute("html", "data-theme") == "light"


def test_names_are_text_and_nothing_of_them_runs(show):
    page = show(synthetic(20, hostile=True))
    page.mouse.click(*at(page, 0.2))
    page.fill("#buffers-search", "onerror")
    page.locator("#buffers-table tbody tr").first.click()
    assert page.locator("#buffers-table .name").first.get_attribute("title") == f"{HOSTILE}:0"
    assert page.locator("img:not(.paper)").count() == 0
    assert page.evaluate("window.pwned") is None
    assert "<img src=x" in text(page, "h1") and "<img src=x" in text(page, ".warnings")
    assert "<img src=x" in text(page, "#kept") and "<img src=x" in text(page, "#chosen")


PAGES = {
    "rewritten": lambda: synthetic(60, hostile=True, hints=[{"kind": "keep", "where": "x" * 90}]),
    "fits": lambda: unchanged("fits", "predicted to keep the budget", buffers=60),
    "infeasible": lambda: unchanged("infeasible", min_budget_bytes=400 * 2**20, buffers=60),
    "skipped": lambda: unchanged("skipped", "no training step was found"),
    "failed": lambda: unchanged("failed", "std::bad_alloc", stage="planner"),
    "no details": lambda: synthetic(60, details=None),
    "nearly nothing": lambda: {"function": "f", "status": "skipped"},
}


@pytest.mark.parametrize(
    "which", [n if n == "rewritten" else pytest.param(n, marks=pytest.mark.slow) for n in PAGES]
)
def test_a_phone_shows_every_kind_of_report_without_scrolling_sideways(show, which):
    page = show(PAGES[which](), viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("main section:visible").count() >= 2


def test_a_step_that_fits_has_its_timeline_and_no_decisions(show):
    page = show(PAGES["fits"]())
    assert text(page, ".lead").startswith("Fits: ") and "Nothing was changed." in text(
        page, ".lead"
    )
    assert page.locator('.segmented button[data-value="before"]').count() == 0
    assert "None: the step runs as stock" in text(page, "#decisions")
    page.mouse.move(*at(page, 0.5))
    assert text(page, ".live .where").startswith("stock \u00b7 ")
    assert "Nothing was measured" in text(page, "#measured")


def test_what_was_not_planned_says_why_and_shows_no_empty_parts(show):
    page = show(PAGES["failed"]())
    assert text(page, ".status") == "Failed" and "training goes on" in text(page, ".lead")
    assert text(page, ".reason") == "Std::bad_alloc. Stage: planner."
    visible = page.locator("main section:visible").evaluate_all("e => e.map(x => x.id)")
    assert visible == ["summary", "facts", "terms"]
    page = show(PAGES["skipped"]())
    assert "No training step was found." in text(page, ".reason")
    page = show(PAGES["infeasible"]())
    assert "least budget that a plan was found for is 400.0 MiB" in text(page, ".lead")


@pytest.mark.slow
def test_without_details_there_is_still_the_timeline(show):
    report = synthetic(60, details=None)
    page = show(report)
    page.mouse.move(*at(page, 0.5))
    where = position(page)
    assert abs(where - len(report["timeline"]["after"]) / 2) <= 2
    assert text(page, "#live-bytes") == in_words(report["timeline"]["after"][where])
    assert "came without its list of buffers" in text(page, ".live")
    assert page.locator("#buffers").is_hidden() and page.locator("#decisions").is_visible()


@pytest.mark.slow
def test_on_paper_there_are_no_controls(show):
    page = show(synthetic(60))
    page.emulate_media(media="print")
    assert page.locator("button.quiet:visible, input:visible, select:visible").count() == 0
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#buffers-table").is_visible() and page.locator("img.paper").is_visible()
    assert page.evaluate("document.querySelector('img.paper').naturalWidth") > 300
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("img.paper").is_hidden()


def test_a_part_that_cannot_be_drawn_leaves_the_others(chromium, tmp_path):
    report = synthetic(60, kept=[None])
    file = tmp_path / "report.html"
    file.write_text(_report_html.render(report), encoding="utf-8")
    with contextlib.closing(chromium.new_context()) as context:
        page = context.new_page()
        page.goto(file.as_uri())
        assert "could not be drawn" in text(page, "#kept")
        assert page.locator("#buffers-table tbody tr").count() == 25


def test_a_real_report(show):
    import tensorflow as tf
    from steps import chain, check, descend, inputs, weights

    layers, x = weights(), inputs()

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(chain(x, layers))
        descend(tape, loss, layers)
        return loss

    step.__name__ = "html_page_"
    report = check(tf.function(step))
    page = show(report)
    assert text(page, "h1").startswith("html_page_") and text(page, ".status") == "Rewritten"
    page.mouse.move(*at(page, 0.5))
    where = position(page)
    assert page.locator("#stage").get_attribute("aria-valuemax") == str(
        len(report.timeline["after"])
    )
    assert text(page, "#live-bytes") == in_words(report.timeline["after"][where])
    assert text(page, "#decisions-count") == f"{len(report.decisions):,} decisions"
