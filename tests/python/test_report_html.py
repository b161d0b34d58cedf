"""The HTML page of a report: what it is made of, and what it does in a real browser.

The browser is the system's Chromium, driven by playwright, which downloads nothing. Without one
of the two, the tests that need them are skipped.
"""

from __future__ import annotations

import base64
import contextlib
import fnmatch
import hashlib
import json
import pathlib
import re
import shutil

import lms
import pytest
from html_reports import FATES, HOSTILE, ROLES, synthetic, unchanged
from lms._reports import html_page as _report_html

FILES = pathlib.Path(_report_html.__file__).parent / "page"
ROOT = pathlib.Path(__file__).resolve().parents[2]
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage"]  # containers: root, and little of /dev/shm


# ---- the file --------------------------------------------------------------------------------


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
    for text in (script, style):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
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


# ---- in the browser --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium():
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is missing: pip install playwright"
    )
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is missing: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def show(chromium, tmp_path):
    """show(report, **options of the window) opens its page. Nothing may be said or asked for."""
    said, asked, contexts = [], [], []

    def open_page(report, **options):
        file = tmp_path / "report.html"
        file.write_text(_report_html.render(report), encoding="utf-8")
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in asked if not url.endswith("/report.html")] == []


def text(page, selector):
    return page.locator(selector).first.inner_text()


def column(page, table, key):
    keys = page.locator(f"#{table}-table thead th").evaluate_all(
        "cells => cells.map(c => c.dataset.key)"
    )
    rows = f"rows => rows.map(row => row.children[{keys.index(key)}].textContent)"
    return page.locator(f"#{table}-table tbody tr").evaluate_all(rows)


def position(page):
    return int(page.locator("#stage").get_attribute("aria-valuenow")) - 1


def at(page, share):
    """Coordinates inside the plot, `share` of its width from the left."""
    box = page.locator("#stage").bounding_box()
    left = 54 if box["width"] < 520 else 66
    return box["x"] + left + share * (box["width"] - left - 10), box["y"] + 150


def live(report, step, where):
    """[(bytes, name, role)] of what the report holds there, the largest first."""
    table, strings = report["details"]["buffers"], report["details"]["strings"]
    held = [
        (table["bytes"][index], strings[table["name"][index]], ROLES[table["role"][index]])
        for index, intervals in enumerate(table[step])
        if any(first <= where <= last for first, last in intervals)
    ]
    return sorted(held, key=lambda item: -item[0])


def in_words(size):
    unit = sum(size >= 1024**power for power in (1, 2, 3))
    digits = (0, 1, 1, 2)[unit]
    return f"{size / 1024**unit:.{digits}f} {('B', 'KiB', 'MiB', 'GiB')[unit]}"


def short(name):
    return name.replace("StatefulPartitionedCall/", "").removesuffix(":0")


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
    assert "a sum whose order" in text(page, "#kept")
    assert "Measured, 2 steps" in text(page, "#measured") and "Recomputed" in text(page, "#terms")


@pytest.mark.parametrize("step", ["after", "before"])
def test_hovering_shows_what_is_live_there(show, step):
    report = synthetic(300)
    page = show(report)
    page.click(f'.segmented button[data-value="{step}"]')
    assert position(page) == report["details"][f"peak_{step}"]
    seen = set()
    for share in (0.2, 0.5, 0.8):
        page.mouse.move(*at(page, share))
        where = position(page)
        seen.add(where)
        assert abs(where - share * len(report["details"]["after"]["bytes"])) <= 2
        op = report["details"]["strings"][report["details"][step]["op"][where]]
        assert short(op) in text(page, ".live .op")
        held = live(report, step, where)
        assert text(page, "#live-count") == f"{len(held):,} live buffers"
        rows = page.locator(".live-list li:not([hidden])")
        assert rows.count() == min(40, len(held))
        sizes = {name: size for size, name, _ in held}
        shown = rows.locator(".name").evaluate_all("names => names.map(name => name.title)")
        assert [sizes[name] for name in shown] == [size for size, _, _ in held[:40]]
        values = rows.locator(".value").all_inner_texts()
        assert values == [in_words(size) for size, _, _ in held[:40]]
        shares = text(page, ".shares")
        for role in ("weight", "activation", "gradient"):
            total = sum(size for size, _, of in held if of == role)
            assert re.search(rf"{role}\s+{re.escape(in_words(total))}\b", shares)
    assert len(seen) == 3


def test_the_peak_can_be_reached_by_hovering_although_many_operations_share_a_pixel(show):
    report = synthetic(10_000)
    page = show(report)
    peak = report["details"]["peak_after"]
    page.mouse.move(*at(page, (peak + 0.5) / len(report["details"]["after"]["bytes"])))
    assert report["details"]["after"]["bytes"][position(page)] == report["peak_after_bytes"]


