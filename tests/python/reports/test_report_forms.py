"""The forms of a report: JSON and its schema, traces, pictures, what budgets cost, terminals."""

import dataclasses
import json
from collections import Counter
from pathlib import Path

import lms
import pytest
from helpers import make_step, reports_on
from lms._reports import as_json as _report_json
from lms._reports import perfetto as _report_perfetto
from lms._reports import plot as _report_plot
from lms._reports import text as _report_text
from places import ROOT

SCHEMA = json.loads((Path(lms.__file__).parent / "report.schema.json").read_text(encoding="utf-8"))


def run(budget, **options):
    lms.clear_reports()
    step, _ = make_step()
    with lms.enabled(budget, **options):
        step()
    return reports_on(step)[0]


@pytest.fixture(scope="module")
def rewritten():
    return run("min")


@pytest.fixture(scope="module")
def fits():
    return run("1GiB")


def check(value, schema, where="report"):
    """The part of JSON Schema that report.schema.json uses; unknown words are an error."""
    schema = dict(schema)
    for word in ("$schema", "$defs", "title", "description"):
        schema.pop(word, None)
    if "$ref" in schema:
        return check(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], where)
    if "anyOf" in schema:
        kinds = {"null": type(None)}
        fitting = [s for s in schema["anyOf"] if (value is None) == (s.get("type") in kinds)]
        return check(value, fitting[0], where)
    if "const" in schema:
        assert value == schema["const"], where
        schema.pop("const")
    if "enum" in schema:
        assert value in schema.pop("enum"), where
    types = schema.pop("type", None)
    python = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "null": type(None),
    }
    if types is not None:
        types = [types] if isinstance(types, str) else types
        assert any(isinstance(value, python[name]) for name in types), (where, value)
        assert not isinstance(value, bool), where
    if value is not None and "minimum" in schema:
        assert value >= schema["minimum"], (where, value)
    schema.pop("minimum", None)
    if isinstance(value, list):
        assert schema.pop("minItems", 0) <= len(value) <= schema.pop("maxItems", len(value)), where
        items = schema.pop("items")
        for index, item in enumerate(value):
            check(item, items, f"{where}[{index}]")
    if isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
        every = schema.pop("additionalProperties")
        for name, item in value.items():
            check(item, every, f"{where}.{name}")
    elif isinstance(value, dict):
        properties = schema.pop("properties")
        assert set(schema.pop("required")) <= set(value), where
        assert set(value) <= set(properties), f"{where}: {set(value) - set(properties)}"
        for name, item in value.items():
            check(item, properties[name], f"{where}.{name}")
    schema.pop("items", None)
    assert not schema, f"{where}: {schema}"


def test_real_reports_are_as_the_schema_says(rewritten, fits):
    for report in (rewritten, fits, run("100KiB")):
        check(json.loads(report.to_json()), SCHEMA)
    lms.clear_reports()
    step, _ = make_step(batch=2)
    with lms.enabled("60%"):
        step()
    skipped = reports_on(step)[0]
    assert skipped.status == "skipped" and skipped.details is None
    check(json.loads(skipped.to_json()), SCHEMA)


def test_the_schema_is_one_and_tells_what_is_wrong(rewritten):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(json.loads(rewritten.to_json()), SCHEMA)


def test_what_is_not_in_the_schema_is_seen(rewritten):
    value = json.loads(rewritten.to_json())
    with pytest.raises(AssertionError):
        check({**value, "peak_after_bytes": "much"}, SCHEMA)
    with pytest.raises(AssertionError):
        check({**value, "more": 1}, SCHEMA)
    del value["details"]["buffers"]["role"]
    with pytest.raises(AssertionError):
        check(value, SCHEMA)


def test_the_schema_has_the_fields_of_the_class():
    fields = {field.name for field in dataclasses.fields(lms.Report)} - {"_details"}
    assert set(SCHEMA["properties"]) == fields | {"format", "version", "details"}


def test_json_there_and_back(tmp_path, rewritten, fits):
    for report in (rewritten, fits):
        text = report.to_json(tmp_path / "report.json")
        back = lms.load_report(tmp_path / "report.json")
        assert back == report
        assert back.details == report.details
        assert back.to_json() == text
        assert back.table() == report.table() and str(back) == str(report)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "no JSON text"),
        ("[1]", '"format": "lms-report"'),
        ('{"format": "other"}', '"format": "lms-report"'),
        ('{"format": "lms-report"}', '"version" is to be a whole number'),
        ('{"format": "lms-report", "version": 2}', "format 2, .* up to 1: use a newer lms"),
        ('{"format": "lms-report", "version": 1}', 'it has no "function"'),
    ],
)
def test_what_is_no_report_is_said(tmp_path, text, expected):
    with pytest.raises(ValueError, match=expected):
        lms.Report.from_json(text)
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=r"x\.json: "):
        lms.load_report(tmp_path / "x.json")


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(FileNotFoundError):
        lms.load_report(tmp_path / "none.json")


