"""Something to do once a module has been imported, now or later."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from lms._base.failure import shielded

_waiting: dict[str, list[Callable[[], None]]] = {}


class _Finder:
    """Finds nothing itself: it has the loader that others find tell when it is done."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        actions = _waiting.pop(name, None)  # the search below does not come here again
        if actions is None:
            return None
        if not _waiting:
            sys.meta_path.remove(_Finder)
        spec = importlib.util.find_spec(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            _tell_when_done(spec.loader, actions)
        return spec


def _tell_when_done(loader: Any, actions: list[Callable[[], None]]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        for action in actions:
            with shielded("import"):
                action()

    loader.exec_module = exec_module  # of this loader alone: each module has its own


def when_imported(name: str, action: Callable[[], None]) -> None:
    """Calls `action` when the module has been imported; at once where it has been."""
    if name in sys.modules:
        action()
        return
    if not _waiting:
        sys.meta_path.insert(0, _Finder)
    _waiting.setdefault(name, []).append(action)
