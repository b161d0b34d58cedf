"""A pytest plugin for peers_tests.py: lms on in each process, outcomes and reports in files.

PEERS_BUDGET: memory_budget of lms, empty for stock. PEERS_OUT: what the files' names begin with.
"""

from __future__ import annotations

import collections
import json
import os
from pathlib import Path
from typing import Any

import pytest

_BUDGET = os.environ["PEERS_BUDGET"]
_OUT = os.environ["PEERS_OUT"]
_outcomes: dict[str, str] = {}
_judged: collections.Counter[str] = collections.Counter()


def _count() -> None:
    import lms

    for report in lms.reports():
        _judged[report.status] += 1
        if report.status == "failed":
            with Path(f"{_OUT}.failures.{os.getpid()}.txt").open("a") as text:
                text.write(f"{os.environ.get('PYTEST_CURRENT_TEST')}: {report.reason}\n")
    lms.clear_reports()


def pytest_configure(config: pytest.Config) -> None:
    if _BUDGET:
        import lms
        from lms import _native

        _native.set_least_activation_bytes(0)
        lms.enable(memory_budget=_BUDGET)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    if _BUDGET:
        _count()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    known = _outcomes.get(report.nodeid, "passed")
    if report.outcome != "passed" or report.nodeid not in _outcomes:
        _outcomes[report.nodeid] = report.outcome if report.outcome != "passed" else known


def pytest_sessionfinish(session: Any) -> None:
    if _judged:
        Path(f"{_OUT}.reports.{os.getpid()}.json").write_text(json.dumps(_judged))
    if not hasattr(session.config, "workerinput"):
        Path(f"{_OUT}.outcomes.json").write_text(json.dumps(_outcomes))
