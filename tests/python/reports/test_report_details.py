"""Report.details: every operation and buffer of a step, and that they explain its timeline."""

import copy
import pickle

import lms
import pytest
import tensorflow as tf
from helpers import make_step, reports_on
from lms import _native


def run(budget="min", **arguments):
    lms.clear_reports()
    step, _ = make_step(**arguments)
    with lms.enabled(budget):
        step()
    return reports_on(step)[0]


@pytest.fixture(scope="module")
def rewritten():
    return run()


def held(details, side):
    """Per position: the sum of what is listed there."""
    sums = [0] * len(details[side]["bytes"])
    buffers = details["buffers"]
    for size, intervals in zip(buffers["bytes"], buffers[side]):
        for first, last in intervals:
            for position in range(first, last + 1):
                sums[position] += size
    return sums


def names(details, side="before"):
    return [details["strings"][number] for number in details[side]["op"]]


def rows(details, column, value):
    """The buffers whose role or fate it is, as mappings."""
    number = details[column + "s"].index(value)
    buffers = details["buffers"]
    found = [row for row, entry in enumerate(buffers[column]) if entry == number]
    return [
        {
            **{name: buffers[name][row] for name in buffers},
            "name": details["strings"][buffers["name"][row]],
            "reason": details["strings"][buffers["reason"][row]],
        }
        for row in found
    ]


def test_what_is_held_adds_up_to_the_timeline(rewritten):
    details = rewritten.details
    assert details["omitted"] == {"buffers": 0, "bytes": 0}
    for side in ("before", "after"):
        assert details[side]["bytes"] == rewritten.timeline[side]
        assert held(details, side) == rewritten.timeline[side]
    assert details["before"]["bytes"][details["peak_before"]] == rewritten.peak_before_bytes
    assert details["after"]["bytes"][details["peak_after"]] == rewritten.peak_after_bytes


def test_columns_are_of_one_length_and_in_range(rewritten):
    details = rewritten.details
    for side in ("before", "after"):
        step = details[side]
        count = len(rewritten.timeline[side])
        assert {len(column) for column in step.values()} == {count}
        assert max(step["kind"]) < len(details["kinds"])
        assert max(step["phase"]) < len(details["phases"])
        assert step["start_us"] == sorted(step["start_us"])
        assert min(step["took_us"]) >= 0
        for intervals in details["buffers"][side]:
            assert all(0 <= first <= last < count for first, last in intervals)
    buffers = details["buffers"]
    assert len({len(column) for column in buffers.values()}) == 1
    assert buffers["bytes"] == sorted(buffers["bytes"], reverse=True)
    assert len(set(buffers["name"])) == len(buffers["name"])
    strings = range(len(details["strings"]))
    for column in ("name", "type", "reason"):
        assert all(number in strings for number in buffers[column])


def test_recomputed_buffers_have_several_instances_and_cost_what_was_decided(rewritten):
    details = rewritten.details
    again = rows(details, "fate", "recomputed")
    assert again
    for buffer in again:
        assert len(buffer["after"]) > len(buffer["before"]) == 1
        assert "made again" in buffer["reason"]
    decided = sum(d["cost_us"] for d in rewritten.decisions if d["kind"] == "recompute")
    assert sum(details["buffers"]["cost_us"]) == pytest.approx(decided)
    kinds = [details["kinds"][kind] for kind in details["after"]["kind"]]
    count = sum(d["kind"] == "recompute" for d in rewritten.decisions)
    # Copies of views are recomputations, too, and free.
    assert kinds.count("recompute") >= count > 0
    assert not any(name.startswith("lms/") for name in names(details, "after"))


def test_roles(rewritten):
    details = rewritten.details
    # Eight weights of 64 x 64 floats, resident during the whole step.
    weights = [b for b in rows(details, "role", "weight") if "before its update" not in b["name"]]
    assert [buffer["bytes"] for buffer in weights if buffer["bytes"] > 4] == [64 * 64 * 4] * 8
    end = len(details["before"]["bytes"]) - 1
    resident = details["fates"].index("resident")
    for buffer in weights:
        assert buffer["before"] == [[0, end]] and buffer["fate"] == resident
    # Each layer's activations are 512 x 64 floats.
    activations = [b["bytes"] for b in rows(details, "role", "activation")]
    assert activations.count(512 * 64 * 4) >= 8
    gradients = [b["bytes"] for b in rows(details, "role", "gradient")]
    assert gradients.count(64 * 64 * 4) >= 8 and 512 * 64 * 4 in gradients
    kept = [b for b in rows(details, "fate", "kept") if b["bytes"] > 1000]
    assert all(buffer["reason"] for buffer in kept)