def test_a_click_pins_and_escape_lets_go(show):
    report = synthetic(200)
    page = show(report)
    page.mouse.click(*at(page, 0.3))
    pinned = position(page)
    page.mouse.move(*at(page, 0.7))
    assert position(page) == pinned and text(page, "#pin") == "Unpin"
    page.mouse.click(*at(page, 0.6))
    assert position(page) > pinned
    page.locator("#stage").press("Escape")
    page.mouse.move(*at(page, 0.1))
    assert position(page) < pinned and text(page, "#pin") == "Pin"
    page.click("#to-peak")
    peak = position(page)
    page.mouse.move(*at(page, 0.9))
    assert position(page) == peak == report["details"]["peak_after"]
    assert text(page, "#pin") == "Unpin"


def test_the_keyboard_does_what_the_pointer_does(show):
    report = synthetic(200)
    page = show(report)
    stage = page.locator("#stage")
    last = len(report["details"]["after"]["bytes"]) - 1
    for key, wanted in (("Home", 0), ("ArrowRight", 1), ("End", last), ("ArrowLeft", last - 1)):
        stage.press(key)
        assert position(page) == wanted
    stage.press("Enter")
    assert text(page, "#pin") == "Unpin" and "pinned" in stage.get_attribute("aria-valuetext")
    stage.press("PageDown")
    assert position(page) < last - 5 and text(page, "#pin") == "Unpin"
    stage.press("Enter")
    assert text(page, "#pin") == "Pin"


def test_a_finger_pins(show):
    page = show(
        synthetic(200), has_touch=True, is_mobile=True, viewport={"width": 390, "height": 800}
    )
    page.locator("#stage").scroll_into_view_if_needed()
    page.touchscreen.tap(*at(page, 0.25))
    first = position(page)
    assert text(page, "#pin") == "Unpin"
    page.touchscreen.tap(*at(page, 0.75))
    assert position(page) > first + 50


def test_dragging_zooms_and_the_button_shows_all_again(show):
    report = synthetic(1000)
    page = show(report)
    page.mouse.move(*at(page, 0.4))
    page.mouse.down()
    page.mouse.move(*at(page, 0.5), steps=4)
    page.mouse.up()
    page.mouse.move(*at(page, 0.5))
    assert abs(position(page) - 0.45 * len(report["details"]["after"]["bytes"])) < 10
    page.get_by_role("button", name="Show all", exact=True).click()
    page.mouse.move(*at(page, 0.9))
    assert abs(position(page) - 0.9 * len(report["details"]["after"]["bytes"])) < 3


def test_the_axis_of_time_is_that_of_the_operations_start(show):
    report = synthetic(300)
    page = show(report)
    page.click('.segmented button[data-value="time"]')
    start = report["details"]["after"]["start_us"]
    for share in (0.1, 0.25, 0.8):
        page.mouse.move(*at(page, share))
        assert abs(start[position(page)] - start[-1] * share) < 0.03 * start[-1]


def test_search_finds_by_name_type_role_fate_and_reason(show):
    report = synthetic(1000)
    table, strings = report["details"]["buffers"], report["details"]["strings"]
    page = show(report)

    def matching(*words):
        found = 0
        for index in range(1000):
            texts = [strings[table[c][index]].lower() for c in ("name", "type", "reason")]
            texts += [ROLES[table["role"][index]], FATES[table["fate"][index]]]
            found += all(any(word in t for t in texts) for word in words)
        return found

    for words in (["conv2d"], ["stage3", "relu"], ["recomputed"], ["link", "idle"], ["weight"]):
        page.fill("#buffers-search", " ".join(words).upper())
        assert 0 < matching(*words) < 1000
        assert text(page, "#buffers-count").startswith(f"{matching(*words):,} of 1,000 buffers")
    page.fill("#buffers-search", "no such thing")
    assert "No buffers match" in text(page, "#buffers-table tbody")
    page.click("#buffers-table tbody button")
    assert text(page, "#buffers-count").startswith("1,000 buffers")
    assert page.input_value("#buffers-search") == ""


