"""The registry of ops that random programs are made of, and what runs a list of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from values import Scope

MOST_DEPTH = 2


@dataclasses.dataclass(frozen=True)
class Op:
    """`weight`: how often it is drawn; `body`: whether it has ops of its own."""

    name: str
    build: Callable[[Scope], Any]
    weight: int
    body: bool
    kind: str


OPS: dict[str, Op] = {}


def op(kind: str, weight: int = 2, body: bool = False) -> Callable[[Any], Any]:
    """Registers a function under its name: it takes tensors of the scope and adds results."""

    def register(build: Callable[[Scope], Any]) -> Callable[[Scope], Any]:
        name = build.__name__.rstrip("_")
        assert name not in OPS
        OPS[name] = Op(name, build, weight, body, kind)
        return build

    return register


def run_ops(scope: Scope, ops: list[dict[str, Any]]) -> None:
    for item in ops:
        known = OPS.get(item.get("op", ""))
        if known is None:
            raise ValueError(f"unknown op {item.get('op')!r}")
        if known.body and scope.program.depth >= MOST_DEPTH:
            continue
        scope.at(item)
        if known.body:
            scope.program.depth += 1
        try:
            known.build(scope)
        finally:
            if known.body:
                scope.program.depth -= 1
