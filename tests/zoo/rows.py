"""The rows measured so far: JSON lines in build/zoo, one file, of which a model's last row counts.

Processes may add rows at the same time. A row is finished for a model as long as nothing changed
that it depends on: lms as it is installed, TensorFlow, Keras, the sources of the model and of what
measures it. All of that is in its key. No TensorFlow.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import pathlib
import sys
from typing import Any

from zoo import catalogue

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACE = ROOT / "build" / "zoo"
FILE = PLACE / "rows.jsonl"
_MEASURING = ("zoo/child.py", "_measure.py")


def add(row: dict[str, Any]) -> None:
    PLACE.mkdir(parents=True, exist_ok=True)
    with FILE.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("\n" * _cut_off() + json.dumps(row) + "\n")


def _cut_off() -> bool:
    """Whether the last line has no end: its writer was killed."""
    with FILE.open("rb") as file:
        file.seek(max(0, FILE.stat().st_size - 1))
        return file.read(1) not in (b"", b"\n")


def latest() -> dict[str, dict[str, Any]]:
    """Each model's last row, of any key; a line that was cut off is left out."""
    found: dict[str, dict[str, Any]] = {}
    if FILE.exists():
        for line in FILE.read_text().splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[row["model"]] = row
    return found


def finished(name: str, row: dict[str, Any] | None) -> bool:
    """Whether `row` is what measuring `name` now would give; a crash is worth another try."""
    return row is not None and "error" not in row and row["key"] == key(name)


def key(name: str) -> str:
    digest = hashlib.sha256(_common() + catalogue.size_of(name).encode())
    for source in (*catalogue.sources_of(name), *_MEASURING):
        digest.update(_source(source).read_bytes())
    return digest.hexdigest()[:16]


@functools.lru_cache(maxsize=1)
def _common() -> bytes:
    digest = hashlib.sha256(sys.version.encode())
    for package in ("tensorflow", "tensorflow-cpu", "keras"):
        try:
            digest.update(f"{package} {importlib.metadata.version(package)}".encode())
        except importlib.metadata.PackageNotFoundError:
            continue
    spec = importlib.util.find_spec("lms")
    if spec is None or spec.origin is None:
        raise SystemExit("lms is not installed: ./run build")
    for file in sorted(pathlib.Path(spec.origin).parent.iterdir()):
        if file.suffix in (".py", ".so"):
            digest.update(file.read_bytes())
    return digest.digest()


def _source(path: str) -> pathlib.Path:
    found = [ROOT / top / path for top in ("tests", "benchmarks")]
    return next(file for file in found if file.exists())