def test_each_column_sorts_both_ways(show):
    report = synthetic(500)
    table, strings = report["details"]["buffers"], report["details"]["strings"]
    page = show(report)
    assert column(page, "buffers", "bytes")[0] == page.locator(".figure").first.evaluate(
        "(_, b) => `${(b / 2 ** 20).toFixed(1)} MiB`", max(table["bytes"])
    )
    words = {
        "name": [short(strings[i]) for i in table["name"]],
        "type": [strings[i] for i in table["type"]],
        "reason": [strings[i] for i in table["reason"]],
    }
    for key in ("name", "bytes", "role", "fate", "cost", "type", "reason"):
        seen = []
        for _ in range(2):
            page.click(f'#buffers-table th[data-key="{key}"] button')
            order = page.get_attribute(f'#buffers-table th[data-key="{key}"]', "aria-sort")
            assert page.locator("#buffers-table th[aria-sort]").count() == 1
            shown = column(page, "buffers", key)
            seen.append((order, shown[0]))
            if key in words:
                wanted = sorted(words[key], key=str.lower, reverse=order == "descending")[:25]
                assert [w.lower() for w in shown] == [w.lower() for w in wanted]
        assert {order for order, _ in seen} == {"ascending", "descending"}
        assert seen[0][1] != seen[1][1]


def test_pages_of_the_table(show):
    page = show(synthetic(120))
    names = column(page, "buffers", "name")
    page.locator("#buffers-grid .pager").get_by_text("Next").click()
    assert len(names) == 25 and not set(names) & set(column(page, "buffers", "name"))
    page.locator("#buffers-grid .pager").get_by_label("Last page").click()
    assert len(column(page, "buffers", "name")) == 20
    page.locator("#buffers-grid .pager select").select_option("250")
    assert len(column(page, "buffers", "name")) == 120


def test_filters_and_the_pin_narrow_the_table(show):
    report = synthetic(300)
    page = show(report)
    page.locator("#buffers-grid").get_by_label("Role").select_option("2")
    assert set(column(page, "buffers", "role")) == {"weight"}
    page.locator("#buffers-grid").get_by_label("Role").select_option("")
    assert page.locator("#only-live").is_hidden()
    page.mouse.click(*at(page, 0.3))
    page.check("#only-live")
    count = len(live(report, "after", position(page)))
    assert text(page, "#buffers-count").startswith(f"{count} of 300 buffers")
    page.click("#pin")
    assert text(page, "#buffers-count").startswith("300 buffers")


def marked(page):
    """Which share of the pixels under the plot has the color of the chosen buffer."""
    return page.evaluate(
        """() => {
          const canvas = document.querySelector("canvas.overlay");
          const copy = new OffscreenCanvas(canvas.width, 44);
          const pen = copy.getContext("2d", { willReadFrequently: true });
          pen.drawImage(canvas, 0, 60 - canvas.height);
          const { data } = pen.getImageData(0, 0, copy.width, copy.height);
          const css = getComputedStyle(document.documentElement).getPropertyValue("--selected");
          const want = [1, 3, 5].map((at) => parseInt(css.trim().slice(at, at + 2), 16));
          let hits = 0;
          for (let i = 0; i < data.length; i += 4) hits += want.every((c, k) => data[i + k] === c);
          return hits / (data.length / 4);
        }"""
    )


def test_a_row_shows_on_the_timeline_when_its_buffer_is_held(show):
    page = show(synthetic(300))
    assert marked(page) == 0
    page.locator("#buffers-table tbody tr").nth(2).click()
    name = page.locator("#buffers-table tbody tr.picked .name").get_attribute("title")
    assert page.locator("#chosen .name").get_attribute("title") == name
    assert 0.001 < marked(page) < 0.5
    assert page.locator("#buffers-table tr.detail .lane").count() == 2
    page.click("#buffers-table tr.detail button")
    assert page.evaluate("document.activeElement.id") == "stage"
    page.locator("#buffers-table tbody tr.picked button").press("Enter")
    assert marked(page) == 0 and "Choose a buffer" in text(page, "#chosen")
    page.locator(".live-list button").nth(3).click()
    assert marked(page) > 0 and page.locator("#buffers-table tr.picked").count() == 1


def test_decisions_have_reason_cost_and_saving_and_lead_to_their_place(show):
    report = synthetic(300)
    page = show(report)
    assert text(page, "#decisions-count") == f"{len(report['decisions'])} decisions"
    page.locator("#decisions-grid .tools select").select_option("swap_out")
    assert set(column(page, "decisions", "kind")) == {"swap out"}
    page.locator("#decisions-grid .tools select").select_option("recompute")
    assert all(
        re.fullmatch(r"[\d.]+ (MiB|KiB)", t) for t in column(page, "decisions", "tensor_bytes")
    )
    assert all(re.fullmatch(r"[\d.]+ (µs|ms)", t) for t in column(page, "decisions", "cost_us"))
    assert all("cheap to make again" in t for t in column(page, "decisions", "reason"))
    assert all("ReluGrad" in t for t in column(page, "decisions", "before"))
    page.click('.segmented button[data-value="before"]')
    page.locator("#decisions-table tbody tr").nth(1).click()
    op = page.locator("#decisions-table tr.picked .name").first.get_attribute("title")
    table, strings = report["details"]["buffers"], report["details"]["strings"]
    after = report["details"]["after"]
    again = [strings[i] == op and k == 1 for i, k in zip(after["op"], after["kind"])]
    assert again.count(True) == 1 and position(page) == again.index(True)
    assert text(page, "#pin") == "Unpin"
    assert page.get_attribute('.segmented button[data-value="after"]', "aria-pressed") == "true"
    assert "recompute: Relu" in text(page, ".live .op") and marked(page) > 0
    held = page.locator("#decisions-table tr.detail .lane").evaluate_all(
        "e => e.map(x => x.textContent)"
    )
    intervals = table["after"][[strings[i] for i in table["name"]].index(f"{op}:0")]
    assert len(intervals) == 2
    assert held[1] == "with lms" + ", ".join(f"{a + 1:,}\u2013{b + 1:,}" for a, b in intervals)
    page.locator("#decisions-table tbody tr").nth(1).click()
    assert text(page, "#pin") == "Pin" and marked(page) == 0