def test_fields_of_the_future_and_missing_ones_with_a_default(rewritten):
    value = json.loads(rewritten.to_json())
    value["from_the_future"] = 1
    del value["warnings"], value["details"]
    back = lms.Report.from_json(json.dumps(value))
    assert back.details is None and back.warnings == ()
    assert back.decisions == rewritten.decisions


def trace_of(report):
    trace = json.loads(report.to_perfetto())
    assert trace["displayTimeUnit"] == "ms"
    return trace["traceEvents"]


def test_a_trace_is_well_formed(tmp_path, rewritten):
    assert rewritten.to_perfetto(tmp_path / "t.json") == (tmp_path / "t.json").read_text(
        encoding="utf-8"
    )
    events = trace_of(rewritten)
    assert {event["pid"] for event in events} == {1, 2}
    for pid in (1, 2):
        side = [event for event in events if event["pid"] == pid and event["ph"] != "M"]
        times = [event["ts"] for event in side]
        assert times == sorted(times) and times[0] >= 0
    for event in events:
        assert event["ph"] in "MXCisf"
        if event["ph"] != "M":
            assert event["cat"] and event["name"]
    slices = [event for event in events if event["ph"] == "X"]
    assert min(event["dur"] for event in slices) >= 0
    # Slices of one track do not overlap.
    end = {}
    for event in slices:
        track = (event["pid"], event["tid"])
        assert event["ts"] >= end.get(track, 0) - 1e-6
        end[track] = event["ts"] + event["dur"]
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert set(end) <= named


def test_a_trace_has_all_operations_counters_and_arrows(rewritten):
    events = trace_of(rewritten)
    details = rewritten.details
    slices = [event for event in events if event["ph"] == "X"]
    for pid, side in ((1, "before"), (2, "after")):
        count = sum(event["pid"] == pid for event in slices)
        assert count == len(details[side]["op"])
        memory = [e for e in events if e["pid"] == pid and e["name"] == "memory in use"]
        assert max(e["args"]["bytes"] for e in memory) == max(rewritten.timeline[side])
        (peak,) = [e for e in events if e["pid"] == pid and e["ph"] == "i"]
        assert peak["args"]["bytes"] == max(rewritten.timeline[side])
        budget = [e for e in events if e["pid"] == pid and e["name"] == "budget"]
        assert {e["args"]["bytes"] for e in budget} == {rewritten.budget_bytes}
    again = [e for e in slices if e["cat"] == "recompute"]
    decided = [d for d in rewritten.decisions if d["kind"] == "recompute"]
    priced = [e for e in again if "cost in us" in e["args"]]
    assert Counter(e["name"] for e in priced) == Counter(d["op"] for d in decided)
    assert {e["args"]["bytes"] for e in priced} == {d["tensor_bytes"] for d in decided}
    assert all(e["pid"] == 2 for e in again)
    begun = {e["id"]: e for e in events if e["ph"] == "s"}
    ended = {e["id"]: e for e in events if e["ph"] == "f"}
    assert set(begun) == set(ended) and len(begun) >= len(decided)
    assert all(begun[arrow]["ts"] <= ended[arrow]["ts"] for arrow in begun)


def test_slices_that_overlap_are_on_lanes_of_their_own():
    lanes = _report_perfetto._Lanes()
    events = [{"ts": ts, "dur": dur} for ts, dur in ((0, 10), (5, 10), (10.0, 5), (14.999, 1))]
    # The third begins where the first ends, the fourth 1 ns before the third ends: rounding.
    assert [lanes.take("swapped in", event) for event in events] == [0, 1, 0, 0]
    assert [event["dur"] for event in events] == pytest.approx([10, 10, 4.999, 1])
    assert lanes.take("swapped out", {"ts": 0, "dur": 1}) == 0


def test_a_trace_of_one_side_and_of_none(fits):
    assert {event["pid"] for event in trace_of(fits)} == {1}
    bare = dataclasses.replace(fits, _details=type(fits._details)(None))
    with pytest.raises(ValueError, match="has no details"):
        bare.to_perfetto()


def test_pictures(tmp_path, rewritten, fits):
    pytest.importorskip("matplotlib")
    for report, lines in ((rewritten, 2), (fits, 1)):
        chart = report.plot(tmp_path / "plot.png")
        assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"
        timeline, live = chart.axes
        steps = [line for line in timeline.get_lines() if len(line.get_xdata()) > 2]
        assert len(steps) == lines
        assert len(live.patches) > 3
        shaded = {text.get_text() for text in timeline.texts}
        assert {"forward", "backward"} <= shaded


def test_the_bars_are_what_is_live_at_the_peak(rewritten):
    pytest.importorskip("matplotlib")
    bars = rewritten.plot().axes[1].patches
    scale, _ = _report_plot._unit(max(rewritten.details["buffers"]["bytes"]))
    total = sum(bar.get_width() for bar in bars) * scale
    assert total == pytest.approx(rewritten.peak_after_bytes, rel=0.003)


