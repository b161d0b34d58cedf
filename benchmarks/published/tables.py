"""The tables in the order of the page. A table is a module with ROWS, PARTS and judge."""

from __future__ import annotations

from typing import Any

from published import depth, graphs, options, reach, search

TABLES: dict[str, Any] = {table.NAME: table for table in (search, depth, options, reach, graphs)}


def has(table: str, row: str, part: str) -> bool:
    """Tables whose rows do not all have every part say which have."""
    says = getattr(TABLES[table], "has", None)
    return says is None or says(row, part)
