"""Pages of the documentation: links, navigation, pictures, and the site that is made of them."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs_pages import BLOCKS, DOCS, PAGES, ROOT


def slug(heading: str) -> str:
    """The anchor of a heading, as code hosts and the site make it."""
    text = re.sub(r"[`*]", "", heading.strip().lower())
    return re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", text))


def anchors(text: str) -> set[str]:
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", outside, re.M)}


def listed_pages() -> list[str]:
    trees = [block for block in BLOCKS if block.language == "{toctree}"]
    return [
        entry
        for block in trees
        for entry in block.text.splitlines()
        if re.fullmatch(r"[\w-]+\.md", entry)
    ]


def test_links_lead_somewhere() -> None:
    wrong = []
    for page, text in PAGES.items():
        outside = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", outside):
            if re.match(r"\w+:", target):
                continue
            name, _, anchor = target.partition("#")
            path = (ROOT / page).parent / name if name else ROOT / page
            known = (
                anchors(path.read_text("utf-8"))
                if path.suffix == ".md" and path.exists()
                else set()
            )
            if not path.exists() or (anchor and anchor not in known):
                wrong.append(f"{page}: {target}")
    assert wrong == []


def test_every_page_is_in_the_navigation_once() -> None:
    listed = listed_pages()
    assert len(listed) == len(set(listed))
    there = {name.partition("/")[2] for name in PAGES if name.startswith("docs/")} - {"index.md"}
    assert there - set(listed) == set()
    assert set(listed) - there == set()


def test_no_line_of_the_readme_is_long() -> None:
    long = [n for n, line in enumerate(PAGES["README.md"].splitlines(), 1) if len(line) > 150]
    assert long == []


def contrast(color: str, other: str) -> float:
    """WCAG's contrast of two colours "#rrggbb": 1 (equal) to 21."""

    def luminance(text: str) -> float:
        parts = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(color), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_pictures_can_be_read_on_white_and_on_black() -> None:
    pictures = sorted((DOCS / "pictures").glob("*.svg"))
    assert len(pictures) >= 3
    pages = "".join(PAGES.values())
    for picture in pictures:
        assert f"pictures/{picture.name}" in pages
        text = picture.read_text("utf-8")
        assert len(text) < 100_000
        assert "<image" not in text and "http-equiv" not in text
        colors = set(re.findall(r"(?:fill|stroke): ?(#[0-9a-fA-F]{6})", text))
        assert colors
        for color in colors:
            assert contrast(color, "#ffffff") >= 3 <= contrast(color, "#131416"), (picture, color)


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    for name in ("sphinx", "furo", "myst_parser", "sphinx_copybutton"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed (the extra 'docs'; ./run docs installs it)")
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", DOCS, tmp_path / "site"],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    check_site(tmp_path / "site")


def check_site(site: Path) -> None:
    """It needs no network: what pages load lies in the site."""
    pages = list(site.glob("*.html"))
    assert {"index.html", "search.html", "api.html", "messages.html"} <= {p.name for p in pages}
    assert (site / "searchindex.js").exists()
    for page in pages:
        text = page.read_text("utf-8")
        loaded = re.findall(
            r"<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=\"([^\"]*)\"", text
        )
        far = [url for url in loaded if re.match(r"(?:\w+:)?//", url)]
        assert far == [], page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//|@import", style.read_text("utf-8")), style
    for page, words in (
        ("options", "memory_budget"),
        ("messages", "returned or preserved by name"),
        ("api", "time_overhead_bound: no plan for the budget"),
    ):
        text = re.sub(r"<[^>]*>", "", (site / f"{page}.html").read_text("utf-8"))
        assert words in text, page
