"""Reports side by side as one HTML page without scripts: it reads, prints and scales as it is."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lms._base.format import format_bytes
from lms._reports import page_frame

if TYPE_CHECKING:
    from lms._reports.compare import ComparedRow, Comparison
    from lms._reports.report import Report

_WIDTH, _HEIGHT = 480, 220  # of a picture, in its own units
_LEFT, _BOTTOM, _TOP = 74, 24, 10  # what its axes take
_POINTS = 400
_LAYERS = 40


def render(comparison: Comparison) -> str:
    """The whole page, in ASCII."""
    layers = comparison.layers()
    shown = layers[:_LAYERS]
    parts = {
        "figures": _table(comparison, "Figures", comparison.figures(), comparison.facts()),
        "pictures": _pictures(comparison),
        "layers": _table(comparison, "Memory by layer, at the peak", shown) if shown else "",
        "more": f"<p>and {len(layers) - len(shown)} layers more</p>" if layers[_LAYERS:] else "",
    }
    body = page_frame.fill("compare.html", parts)
    return page_frame.framed(" | ".join(comparison.names), _style(), body)


def _style() -> str:
    """The report page's colours, the dark ones where the reader's system is dark; and the rest."""
    both = re.findall(r"^:root[^{]*\{([^}]*)\}", page_frame.file("page.css"), re.MULTILINE)
    light, dark = both[:2]
    colours = f":root {{{light}}}\n@media screen and (prefers-color-scheme: dark) {{\n"
    return f"\n{colours}:root {{{dark}}}\n}}\n" + page_frame.file("compare.css")


def _table(
    comparison: Comparison,
    title: str,
    rows: Iterable[ComparedRow],
    words: Sequence[tuple[str, list[str]]] = (),
) -> str:
    columns = comparison.columns()
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in columns)
    lines = [(name, values, ' class="word"') for name, values in words]
    lines += [(row.name, comparison.cells(row), "") for row in rows]
    body = "\n".join(
        f'<tr><th scope="row">{html.escape(name)}</th>'
        + "".join(f"<td{kind}>{html.escape(cell)}</td>" for cell in cells)
        + "<td></td>" * (len(columns) - len(cells))
        + "</tr>"
        for name, cells, kind in lines
    )
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{title}">'
        f"<table><caption>{title}</caption>\n<thead><tr><td></td>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _pictures(comparison: Comparison) -> str:
    highest = max(
        (max((*r.timeline.get(side, ()), 0)) for r in comparison.reports for side in _SIDES),
        default=0,
    )
    if not highest:
        return ""
    figures = [
        f"<figure><figcaption>{html.escape(name)}</figcaption>{_picture(report, highest)}</figure>"
        for name, report in zip(comparison.names, comparison.reports)
    ]
    return (
        "<h2>Memory over the step</h2>\n" + '<div class="pictures">' + "".join(figures) + "</div>"
    )


_SIDES = {"before": "stock", "after": "with lms"}


def _picture(report: Report, highest: int) -> str:
    """Memory over the operations of a step, all pictures to one scale, as SVG."""

    def height(count: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - count / highest)

    said = [
        f"{word} peak {format_bytes(max(report.timeline[side]))}"
        for side, word in _SIDES.items()
        if report.timeline.get(side)
    ]
    parts = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = height(share * highest)
        parts.append(
            f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" class="left">'
            f"{format_bytes(round(share * highest))}</text>"
        )
    for side in _SIDES:
        line = report.timeline.get(side) or []
        if not line:
            continue
        steps = _thinned(line)
        width = (_WIDTH - _LEFT) / len(steps)
        path = f"M{_LEFT} {height(steps[0]):.1f}"
        for number, count in enumerate(steps):
            path += f"V{height(count):.1f}H{_LEFT + width * (number + 1):.1f}"
        parts.append(f'<path class="{side}" d="{path}"/>')
    if 0 < report.budget_bytes <= highest:
        parts.append(
            f'<path class="budget" d="M{_LEFT} {height(report.budget_bytes):.1f}H{_WIDTH}"/>'
        )
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 6}">first operation</text>')
    parts.append(f'<text x="{_WIDTH}" y="{_HEIGHT - 6}" class="left">last</text>')
    label = html.escape("; ".join(said) or "no memory is known")
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">'
        + "".join(parts)
        + f"</svg><p>{label}</p>"
    )


def _thinned(line: Sequence[int]) -> list[int]:
    """At most _POINTS values, each the highest of those that it stands for."""
    count = min(_POINTS, len(line))
    return [
        max(line[number * len(line) // count : (number + 1) * len(line) // count])
        for number in range(count)
    ]
