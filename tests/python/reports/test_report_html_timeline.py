"""The timeline of a report's page: pointer, keys, fingers, zoom, axes and colors."""

from __future__ import annotations

import re

import pytest
from html_browser import at, column, in_words, live, pixel, position, short, text
from html_reports import synthetic

pytestmark = pytest.mark.slow


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
    for place in range(0, len(after["phase"]), 3):
        after["phase"][place] = 2
    assert pixel(show(report), starts[1] * 0.9, 6) == colors[0]


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
