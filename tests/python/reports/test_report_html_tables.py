"""The tables of a report's page: search, order, pages, filters, decisions."""

from __future__ import annotations

import re

import pytest
from html_browser import at, column, live, marked, position, short, text
from html_reports import FATES, ROLES, synthetic

pytestmark = pytest.mark.slow


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
