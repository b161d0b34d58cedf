"""Pages of results in Markdown. No TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from _machine import machine_line


def cells(values: Iterable[Any]) -> str:
    return "| " + " | ".join(str(value) for value in values) + " |"


def table(columns: Sequence[str], lines: Iterable[Sequence[Any]]) -> list[str]:
    return [cells(columns), "|---" * len(columns) + "|", *map(cells, lines)]


def machines(rows: Iterable[Mapping[str, Any]], parts: Sequence[str]) -> list[str]:
    """One line for each machine and set of versions that parts of rows were measured on."""
    facts = (
        row[part]["machine"] for row in rows for part in parts if "machine" in row.get(part, {})
    )
    return list(dict.fromkeys(machine_line(found) for found in facts))
