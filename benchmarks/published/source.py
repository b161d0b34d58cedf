"""The published figures, as data: each file names where they are from and what they mean."""

from __future__ import annotations

import json
import pathlib
from typing import Any

FIGURES = pathlib.Path(__file__).with_name("figures")


def read(name: str) -> dict[str, Any]:
    return json.loads((FIGURES / f"{name}.json").read_text())
