"""Reports: their fields, which one report() chooses, and how they are shown."""

import dataclasses
import json
import sys

import lms
import pytest
from helpers import make_step, reports_on
from lms import _native
from lms._base.format import format_bytes
from lms._reports import report as _report

MIB = 2**20
RAW = {
    "function": "__inference_step_12",
    "sequence": 3,
    "status": "rewritten",
    "reason": "over the budget",
    "assumption": "",
    "stage": "",
    "other_devices": [],
    "device": "/device:CPU:0",
    "budget": "60%",
    "budget_bytes": 700 * MIB,
    "resident_bytes": 100 * MIB,
    "peak_before_bytes": 1100 * MIB,
    "peak_after_bytes": 690 * MIB,
    "lost_before_bytes": 0,
    "lost_after_bytes": 20 * MIB,
    "measured_peak_bytes": 0,
    "measured_steps": 0,
    "sizes": [],
    "min_budget_bytes": 0,
    "predicted_time_overhead": 0.07,
    "time_overhead_bound": 0.06,
    "step_time_us": 1e5,
    "profile": "",
    "profiled_share": 0.0,
    "swap_tier": "",
    "swap_directory": "",
    "swap_note": "",
    "link": "",
    "swapped_bytes": 0,
    "swap_hidden": 0.0,
    "swap_stall": 0.0,
    "planner_seconds": 0.125,
    "planner_work": 4000000,
    "stage_seconds": {"plan": 0.125, "verify": 0.0625},
    "optimizer_seconds": 0.25,
    "nodes_before": 4400,
    "nodes_after": 4456,
    "warnings": ["dimension 0 was assumed to be 16"],
    "decisions": [
        {
            "kind": "recompute",
            "op": f"relu_{index}",
            "op_type": f"Relu{index % 14}",
            "tensor_bytes": MIB,
            "cost_us": 1000.0,
            "priced_by": "estimate",
            "position": index,
            "before": "grad",
            "trigger": "conv",
            "transfer_us": 0.0,
            "stall_us": 0.0,
        }
        for index in range(28)
    ],
    "timeline": {"before": [0, 2 * MIB, MIB], "after": [0, MIB, MIB, MIB]},
    "order_peaks": {"before": [1090 * MIB, 1100 * MIB], "after": [690 * MIB]},
    "kept": [{"reason": "read by a collective", "tensors": 2, "bytes": 3 * MIB}],
    "hints": [
        {
            "kind": "keep",
            "where": "step.py:7",
            "tensors": 1,
            "bytes": 64,
            "cost_us": 1.0,
            "peak_bytes": 9,
            "peak_without_bytes": 8,
            "not_followed": 0,
        }
    ],
    "details": None,
}


def make(**changes):
    return _report.from_native({**RAW, **changes})


def test_a_real_report_has_every_field():
    lms.enable("min")
    step, _ = make_step()
    step()
    raw = next(r for r in _native.reports() if step.python_function.__name__ in r["function"])
    fields = {field.name for field in dataclasses.fields(lms.Report)}
    assert set(raw) - {"details"} == fields - {"_details"}
    report = reports_on(step)[0]
    assert report.status == "rewritten", report.reason
    assert report.peak_after_bytes < report.peak_before_bytes
    # Eight weights of 64 x 64 floats are resident: 8 x 16 KiB.
    assert report.resident_bytes >= 8 * 16 * 1024
    assert max(report.timeline["before"]) == report.peak_before_bytes
    assert max(report.timeline["after"]) == report.peak_after_bytes
    for orders, highest in (
        (report.order_peaks["before"], report.peak_before_bytes),
        (report.order_peaks["after"], report.peak_after_bytes),
    ):
        assert len(orders) > 1 and orders == sorted(orders) and orders[-1] == highest
    assert report.nodes_after > report.nodes_before
    assert len(report.decisions) > 0
    assert set(report.decisions[0]) == set(RAW["decisions"][0])
    assert report.predicted_time_overhead > 0
    assert 0 <= report.time_overhead_bound <= report.predicted_time_overhead
    assert json.loads(report.to_json())["function"] == report.function
    assert "rewritten" in report.table() and "rewritten" in str(report)


