"""Makes a program smaller as long as something holds of it."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

Spec = dict[str, Any]

# What each part of a program is put to first, as the plainest.
PLAIN = {
    "dtype": "float32",
    "open": False,
    "inputs": 1,
    "batches": [1],
    "fetch": [],
    "columns": 32,
    "steps": 2,
}


def reduce(spec: Spec, holds: Callable[[Spec], bool], seconds: float) -> Spec:
    """The smallest found in that time; `spec` itself, where nothing smaller does it.

    Parts are left out, large ones first, then numbers made 0; again and again until no change
    is possible. `holds` is asked of each candidate, which it may not change.
    """
    end = time.monotonic() + seconds
    best, changed = spec, True
    while changed:
        changed = False
        for candidate in _rounds(best):
            if time.monotonic() > end:
                return best
            spec_ = candidate(best)
            if spec_ is not None and spec_ != best and holds(copy.deepcopy(spec_)):
                best, changed = spec_, True
    return best


def _rounds(spec: Spec) -> Iterator[Callable[[Spec], Spec | None]]:
    """Changes to try, each on the smallest program so far."""
    for index in range(len(spec["options"])):
        yield lambda s, i=index: _without(s, ("options",), len(s["options"]) - 1 - i, 1, 1)
    size = max(1, len(spec["ops"]) // 2)
    while size:
        for start in range(len(spec["ops"]) - 1, -1, -size):
            yield lambda s, i=start, n=size: _without(s, ("ops",), i - n + 1, n, 0)
        size //= 2
    for path in _bodies(spec):
        yield lambda s, p=path: _inlined(s, p)
        for index in range(len(_at(spec, path)["body"])):
            yield lambda s, p=path, i=index: _without(s, (*p, "body"), i, 1, 0)
    for name, value in PLAIN.items():
        yield lambda s, n=name, v=value: {**s, n: v}
    for how in ("none", "plain"):
        yield lambda s, h=how: _set(s, ("train", "how"), h)
    for how in ("fetch", "sgd"):
        yield lambda s, h=how: _set(s, ("train", "optimizer"), h)
    for index, options in enumerate(spec["options"]):
        for name in options:
            if name != "memory_budget":
                yield lambda s, i=index, n=name: _dropped(s, ("options", i), n)
        yield lambda s, i=index: _set(s, ("options", i, "memory_budget"), "min")
    for path, count in list(_numbers(spec)):
        for index in range(count):
            yield lambda s, p=path, i=index: _set(s, (*p, i), 0)


def _at(spec: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        spec = spec[key]
    return spec


def _edited(spec: Spec, path: tuple[Any, ...], edit: Callable[[Any], None]) -> Spec | None:
    """A copy with what is at `path` changed; None where that is not there any more."""
    made = copy.deepcopy(spec)
    try:
        edit(_at(made, path))
    except (KeyError, IndexError, TypeError):
        return None
    return made


def _without(spec: Spec, path: tuple[Any, ...], start: int, count: int, least: int) -> Spec | None:
    def edit(items: list[Any]) -> None:
        begin = max(0, start)
        if len(items) - count < least or not items[begin : begin + count]:
            raise IndexError
        del items[begin : begin + count]

    return _edited(spec, path, edit)


def _inlined(spec: Spec, path: tuple[Any, ...]) -> Spec | None:
    """With the body of an op in the op's place."""

    def edit(items: list[Any]) -> None:
        items[path[-1] : path[-1] + 1] = items[path[-1]]["body"]

    return _edited(spec, path[:-1], edit)


def _set(spec: Spec, path: tuple[Any, ...], value: Any) -> Spec | None:
    def edit(holder: Any) -> None:
        holder[path[-1]]  # must be there
        holder[path[-1]] = value

    return _edited(spec, path[:-1], edit)


def _dropped(spec: Spec, path: tuple[Any, ...], name: str) -> Spec | None:
    def edit(holder: Any) -> None:
        del holder[name]

    return _edited(spec, path, edit)


def _ops(items: list[Any], path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for index, item in enumerate(items):
        yield (*path, index)
        yield from _ops(item.get("body", []), (*path, index, "body"))


def _bodies(spec: Spec) -> list[tuple[Any, ...]]:
    return [path for path in _ops(spec["ops"], ("ops",)) if "body" in _at(spec, path)]


def _numbers(spec: Spec) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Lists of numbers, with their lengths."""
    for path in _ops(spec["ops"], ("ops",)):
        for name in ("in", "p"):
            yield (*path, name), len(_at(spec, path).get(name, []))
    yield ("train", "p"), len(spec["train"].get("p", []))
