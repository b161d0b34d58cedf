"""The two zoos: models of keras.applications and our own, and programs of others. No TensorFlow."""

from __future__ import annotations

import dataclasses
import pathlib
from types import ModuleType
from typing import Any

from zoo import catalogue
from zoo.others import catalogue as others

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a zoo is made of.

    catalogue: its names, and how each is made. place: of its rows and logs. measuring: the sources
    that decide what a row says. flags: what the command line says to mean this zoo.
    """

    title: str
    catalogue: Any  # a module
    place: pathlib.Path
    document: pathlib.Path
    measuring: tuple[str, ...]
    flags: tuple[str, ...] = ()
    on_gpu: bool = False

    @property
    def rows(self) -> pathlib.Path:
        return self.place / "rows.jsonl"

    @property
    def logs(self) -> pathlib.Path:
        return self.place / "logs"

    def environment(self, name: str) -> dict[str, str]:
        """What has to be set before TensorFlow is loaded."""
        found: dict[str, str] = getattr(self.catalogue, "environment", lambda name: {})(name)
        return found

    def child(self) -> ModuleType:
        """What measures, set up to do so: loads TensorFlow."""
        if self.on_gpu:
            from zoo import gpu_child

            gpu_child.prepare()
            return gpu_child
        from _measure import one_thread_of_each_kind

        one_thread_of_each_kind()
        if self.catalogue is others:
            from zoo.others import child
        else:
            from zoo import child
        return child


OWN = Kind(
    "The zoo",
    catalogue,
    ROOT / "build" / "zoo",
    ROOT / "docs" / "zoo.md",
    ("zoo/child.py", "zoo/values.py", "_measure.py"),
)
OTHERS = Kind(
    "A zoo of others",
    others,
    ROOT / "build" / "zoo-others",
    ROOT / "docs" / "zoo-others.md",
    ("zoo/others/child.py", "zoo/values.py"),
    ("--others",),
)
GPU = Kind(
    "The zoo on a GPU",
    catalogue,
    ROOT / "build" / "zoo-gpu",
    ROOT / "docs" / "zoo-gpu.md",
    ("zoo/gpu_child.py", "zoo/child.py", "zoo/values.py", "_measure.py", "_gpu.py"),
    ("--gpu",),
    on_gpu=True,
)