def test_what_reference_variables_cost_is_said():
    kept = {"reason": "reads a reference variable", "tensors": 191, "bytes": 500 * MIB}
    assert "enable_resource_variables() before the graph" in lms.explain(make(kept=[kept]))
    little = {**kept, "bytes": MIB}
    assert "enable_resource_variables" not in lms.explain(make(kept=[little]))


def test_what_chunks_and_holes_take_is_said():
    rows = [line.split("  ") for line in make().table().splitlines() if "predicted peak" in line]
    assert [any("of it in chunks and holes" in part for part in row) for row in rows] == [
        False,
        True,
    ]
    assert "690 MiB, 20 MiB of it in chunks and holes" in make().table()


def test_what_is_usual_is_what_half_of_the_orders_do_not_exceed():
    report = make(order_peaks={"before": [700 * MIB, 800 * MIB, 1100 * MIB], "after": []})
    assert report.usual_peak_before_bytes == 800 * MIB
    assert report.usual_peak_after_bytes == report.peak_after_bytes  # none was looked at
    assert make(order_peaks={"before": [5, 6, 7, 8]}).usual_peak_before_bytes == 6
    assert "690 MiB instead of 1.074 GiB (usually 800 MiB), budget" in str(report)
    assert "1.074 GiB (usually 800 MiB)" in report.table()
    explained = lms.explain(report)
    assert "instead of 1.074 GiB (usually 800 MiB), and the budget" in explained
    assert "half of them take no more than what is usual" in explained
    # Of a few percent nobody speaks.
    assert "usually" not in str(make()) + make().table() + lms.explain(make())


def test_report_chooses_what_needed_lms_then_what_is_largest(monkeypatch):
    peaks = [("infeasible", 9), ("rewritten", 8), ("fits", 5), ("fits", 3), ("skipped", 7)]
    raw = [
        {**RAW, "status": status, "peak_before_bytes": peak, "sequence": i}
        for i, (status, peak) in enumerate(peaks)
    ]
    monkeypatch.setattr(_native, "reports", lambda: raw)
    assert lms.report().sequence == 1
    assert [report.sequence for report in lms.reports()] == [0, 1, 2, 3, 4]
    monkeypatch.setattr(_native, "reports", lambda: raw[2:])
    assert lms.report().sequence == 2
    monkeypatch.setattr(_native, "reports", lambda: raw[4:])
    assert lms.report().status == "skipped"
    monkeypatch.setattr(_native, "reports", lambda: [])
    assert lms.report() is None


def test_what_trains_goes_before_what_does_not(monkeypatch):
    phases = {"phases": ["forward", "backward"]}
    of_step = {
        0: {**phases, "before": {"phase": [0, 1, 1]}},
        1: {**phases, "before": {"phase": [0, 0]}},
    }
    raw = [
        {**RAW, "function": name, "status": status, "sequence": 10**9 + i}
        for i, (name, status) in enumerate([("train", "rewritten"), ("validate", "infeasible")])
    ]
    monkeypatch.setattr(
        lms.Report, "details", property(lambda self: of_step[self.sequence - 10**9])
    )
    monkeypatch.setattr(_native, "reports", lambda: raw)
    assert lms.report().function == "train"
    monkeypatch.setattr(_native, "reports", lambda: raw[1:])
    assert lms.report().function == "validate"


def test_reports_are_cleared():
    lms.enable("min")
    make_step(layers=1)[0]()
    assert lms.reports() != []
    lms.clear_reports()
    assert lms.reports() == []


