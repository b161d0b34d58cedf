"""The tables in the order of the page. A table is a module with ROWS, PARTS and judge."""

from __future__ import annotations

from typing import Any

from published import search

TABLES: dict[str, Any] = {search.NAME: search}
