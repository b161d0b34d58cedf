"""A report's page in a real browser, and what its tests look at there.

The browser is the system's Chromium, driven by playwright, which downloads nothing. Without one
of the two, the tests that need them are skipped. The fixtures are made known in conftest.py.
"""

from __future__ import annotations

import shutil

import pytest
from html_reports import ROLES
from lms._reports import html_page as _report_html

ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage"]  # containers: root, and little of /dev/shm


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
