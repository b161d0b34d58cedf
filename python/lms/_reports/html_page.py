"""The report as one HTML page that needs nothing else: no network, no server, no other file.

The page is made of the files in `page/`: a skeleton, a style sheet, and scripts that share one
scope. The report's JSON travels inside it as data. Names in it come from graphs, which anybody may
have written: the scripts put them on the page as text only, and the page's content security
policy allows no script but its own and no request at all.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from lms._reports import page_frame
from lms._reports.layers import by_layer

_SCRIPTS = (
    "format.js",
    "words.js",
    "model.js",
    "theme.js",
    "state.js",
    "summary.js",
    "plot.js",
    "picture.js",
    "timeline.js",
    "live.js",
    "grid.js",
    "buffers.js",
    "decisions.js",
    "layers.js",
    "lists.js",
    "main.js",
)


def _finite(value: Any) -> Any:
    """`value` without numbers that JSON does not have: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _embedded(report: Any) -> str:
    """JSON that can stand in a script element: ASCII, and nothing that ends or opens a tag."""
    try:
        text = json.dumps(report, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(report), separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _layers(details: Any) -> list[dict[str, Any]]:
    """The layers of a report with details. Nothing where these are not as they should be: what the
    page can show of them it shows."""
    try:
        return [dataclasses.asdict(layer) for layer in by_layer(details)] if details else []
    except (IndexError, KeyError, TypeError, ValueError):
        return []


def render(report: Any) -> str:
    """A whole HTML page (ASCII) that shows one report.

    report: an `lms.Report`, or the mapping that its `to_json()` writes. Fields that it lacks are
      left out of the page; without "details" the page has no buffers to show, and says so.

    Raises TypeError where `report` is neither.
    """
    if not isinstance(report, Mapping):
        if not callable(getattr(report, "to_json", None)):
            raise TypeError(
                "expected an lms.Report or the mapping of its JSON, "
                f"not {type(report).__name__}: use lms.report().to_html()"
            )
        report = json.loads(report.to_json())
    style = "\n" + page_frame.file("page.css")
    # Each script may declare what it likes; only the page's own scripts see it.
    files = "\n".join(map(page_frame.file, _SCRIPTS))
    script = f'\n"use strict";\n(() => {{\n{files}}})();\n'
    parts = {
        "script": script,
        "data": _embedded(report),
        "layers": _embedded(_layers(report.get("details"))),
    }
    body = page_frame.fill("page.html", parts)
    return page_frame.framed(str(report.get("function") or "a step"), style, body, script)