def test_no_added_time_is_said_in_words(show):
    page = show(synthetic(60, predicted_time_overhead=0.0002))
    assert text(page, ".lead").endswith(" less), in the same time.")


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


@pytest.mark.parametrize("which", PAGES)
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


def test_without_details_there_is_still_the_timeline(show):
    report = synthetic(60, details=None)
    page = show(report)
    page.mouse.move(*at(page, 0.5))
    where = position(page)
    assert abs(where - len(report["timeline"]["after"]) / 2) <= 2
    assert text(page, "#live-bytes") == in_words(report["timeline"]["after"][where])
    assert "came without its list of buffers" in text(page, ".live")
    assert page.locator("#buffers").is_hidden() and page.locator("#decisions").is_visible()


def test_on_paper_there_are_no_controls(show):
    page = show(synthetic(60))
    page.emulate_media(media="print")
    assert page.locator("button.quiet:visible, input:visible, select:visible").count() == 0
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#buffers-table").is_visible() and page.locator("img.paper").is_visible()
    assert page.evaluate("document.querySelector('img.paper').naturalWidth") > 300
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("img.paper").is_hidden()


def pixel(page, share, from_top):
    """The picture's color there, as "#rrggbb"."""
    return page.evaluate(
        """([share, y]) => {
          const canvas = document.querySelector("canvas.base");
          const copy = new OffscreenCanvas(1, 1);
          const pen = copy.getContext("2d");
          pen.drawImage(canvas, -Math.round(66 + share * (canvas.width - 76)), -y);
          const [r, g, b] = pen.getImageData(0, 0, 1, 1).data;
          return "#" + [r, g, b].map((c) => c.toString(16).padStart(2, "0")).join("");
        }""",
        [share, from_top],
    )


def test_bands_show_the_phase_that_most_operations_belong_to(show):
    report = synthetic(3000)
    after = report["details"]["after"]
    page = show(report)
    colors = page.evaluate(
        "['forward', 'backward', 'update'].map((name) =>"
        " getComputedStyle(document.documentElement).getPropertyValue(`--phase-${name}`).trim())"
    )
    starts = [after["phase"].index(phase) / len(after["phase"]) for phase in range(3)]
    for phase, share in enumerate((starts[1] * 0.9, (starts[1] + starts[2]) / 2, 0.95)):
        assert pixel(page, share, 6) == colors[phase]
    for position in range(0, len(after["phase"]), 3):
        after["phase"][position] = 2
    assert pixel(show(report), starts[1] * 0.9, 6) == colors[0]


def test_a_part_that_cannot_be_drawn_leaves_the_others(chromium, tmp_path):
    report = synthetic(60, kept=[None])
    file = tmp_path / "report.html"
    file.write_text(_report_html.render(report), encoding="utf-8")
    with contextlib.closing(chromium.new_context()) as context:
        page = context.new_page()
        page.goto(file.as_uri())
        assert "could not be drawn" in text(page, "#kept")
        assert page.locator("#buffers-table tbody tr").count() == 25


def test_ten_thousand_buffers(show):
    report = synthetic(10_000)
    page = show(report)
    page.mouse.move(*at(page, 0.5))
    assert (
        text(page, "#live-count") == f"{len(live(report, 'after', position(page))):,} live buffers"
    )
    page.fill("#buffers-search", "block17_")
    count = sum(
        "block17_" in report["details"]["strings"][n] for n in report["details"]["buffers"]["name"]
    )
    assert text(page, "#buffers-count").startswith(f"{count} of 10,000 buffers")
    page.fill("#buffers-search", "")
    page.click('#buffers-table th[data-key="name"] button')
    assert len(column(page, "buffers", "name")) == 25


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
