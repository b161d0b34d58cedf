"""docs/published.md, made from the kept rows alone. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from _pages import machines, table

from published import page_tables
from published.verdict import AHEAD, WORDS, Rows, counted

INTRO = """# Beside what others have published

Systems before lms have published what they reach. This page has their figures, and those of lms on
the same ground. `./run bench published` measures what is missing and writes this page. Its figures
are in `benchmarks/results` (the newest `published.json`), each with its command, date and machine.

**How it is measured.** Stock TensorFlow and lms take turns in one process, with one thread of each
kind. Both steps of a pair begin from the same weights. The peak is that of TensorFlow's allocator,
above what it held before the step. Added time is CPU time, as the machine is not quiet: the median
of the pairs' ratios, with their range. Bits are equal where the loss and all variables of each pair
are.

**How it is judged.** A row is *ahead* where lms reaches the published figure for half of its added
time or less; *level* for its added time or less; else *behind*. Other tables say what they go by. A
row is *open* where nothing is there to judge it by.
"""


def verdicts(rows: Rows, judges: Mapping[str, Any]) -> dict[str, dict[str, tuple[str, str]]]:
    """By table and row; rows that are not there yet are not measured."""
    return {
        name: {
            row: judge.judge(rows.get((name, row), {"table": name, "row": row}), rows)
            for row in judge.ROWS
        }
        for name, judge in judges.items()
    }


def counts(found: Mapping[str, Mapping[str, tuple[str, str]]]) -> list[str]:
    lines = []
    every: list[str] = []
    for name, judged in found.items():
        words = [word for word, _ in judged.values()]
        every += words
        lines.append([page_tables.TITLES[name], len(words), *numbers(words)])
    lines.append(["**all**", len(every), *numbers(every)])
    return table(["table", "rows", *WORDS], lines)


def numbers(words: list[str]) -> list[int]:
    found = counted(words)
    return [found.get(word, 0) for word in WORDS]


def reasons(judged: Mapping[str, tuple[str, str]]) -> list[str]:
    lines = [
        f"- {row}, {word}: {why or 'not run yet'}."
        for row, (word, why) in judged.items()
        if word != AHEAD
    ]
    return ["Rows that are not ahead:", "", *lines, ""] if lines else ["All rows are ahead.", ""]


def text(rows: Rows, judges: Mapping[str, Any], picture: str = "") -> str:
    """`judges`: the tables' modules. `picture`: its path, from the page."""
    found = verdicts(rows, judges)
    lines = [INTRO, *counts(found), "", "Measured on:", ""]
    lines += [f"- {line}" for line in machines(rows.values(), ("measured", "planned"))]
    if picture:
        lines += ["", f"![Memory cut and added time]({picture})"]
    for name, judge in judges.items():
        lines += ["", f"## {page_tables.TITLES[name]}", ""]
        lines += [f"`./run bench published --only {name}`.", ""]
        lines += page_tables.SECTIONS[name](judge, rows, found[name], table)
        lines += ["", *reasons(found[name])]
    return "\n".join(lines).rstrip() + "\n"
