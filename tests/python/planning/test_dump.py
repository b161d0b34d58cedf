"""Real steps as text: the option dump_graphs, and lms-core on what it wrote."""

from __future__ import annotations

import json

import lms
from core_program import run_core
from helpers import make_step, reports_on


def figures(*words: object) -> dict:
    return json.loads(run_core(*words, "--json").stdout)


def test_a_step_and_its_plan_are_what_the_report_says(tmp_path):
    directory = tmp_path / "new" / "graphs"
    lms.enable("60%", dump_graphs=directory)
    step, _ = make_step()
    step()
    report = reports_on(step)[0]
    assert report.status == "rewritten", report.reason
    (graph,) = directory.glob(f"*-{report.sequence}.lmsgraph")
    plan = graph.with_suffix(".lmsplan")
    assert step.python_function.__name__ in graph.name

    stock = figures("simulate", graph, "--timeline")
    # One op after the other there, as the executor runs them here.
    assert len(stock["timeline"]) == len(report.timeline["before"])
    assert max(report.timeline["before"]) == report.peak_before_bytes
    shown = figures("show", graph)
    assert shown["step_us"] == report.step_time_us
    assert shown["resident_bytes"] == report.resident_bytes
    assert shown["kept"] == [
        {"reason": entry["reason"], "buffers": entry["tensors"], "bytes": entry["bytes"]}
        for entry in report.kept
    ]
    planned = figures("simulate", graph, plan)
    assert planned["recomputations"] + planned["moves"] == len(report.decisions)
    # Less what the step saves as some element-wise ops run as one, which is no part of the plan.
    assert 0 <= planned["added_share"] - report.predicted_time_overhead < 0.01
    assert planned["peak_bytes"] <= report.budget_bytes
    again = figures("plan", graph, "--budget", str(report.budget_bytes))
    assert again["feasible"]


def test_a_step_that_fits_is_written_without_a_plan(tmp_path, monkeypatch):
    monkeypatch.setenv("LMS_DUMP_GRAPHS", str(tmp_path))
    lms.enable("1GiB")
    step, _ = make_step()
    step()
    report = reports_on(step)[0]
    assert report.status == "fits"
    (graph,) = tmp_path.glob(f"*-{report.sequence}.lmsgraph")
    assert figures("show", graph)["step_us"] > 0
    assert not list(tmp_path.glob("*.lmsplan"))


def test_a_dump_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    lms.enable("60%", dump_graphs=tmp_path / "file")
    step, _ = make_step()
    step()
    report = reports_on(step)[0]
    assert report.status == "rewritten"
    assert len([w for w in report.warnings if w.startswith("dump_graphs: ")]) == 2


def test_nothing_is_written_unless_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lms.enable("60%")
    step, _ = make_step()
    step()
    assert reports_on(step)[0].status == "rewritten"
    assert not list(tmp_path.iterdir())
