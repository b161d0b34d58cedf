"""The page of a report in Firefox: another engine's canvas, layout, pointer and keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import firefox_browser
import pytest
from firefox_browser import Firefox
from html_browser import in_words
from html_reports import synthetic, unchanged
from lms._reports import html_page

pytestmark = pytest.mark.slow

END = "\ue010"  # as WebDriver calls the key


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    with firefox_browser.started(tmp_path_factory.mktemp("firefox") / "profile") as browser:
        yield browser


@pytest.fixture
def show(firefox: Firefox, tmp_path: Path):
    """show(report, **size) opens its page. Scripts may say nothing."""

    def open_page(report, **size: int) -> Firefox:
        file = tmp_path / "report.html"
        file.write_text(html_page.render(report), encoding="utf-8")
        firefox.open(file, **size)
        return firefox

    yield open_page
    said, firefox.said = firefox.said, []
    assert said == []


def position(page: Firefox) -> int:
    return int(page.value("document.querySelector('#stage').getAttribute('aria-valuenow')")) - 1


def test_the_words_the_picture_and_the_tables(show) -> None:
    report = synthetic(200)
    page = show(report)
    assert page.value("document.title") == "multi_step_on_iterator: rewritten (lms)"
    assert page.value("document.querySelectorAll('#buffers-table tbody tr').length") == 25
    assert page.value("document.querySelectorAll('#layers tbody tr').length") == 20
    colors = page.value("""(() => {
      const canvas = document.querySelector("canvas.base");
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return new Set(new Uint32Array(data.buffer)).size;
    })()""")
    assert colors > 5  # a surface, axes, and a color for each role


def test_hovering_shows_what_is_live_there(show) -> None:
    report = synthetic(300)
    page = show(report)
    box = page.value("document.querySelector('#stage').getBoundingClientRect()")
    for share in (0.2, 0.8):
        page.move(box["x"] + 66 + share * (box["width"] - 76), box["y"] + 150)
        where = position(page)
        assert abs(where - share * len(report["details"]["after"]["bytes"])) <= 2
        shown = page.value("document.querySelector('#live-bytes').innerText")
        assert shown == in_words(report["details"]["after"]["bytes"][where])


def test_keys_and_the_search(show) -> None:
    report = synthetic(200)
    page = show(report)
    page.value("document.querySelector('#stage').focus()")
    page.press(END)
    assert position(page) == len(report["details"]["after"]["bytes"]) - 1
    page.value("document.querySelector('#buffers-search').focus()")
    page.press("weight")
    page.until("document.querySelector('#buffers-search').value === 'weight'")
    rows = "[...document.querySelectorAll('#buffers-table tbody tr')]"
    page.until(f"{rows}.length > 0 && {rows}.every(row => row.innerText.includes('weight'))")


@pytest.mark.parametrize("status", ["rewritten", "fits"])
def test_a_phone_need_not_scroll_sideways(show, status: str) -> None:
    report = synthetic(60) if status == "rewritten" else unchanged("fits", "fits", buffers=60)
    page = show(report, width=360, height=740)
    assert page.value("document.documentElement.scrollWidth") <= 360
    before = page.value("getComputedStyle(document.body).backgroundColor")
    page.value("document.querySelector('#theme').click()")
    assert page.value("getComputedStyle(document.body).backgroundColor") != before