def test_phases_are_stretches():
    step = {
        # A learning rate is read at the beginning; one operation of the forward pass comes late.
        "phase": [2, 0, 0, 1, 0, 1, 1, 2, 1, 2, 2],
        "start_us": [0, 1, 11, 21, 31, 32, 42, 52, 53, 54, 64],
        "took_us": [1, 10, 10, 10, 1, 10, 10, 1, 1, 10, 6],
    }
    details = {"before": step, "phases": ["forward", "backward", "update"]}
    assert _report_plot.phase_spans(details, "before") == [
        ("forward", 0, 21),
        ("backward", 21, 52),
        ("update", 52, 70),
    ]


def test_what_is_held_at_a_position():
    details = {"buffers": {"before": [[[0, 4]], [[2, 3], [5, 6]], [], [[3, 9], [3, 3]]]}}
    assert _report_text.held_at(details, "before", 3) == [0, 1, 3, 3]
    assert _report_text.held_at(details, "before", 4) == [0, 3]


def test_the_table_says_what_is_largest_at_the_peak(rewritten):
    assert "largest at the peak of the rewritten step" in rewritten.table()
    assert "activation" in rewritten.table()


def test_in_a_terminal_there_are_colours(rewritten, capsys):
    console = pytest.importorskip("rich.console").Console(
        force_terminal=True, width=120, color_system="standard", no_color=False
    )
    with console.capture() as captured:
        console.print(rewritten)
    assert "\x1b[32mrewritten" in captured.get()
    rewritten.show()  # piped
    assert capsys.readouterr().out == rewritten.table()
    assert "\x1b" not in rewritten.table()


def test_in_a_notebook_the_table_is_text_as_well(rewritten, capsys, monkeypatch):
    elsewhere = rewritten.table()
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert rewritten.table() == elsewhere
    assert capsys.readouterr().out == ""


def test_what_budgets_cost(tmp_path):
    lms.clear_reports()
    step, _ = make_step()
    with lms.enabled("1GiB"):
        step()
    report = reports_on(step)[0]
    table = report.pareto(points=5, seconds=0.5)
    budgets = [point.budget_bytes for point in table.points]
    assert len(budgets) == 5 and budgets == sorted(budgets, reverse=True)
    first, last = table.points[0], table.points[-1]
    assert first.budget_bytes == first.peak_bytes == table.peak_bytes and first.overhead == 0
    assert last.feasible and last.peak_bytes < table.peak_bytes and last.overhead > 0
    for one, next_one in zip(table.points, table.points[1:]):
        assert next_one.overhead >= one.overhead
        assert next_one.peak_bytes <= next_one.budget_bytes
    text = table.table()
    assert "as it is" in text and str(table) == text and "+0.0%" in text
    if pytest.importorskip("matplotlib"):
        table.plot(tmp_path / "pareto.png")
        assert (tmp_path / "pareto.png").stat().st_size > 1000
    # The least of them can really be asked for.
    again, _ = make_step()
    with lms.enabled(last.budget_bytes):
        again()
    (real,) = reports_on(again)
    assert real.status == "rewritten", real.reason
    # With more work for one plan than for one of several there may be a better one: which of the
    # two it is depends on what ops cost on this machine.
    assert 0 < real.predicted_time_overhead <= last.overhead + 0.05


def test_budgets_of_ones_own(rewritten):
    lms.clear_reports()
    report = run("min")
    low, high = report.resident_bytes + 1, 10 * report.peak_before_bytes
    table = report.pareto(budgets=[low, "1GiB", high], seconds=0.5)
    assert [point.feasible for point in table.points] == [True, True, False]
    assert table.points[-1].budget_bytes == low
    assert "not feasible" in table.table()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"points": 1}, "points is 1; expected is a whole number from 2"),
        ({"seconds": 0}, "seconds is 0; expected"),
        ({"budgets": []}, "budgets is empty"),
        ({"budgets": ["much"]}, "budgets='much': expected a number of bytes, or a text such as"),
        ({"budgets": [-1]}, "budgets=-1"),
    ],
)
def test_wrong_arguments_of_pareto_are_said(rewritten, arguments, expected):
    with pytest.raises(ValueError, match=expected):
        rewritten.pareto(**arguments)


def test_a_step_that_is_gone_is_said():
    report = run("min")
    lms.clear_reports()
    with pytest.raises(ValueError, match="is not kept"):
        report.pareto()


def test_the_format_is_documented():
    text = (ROOT / "docs" / "report-format.md").read_text(encoding="utf-8")
    for name in SCHEMA["$defs"]["details"]["properties"]:
        assert f"`{name}`" in text
    for name in SCHEMA["$defs"]["details"]["properties"]["buffers"]["properties"]:
        assert f"`{name}`" in text
    assert f'"version": {_report_json.VERSION}' in text