def test_str_of_a_rewritten_step():
    text = str(make())
    assert "Predicted peak 690 MiB instead of 1.074 GiB, budget 700 MiB (asked: 60%)" in text
    assert "28 operations are computed again and 0 moved, for +7.0% of the step's time" in text
    assert "Warning: dimension 0 was assumed to be 16." in text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"status": "fits"}, "the graph is unchanged"),
        (
            {"status": "infeasible", "min_budget_bytes": 512 * MIB},
            "The least feasible budget is 512 MiB.",
        ),
        ({"status": "skipped", "reason": "no gradients"}, "No gradients."),
        (
            {"status": "failed", "reason": "injected", "stage": "planner"},
            "Injected. (Stage: planner; the graph is unchanged.)",
        ),
    ],
)
def test_str_of_other_statuses(changes, expected):
    text = str(make(**changes))
    assert changes["status"] in text and expected in text
    assert "computed again" not in text


def test_what_priced_the_plan_is_said():
    assert "+7.0% of the step's time (no plan adds less than 6.0%), estimated;" in str(make())
    measured = make(profile="/p", profiled_share=0.981)
    assert ", 98% of it measured;" in str(measured)
    assert "98% measured times (/p)" in measured.table()


def swaps():
    """A plan that swaps two tensors of 3 MiB out, and one of them in twice."""
    plain = {**RAW["decisions"][0], "tensor_bytes": 3 * MIB, "priced_by": ""}
    kinds = ["swap_out", "swap_out", "swap_in", "swap_in", "swap_in"]
    return make(
        decisions=[
            {**plain, "kind": kind, "op_type": "Conv2D", "transfer_us": 1500.0, "stall_us": 125.0}
            for kind in kinds
        ],
        swap_tier="disk",
        swap_directory="/spill",
        link="3.4 GB/s out, 1.7 GB/s in (measured now)",
        swapped_bytes=6 * MIB,
        swap_hidden=0.875,
        swap_stall=0.0005,
    )


def test_swaps_are_told():
    text = str(swaps())
    assert "2 tensors of 6 MiB are swapped to disk (88% of the transfers hidden), for +7" in text
    assert "computed again" not in text
    table = swaps().table()
    assert "disk (/spill), 3.4 GB/s out, 1.7 GB/s in (measured now)" in table
    assert "2 copies of 6 MiB, 3.00 ms on the link, 0.25 ms waited for" in table
    assert "3 copies of 9 MiB, 4.50 ms on the link, 0.38 ms waited for" in table
    assert "swap_out Conv2D" in table and "swap_in Conv2D" in table
    both = dataclasses.replace(swaps(), decisions=swaps().decisions + make().decisions)
    assert "28 operations are computed again and 0 moved, 2 tensors of 6 MiB are" in str(both)


def test_why_nothing_is_swapped_is_told_where_it_matters():
    note = "nothing is swapped: a CPU's memory is the host's"
    assert note in make(swap_note=note).table()
    assert "swapped" not in str(make(swap_note=note))
    assert "Nothing is swapped: a CPU's" in str(make(status="infeasible", swap_note=note))
    assert "swap" not in make().table()


def test_table_has_the_figures():
    table = make(min_budget_bytes=512 * MIB).table()
    for text in ("rewritten", "700 MiB (asked: 60%)", "1.074 GiB", "+7.0%", "4,400 -> 4,456"):
        assert text in table
    assert "512 MiB" in table
    assert "2 MiB" in table and "recompute Relu3" in table  # 28 decisions of 14 types: 2 each
    assert "and 2 types more" in table  # 12 rows are shown
    assert "read by a collective" in table
    assert max(map(len, table.splitlines())) <= 100


def test_markup_in_names_is_left_alone():
    assert "step[bold]x[/bold]" in make(function="step[bold]x[/bold]").table()


def test_json_has_everything(tmp_path):
    report = make()
    text = report.to_json(tmp_path / "report.json")
    assert json.loads(text) == json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert json.loads(text) == {"format": "lms-report", "version": 1, **RAW}


def test_plot(tmp_path):
    pytest.importorskip("matplotlib")
    chart = make().plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000
    assert len(chart.axes[0].get_lines()) == 3  # before, after, the budget


def test_plot_without_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install matplotlib .*plots"):
        make().plot()


def test_a_report_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make().status = "fits"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 2**30, "5 GiB"), (2**50, "1024 TiB")],
)
def test_bytes(count, text):
    assert format_bytes(count) == text
