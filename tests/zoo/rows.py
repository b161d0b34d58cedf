"""The rows measured so far: JSON lines, one file for each zoo, of which a model's last row counts.

Processes may add rows at the same time. A row is finished for a model as long as nothing changed
that it depends on: lms as it is installed, TensorFlow, Keras, the sources of the model and of what
measures it. All of that is in its key. No TensorFlow.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import pathlib
import sys
from typing import Any

from zoo.kinds import ROOT, Kind


def add(kind: Kind, row: dict[str, Any]) -> None:
    kind.place.mkdir(parents=True, exist_ok=True)
    with kind.rows.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("\n" * _cut_off(kind.rows) + json.dumps(row) + "\n")


def _cut_off(path: pathlib.Path) -> bool:
    """Whether the last line has no end: its writer was killed."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 1))
        return file.read(1) not in (b"", b"\n")


def latest(kind: Kind) -> dict[str, dict[str, Any]]:
    """Each model's last row, of any key; a line that was cut off is left out."""
    found: dict[str, dict[str, Any]] = {}
    if kind.rows.exists():
        for line in kind.rows.read_text().splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[row["model"]] = row
    return found


def finished(kind: Kind, name: str, row: dict[str, Any] | None) -> bool:
    """Whether `row` is what measuring `name` now would give; a crash is worth another try."""
    return row is not None and "error" not in row and row["key"] == key(kind, name)


def key(kind: Kind, name: str) -> str:
    digest = hashlib.sha256(_common() + kind.catalogue.size_of(name).encode())
    for source in (*kind.catalogue.sources_of(name), *kind.measuring):
        digest.update(_source(source).read_bytes())
    return digest.hexdigest()[:16]


def versions(kind: Kind) -> dict[str, str]:
    """Of what takes part, by name; packages that are not there are left out."""
    found = {}
    for package in (
        "tensorflow",
        "tensorflow-cpu",
        *getattr(kind.catalogue, "PACKAGES", ("keras",)),
    ):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return {**found, "lms": (ROOT / "CMakeLists.txt").read_text().split("VERSION ")[2].split()[0]}


@functools.lru_cache(maxsize=1)
def _common() -> bytes:
    digest = hashlib.sha256(sys.version.encode())
    for package in ("tensorflow", "tensorflow-cpu", "keras"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            digest.update(f"{package} {importlib.metadata.version(package)}".encode())
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