def test_phases(rewritten):
    details = rewritten.details
    phase_of = {}
    for name, phase in zip(names(details), details["before"]["phase"]):
        phase_of[name] = details["phases"][phase]
    named = [name for name in phase_of if "gradient_tape/" in name]
    assert named and {phase_of[name] for name in named} == {"backward"}
    updates = [name for name in phase_of if "AssignSubVariableOp" in name]
    assert len(updates) == 8 and {phase_of[name] for name in updates} == {"update"}
    assert {phase_of[name] for name in phase_of if name.startswith("Tanh")} == {"forward"}
    after = details["after"]
    recompute = details["kinds"].index("recompute")
    phases = {p for p, kind in zip(after["phase"], after["kind"]) if kind == recompute}
    assert phases == {details["phases"].index("backward")}


def test_phases_without_names_of_gradients():
    weights = [tf.Variable(tf.ones([64, 64]) / 64) for _ in range(3)]

    @tf.function
    def by_hand(x):
        y = [x]
        for weight in weights:
            y.append(tf.tanh(tf.matmul(y[-1], weight)))
        loss = tf.reduce_mean(y[-1])
        slope = tf.ones_like(y[-1])
        for weight, out, into in zip(weights[::-1], y[:0:-1], y[-2::-1]):
            slope = slope * (1 - out * out)
            step = tf.matmul(into, slope, transpose_a=True)
            slope = tf.matmul(slope, weight, transpose_b=True)
            weight.assign_sub(step)
        return loss

    lms.clear_reports()
    with lms.enabled("1GiB"):
        by_hand(tf.ones([256, 64]))
    details = reports_on(by_hand)[0].details
    phases = [details["phases"][number] for number in details["before"]["phase"]]
    phase_of = dict(zip(names(details), phases))
    assert {"forward", "backward", "update"} == set(phases)
    assert phase_of["MatMul"] == phase_of["Tanh"] == "forward"
    assert {phase_of[name] for name in phase_of if name.startswith("mul_")} == {"backward"}
    assert {phase_of[name] for name in phase_of if "AssignSub" in name} == {"update"}


def test_swapped_buffers(tmp_path):
    lms.clear_reports()
    step, _ = make_step(batch=4096)
    link = lms.SwapOptions(out_bandwidth="50GB", in_bandwidth="50GB")
    with lms.enabled("min", recompute=False, swap_to=f"{tmp_path}/", swap=link):
        step()
    report = reports_on(step)[0]
    assert report.status == "rewritten", report.reason
    details = report.details
    swapped = rows(details, "fate", "swapped")
    out = [d for d in report.decisions if d["kind"] == "swap_out"]
    assert len(swapped) == len(out) > 0
    assert sum(buffer["bytes"] for buffer in swapped) == report.swapped_bytes
    for buffer in swapped:
        assert len(buffer["after"]) >= 2 and "swapped to disk" in buffer["reason"]
    assert held(details, "after") == report.timeline["after"]
    kinds = {details["kinds"][kind] for kind in details["after"]["kind"]}
    assert {"swap_out", "swap_in"} <= kinds


def test_a_step_that_fits_has_one_side():
    report = run("1GiB")
    assert report.status == "fits"
    details = report.details
    assert details["after"] is None and details["peak_after"] is None
    assert held(details, "before") == report.timeline["before"]
    assert all(intervals == [] for intervals in details["buffers"]["after"])
    assert not rows(details, "fate", "recomputed")


def test_an_infeasible_budget_has_them_too():
    report = run("100KiB")
    assert report.status == "infeasible"
    assert held(report.details, "before") == report.timeline["before"]
    assert report.details["after"] is None


def test_several_threads_and_loops_add_up():
    @tf.function
    def loop(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tf.range(3):
                y = tf.tanh(tf.matmul(y, y))
            loss = tf.reduce_sum(y)
        return loss, tape.gradient(loss, x)

    lms.clear_reports()
    with lms.enabled("1GiB"):
        loop(tf.ones([256, 256]) / 256)
    for report in reports_on(loop):
        if report.details is not None:
            assert held(report.details, "before") == report.timeline["before"]


def test_nothing_of_the_details_is_made_before_it_is_asked_for(monkeypatch):
    run()
    asked = []
    real = _native.report_details
    monkeypatch.setattr(_native, "report_details", lambda handle: asked.append(1) or real(handle))
    report = max(lms.reports(), key=lambda r: r.peak_before_bytes)
    assert not asked
    assert report.details is report.details and len(asked) == 1
    # A report that somebody holds keeps its details.
    lms.clear_reports()
    assert report.details["before"]
    assert copy.deepcopy(report).details is report.details
    assert pickle.loads(pickle.dumps(report)) == report
    assert pickle.loads(pickle.dumps(report)).details == report.details


def test_a_failure_in_the_details_costs_the_details_alone():
    for at in (1, 2, 3):  # of the step as it came, of the rewritten one, at the end
        _native.inject_failure("details", "other" if at == 2 else "error", at)
        report = run()
        _native.inject_failure("")
        assert report.status == "rewritten"
        assert report.details is None
        assert any("no details" in warning for warning in report.warnings)
        assert "rewritten" in report.table()


def test_what_is_no_handle_is_refused():
    with pytest.raises(TypeError):
        _native.report_details(3)
