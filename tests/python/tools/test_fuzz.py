"""Random programs: every one that has ever been a finding, and a few new ones (tests/fuzz)."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import lms
import numpy as np
import pytest
from patience import HANGS
from places import ROOT

pytest.importorskip("hypothesis")

FUZZ = ROOT / "tests" / "fuzz"
CHAIN = "chain.json"
CASES = sorted((FUZZ / "cases").glob("*.json"))
FEW = CASES[::3]
HARD = ("bits", "error", "failed", "claim", "status")


def outcomes_of(*arguments: str) -> dict[str, list[dict]]:
    """In a process of its own, as one thread of each kind is needed. By the program's name."""
    place = str(Path(lms.__file__).resolve().parents[1])
    before = os.environ.get("PYTHONPATH")
    path = place + (os.pathsep + before if before else "")
    child = subprocess.run(
        [sys.executable, str(FUZZ / "worker.py"), *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert child.returncode in (0, 3), child.stderr[-3000:]
    lines = [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]
    return {line["name"]: line["outcomes"] for line in lines}


@pytest.fixture(scope="module")
def chain_outcomes(tmp_path_factory):
    """Of a chain of layers."""
    layers = [{"op": "dense", "in": [n, 0, 0], "p": [0, 1, 0, 0, 0]} for n in range(6)]
    program = {
        **{"rows": 1024, "columns": 64, "dtype": "float32", "open": False, "inputs": 1, "steps": 2},
        "ops": layers,
        "train": {"how": "plain", "optimizer": "sgd", "p": [0, 0, 0, 0]},
        **{"fetch": [], "batches": [1]},
        "options": [{"memory_budget": budget} for budget in ("min", "80%", 2.0)],
    }
    path = tmp_path_factory.mktemp("fuzz") / CHAIN
    path.write_text(json.dumps(program), encoding="utf-8")
    return outcomes_of("--file", str(path))[CHAIN]


@pytest.mark.parametrize(
    "cases",
    [FEW, pytest.param(sorted({*CASES} - {*FEW}), marks=pytest.mark.slow)],
    ids=["few", "rest"],
)
def test_what_was_found_once_is_right_now(cases):
    assert cases
    outcomes = outcomes_of("--file", *map(str, cases))
    assert sorted(outcomes) == sorted(case.name for case in cases)
    for name, found in outcomes.items():
        for outcome in found:
            assert outcome["finding"] not in HARD, (name, outcome)
            assert outcome["status"] not in ("invalid", "unseen"), (name, outcome)


def test_a_program_that_lms_has_to_rewrite_is_seen_as_such(chain_outcomes):
    """What random programs come to says something only where lms did something. How many of them it
    rewrites depends on what Hypothesis draws; of a chain of layers it is known."""
    assert [outcome["finding"] for outcome in chain_outcomes] == [""] * 3
    assert [outcome["status"] for outcome in chain_outcomes] == ["rewritten", "rewritten", "fits"]


def test_a_difference_counts_only_where_stock_repeats_itself(monkeypatch):
    """Here stock has other bits in one run of forty."""
    monkeypatch.syspath_prepend(str(FUZZ))
    import check

    usual, other = (check.Run({"x": np.full(1, value)}) for value in (1.0, 2.0))
    runs = itertools.cycle([usual] * 39 + [other])
    monkeypatch.setattr(check, "run", lambda *_: next(runs))
    for repeats, finding in ((check.FEW, "bits"), (check.REPEATS, "")):
        outcome = check.Outcome({})
        again = check._again(None, [], 1, repeats)
        check._judge_difference(["x"], usual, other, again, outcome, plans=1)
        assert (outcome.finding, outcome.unrepeatable) == (finding, not finding)


def test_what_follows_a_state_that_stock_does_not_repeat_counts_only_under_one_plan(monkeypatch):
    """Here the weights are one thing or the other, and with each plan there may be another one."""
    monkeypatch.syspath_prepend(str(FUZZ))
    import check

    def run(weights, first, loss):
        values = {"variable 0": weights, "step 0 output 0": first, "step 1 output 0": loss}
        return check.Run({name: np.full(1, value) for name, value in values.items()})

    stock, again = run(1.0, 1.0, 1.0), [run(2.0, 1.0, 1.0)]
    for ours, plans, finding in (
        (run(2.0, 1.0, 3.0), 2, ""),
        (run(2.0, 1.0, 3.0), 1, "bits"),
        (run(2.0, 3.0, 3.0), 2, "bits"),
    ):
        outcome = check.Outcome({})
        names = check.different(stock, ours)
        check._judge_difference(names, stock, ours, again, outcome, plans)
        assert outcome.finding == finding


@pytest.mark.slow
def test_random_programs_compute_what_stock_does():
    found = outcomes_of("--seed", "7", "--programs", "12")
    assert len(found) == 12
    for name, outcomes in found.items():
        for outcome in outcomes:
            assert outcome["finding"] not in HARD, (name, outcome)
