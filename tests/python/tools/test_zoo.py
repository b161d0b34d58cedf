"""The zoo's harness, and a few of its models: the whole of it is `./run zoo`."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

TESTS = ROOT / "tests"
sys.path.insert(0, str(TESTS))

from zoo import catalogue, kinds, plans, pool, rows, verdict  # noqa: E402
from zoo.others import catalogue as others  # noqa: E402

PATHS = os.pathsep.join([str(TESTS), str(TESTS.parent / "benchmarks"), *sys.path])


@pytest.mark.slow
def test_small_models_have_the_bits_of_stock_and_keep_their_budgets(tmp_path):
    """In one process, with one thread of each kind."""
    out = tmp_path / "rows"
    environment = {**os.environ, "PYTHONPATH": PATHS, "TF_NUM_INTEROP_THREADS": "1"}
    code = f"""
import json
from zoo import catalogue, kinds
child = kinds.OWN.child()
with open({str(out)!r}, "w") as file:
    for name in catalogue.QUICK:
        file.write(json.dumps(child.measure(name)) + chr(10))
"""
    child = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert child.returncode == 0, child.stderr.decode()[-4000:]
    found = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["model"] for row in found] == list(catalogue.QUICK)
    assert [line for row in found for line in verdict.faults(row)] == []
    for row in found:
        assert row["compared"] > 10 and row["unchanged"] <= 2
        statuses = {budget: verdict.final(at)["status"] for budget, at in row["budgets"].items()}
        assert statuses["min"] == "rewritten", row["model"]


@pytest.mark.slow
def test_a_program_of_others_is_run_as_a_whole_at_each_budget(tmp_path):
    """One that needs no library beside TensorFlow: bits, and a peak for each of its steps."""
    out = tmp_path / "row"
    environment = {**os.environ, "PYTHONPATH": PATHS, "TF_NUM_INTEROP_THREADS": "1"}
    name = others.QUICK[0]
    command = [sys.executable, "-m", "zoo", "--others", "--child", name, "--out", str(out)]
    child = subprocess.run(command, env=environment, capture_output=True)
    assert child.returncode == 0, child.stderr.decode()[-4000:]
    row = json.loads(out.read_text())
    assert row["compared"] > 20 and row["predicted_stock"] > 5e6
    assert list(row["budgets"]) == ["60%", "min", "75% in bytes"]
    for found in row["budgets"].values():
        part = verdict.final(found)
        assert found["differing"] == 0
        assert len(part["peaks"]) == len(row["stock_peaks"]) >= 8
        assert part["judged"] in part["peaks"][1:]
        assert part["status"] in ("rewritten", "infeasible")


def test_programs_of_others_are_functions_of_the_files_that_are_named():
    """Read, not loaded: their libraries need not be there."""
    folder = Path(kinds.__file__).parent / "others"
    for file, names in others.WRITTEN.items():
        parts = ast.parse((folder / f"{file}.py").read_text()).body
        functions = [p.name for p in parts if isinstance(p, ast.FunctionDef)]
        assert sorted(names) == sorted(name for name in functions if name[0] != "_")


# ---- What the verdict makes of rows ----


def at(measured: int, differing: int = 0, alone: int = 0, status: str = "rewritten") -> dict:
    part = {
        "status": status,
        "reason": "none",
        "warnings": [],
        "budget_bytes": 150,
        "resident_bytes": 50,
    }
    part.update(peaks=[200, measured, measured], peak_after_bytes=140)
    found = {"rounds": [part], "differing": differing, "differ": ["kernel"] * differing}
    return {**found, "stock_differs_in": differing - alone, "differing_alone": alone}


def row(**parts) -> dict:
    return {"model": "m", "compared": 9, "budgets": {"min": at(**parts)}}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"measured": 100}, ""),
        ({"measured": 101}, "measured 1.010 of the budget"),
        ({"measured": 101, "status": "infeasible"}, ""),
        ({"measured": 100, "differing": 2, "alone": 1}, "2 of 9 values differ"),
        ({"measured": 100, "differing": 2}, ""),
        ({"measured": 100, "status": "failed"}, "failed: none"),
    ],
)
def test_what_must_not_be_is_found(parts, words):
    found = verdict.faults(row(**parts))
    assert len(found) == bool(words) and words in "".join(found)


def test_a_crash_is_a_fault():
    assert verdict.faults({"model": "m", "error": "status -11"}) == ["m: status -11"]


def test_shares_are_of_what_was_claimed():
    found = [row(measured=100), row(measured=101), row(measured=400, status="infeasible")]
    found += [row(measured=90, differing=1), {"model": "m", "error": "status 1"}]
    lines = verdict.summary(found)
    assert lines[0] == "5 models, 4 rows (1 infeasible, 3 rewritten), 1 crashed"
    assert lines[1].startswith("bits: 3 of 4 (75.0%)")
    assert lines[2].startswith("budgets: 2 of 3 (66.7%)")


def test_predictions_count_where_nothing_is_guessed():
    """55 / 50 is 1.1, 100 / 100 is 1; what has a warning counts apart."""
    known = row(measured=100)
    known["budgets"]["min"]["rounds"][0].update(peak_after_bytes=150)  # less 50 that are resident
    known.update(predicted_stock=55, instance_peaks=[45, 50], stock_warnings=[])
    guessed = {**known, "stock_warnings": ["3 tensors: each was taken to be 32"]}
    lines = verdict.summary([known])
    assert (
        lines[3].startswith("predicted / measured peak")
        and "1 of 2 (50.0%) between 0.98" in lines[3]
    )
    assert "2 of 2 (100.0%) between 0.95 and 1.15" in lines[3]
    lines = verdict.summary([known, guessed])
    assert lines[6].startswith("unknown sizes: 1 of 4 (25.0%)")


def test_predictions_of_several_orders():
    """Of four instances three took 40, as most orders are said to, and one took 50."""
    found = row(measured=100)
    found["budgets"]["min"]["rounds"][0].update(peak_after_bytes=150)
    found["budgets"]["min"]["rounds"][0]["order_peaks"] = {"before": [], "after": [150, 150, 200]}
    found.update(predicted_stock=60, stock_orders=[40, 40, 40, 50, 60], stock_warnings=[])
    found["instance_peaks"] = [40, 50, 40, 40]
    highest, nearest, usual = verdict.summary([found])[3:6]
    assert "0 of 2 (0.0%) between 0.95 and 1.15" in highest  # 60 / 50 and 150 / 100
    assert "2 of 2 (100.0%) between 0.98 and 1.08" in nearest
    assert "2 of 2 (100.0%) between 0.98 and 1.08" in usual
    found["instance_peaks"][1] = 45  # an order that is not foretold
    assert "1 of 2 (50.0%) between 0.95 and 1.08" in verdict.summary([found])[4]


def test_a_row_may_allow_more():
    found = row(measured=102)
    assert verdict.faults(found)
    found["budgets"]["min"]["limit"] = 1.02
    assert verdict.faults(found) == []


# ---- Rows and processes ----


def test_a_row_counts_until_the_model_or_lms_changes(tmp_path, monkeypatch):
    zoo = dataclasses.replace(kinds.OWN, place=tmp_path)
    name = catalogue.QUICK[0]
    assert not rows.finished(zoo, name, None)
    rows.add(zoo, {"model": name, "key": rows.key(zoo, name)})
    with zoo.rows.open("a") as file:
        file.write('{"model": "cut o')
    assert rows.finished(zoo, name, rows.latest(zoo)[name])
    monkeypatch.setattr(rows, "_common", lambda: b"another build")
    assert not rows.finished(zoo, name, rows.latest(zoo)[name])
    rows.add(zoo, {"model": "other"})
    assert set(rows.latest(zoo)) == {name, "other"}  # not what was cut off


@pytest.mark.parametrize("kind", [kinds.OWN, kinds.OTHERS])
def test_every_model_has_its_sources(kind):
    for name in kind.catalogue.NAMES:
        assert len(rows.key(kind, name)) == 16


def test_a_child_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    zoo = dataclasses.replace(kinds.OWN, place=tmp_path)
    monkeypatch.setenv("PYTHONPATH", PATHS)
    bounds = pool.Bounds(jobs=1, seconds=0.0, bytes=2**40)
    events = list(pool.run(zoo, [catalogue.QUICK[0]], bounds, {}))
    assert events[0] == (catalogue.QUICK[0], None)
    assert events[1][1]["error"] == "took more than 0 s"


def test_no_number_is_near_to_instances_that_are_far_apart():
    """50 / 45 is more than 1.08 / 0.98, and less than 1.15 / 0.95."""
    known, other = row(measured=100), row(measured=100)
    known.update(instance_peaks=[45, 50])
    other.update(instance_peaks=[45, 46, 46])
    line = verdict.summary([known, other, row(measured=100)])[-1]
    assert line.endswith("in 1 of 2 (50.0%) models 0.98 to 1.08, 0 of 2 (0.0%) models 0.95 to 1.15")


def test_plans_are_judged():
    """Under the same budget by the time that they add, else by their peaks."""
    plan = {"status": 0, "budget_bytes": 50, "peak_after_bytes": 50, "added_us": 99, "seconds": 1}
    before = {"a": {"40%": plan, "min": plan, "20%": plan, "10%": plan}, "b": {"min": plan}}
    changes = {
        "40%": {"added_us": 199, "peak_after_bytes": 40},
        "min": {"budget_bytes": 40, "peak_after_bytes": 40, "added_us": 500},
        "20%": {"seconds": 3},
        "10%": {"status": 1},
    }
    now = {"a": {key: {**plan, **change} for key, change in changes.items()}}
    now["b"] = {"min": {**plan, "status": 1, "peak_after_bytes": None}}  # it was not read
    now["c"] = {"min": plan}
    found = plans.judge(before, now)
    kinds = ("plans", "found", "lost", "lower", "higher", "same", "less", "more")
    assert [found[kind] for kind in kinds] == [6, 1, 2, 1, 0, 1, 0, 1]
    assert (found["before_us"], found["now_us"]) == (198, 298)
    assert found["mean"] == pytest.approx(2**0.5)
    assert (found["before_s"], found["now_s"]) == (4, 6)
