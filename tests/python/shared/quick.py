"""Which tests of many alike run in ./run test, and which with --all alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def quick_ones(names: Iterable[str], *quick: str) -> list[Any]:
    """Parameters of a test, of which those that are not named run with ./run test --all alone."""
    names = list(names)
    assert set(quick) <= set(names), set(quick) - set(names)
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


def names_asked_for(request: pytest.FixtureRequest, names: Iterable[str]) -> list[str]:
    """Those that the tests to be run have as `name`, of the tests that use the module's fixture."""
    own = [item for item in request.session.items if item.module is request.module]
    own = [item for item in own if request.fixturename in item.fixturenames]
    given = [item.callspec.params if hasattr(item, "callspec") else {} for item in own]
    if not all("name" in params for params in given):
        return list(names)  # a test that names none may look at any
    wanted = {params["name"] for params in given}
    return [name for name in names if name in wanted]
