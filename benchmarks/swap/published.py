"""Published figures, printed beside the measured ones and never instead of them."""

from __future__ import annotations

import json
import pathlib
from typing import Any


def rows() -> list[dict[str, Any]]:
    return json.loads(pathlib.Path(__file__).with_name("published.json").read_text())["rows"]


def of(model: str) -> str:
    """In a few words; "" where nothing is published."""
    return "; ".join(f"{row['multiple']:g}x {row['of']}" for row in rows() if row["model"] == model)


def lines(models: list[str]) -> list[str]:
    """One per figure, with its source."""
    return [
        f"  {row['model']}: {row['multiple']:g}x {row['of']}"
        f"{f' ({note})' if (note := row['note']) else ''}: {row['source']}"
        for row in rows()
        if row["model"] in models
    ]
