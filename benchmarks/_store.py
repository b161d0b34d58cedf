"""The rows measured so far, as a file: a run that was interrupted goes on where it ended."""

from __future__ import annotations

import fcntl
import json
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any


class Store:
    """Rows by (table, row). Several processes may add to one file."""

    def __init__(self, path: pathlib.Path, before: pathlib.Path | None = None) -> None:
        """`before`: the file of an earlier day whose rows are still good."""
        self.path = path
        self.before = before
        path.parent.mkdir(parents=True, exist_ok=True)

    def rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        for path in (self.path, self.before):
            if path is not None and path.exists() and path.stat().st_size:
                kept = json.loads(path.read_text())["rows"]
                return {(row["table"], row["row"]): row for row in kept}
        return {}

    def add(self, facts: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        lock_path = pathlib.Path(tempfile.gettempdir(), f"lms_{self.path.stem}.lock")
        with lock_path.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            rows = self.rows()
            rows[row["table"], row["row"]] = dict(row)
            text = json.dumps({"machine": facts, "rows": list(rows.values())}, indent=1)
            part = self.path.with_suffix(".part")
            part.write_text(text + "\n")
            part.replace(self.path)


def newest(folder: pathlib.Path, name: str) -> pathlib.Path | None:
    """The last of the dated files of this name."""
    found = sorted(folder.glob(f"????-??-??_{name}.json"))
    return found[-1] if found else None
