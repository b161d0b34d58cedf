"""Hints on tensors: each form changes the plan as it says, and no bit of what is computed."""

from __future__ import annotations

import lms
import pytest
import tensorflow as tf
from helpers import reports_on, run_python
from hint_steps import AMPLE, blocks, peak_of, recomputed, verified
from lms._base import failure as _failure
from steps import BATCH, TILE, WIDTH, descend, inputs, named, weights

# ---- Tensors ----


def test_a_tensor_is_recomputed_though_the_step_fits():
    run = blocks()
    report = verified(lambda: run(lambda i, y: lms.recompute(y) if i == 2 else y))
    assert report.status == "rewritten"
    assert "hints are carried out" in report.reason and "lms.recompute" in report.reason
    assert recomputed(report) == ["MatMul_2", "Tanh_2"]  # its input is gone, and made again
    (hint,) = report.hints
    assert (hint["kind"], hint["tensors"], hint["bytes"]) == ("recompute", 1, TILE)
    assert hint["where"].startswith("test_hints.py:")
    assert hint["cost_us"] > 0 and hint["not_followed"] == 0
    assert hint["peak_bytes"] <= hint["peak_without_bytes"]


def test_recomputing_by_hint_lowers_what_the_allocator_sees():
    run = blocks(8)

    def hint(i, y):
        return y if i in (3, 7) else lms.recompute(y)

    stock = peak_of(lambda: run(hint), None)
    hinted = peak_of(lambda: run(hint), AMPLE)
    # Of eight activations two and, of each half, those of one half at a time are held.
    assert hinted <= stock - 2 * TILE


def test_kept_tensors_stay_where_others_are_recomputed():
    run = blocks()
    report = verified(lambda: run(lambda i, y: lms.keep(y) if i in (1, 3) else y), "70%")
    assert report.status == "rewritten"
    assert recomputed(report)
    assert not {"Tanh_1", "Tanh_3"} & set(recomputed(report))
    assert any(entry["reason"] == "hint: keep" for entry in report.kept)
    free = verified(lambda: run(), "70%")
    assert {"Tanh_1", "Tanh_3"} & set(recomputed(free))


def test_kept_tensors_win_over_the_budget_and_the_report_says_which_to_lift():
    run = blocks()
    report = verified(lambda: run(lambda i, y: lms.keep(y)), "55%")
    assert report.status == "infeasible"
    assert "without hints it could be met: lift lms.keep (test_hints.py:" in report.reason
    assert report.hints[0]["tensors"] == 6


def test_a_budget_that_no_hint_is_to_blame_for():
    run = blocks()
    report = verified(lambda: run(lambda i, y: lms.keep(y)), "5%")
    assert report.status == "infeasible"
    assert "without hints the least budget would be" in report.reason


def test_a_nest_of_tensors_comes_back_as_it_was():
    x = tf.ones([4])
    nest = {"a": [x, 3], "b": (x, None)}
    for hint in (lms.keep, lms.recompute, lms.swap, lms.checkpoints):
        assert hint(nest) is nest

    @tf.function
    def function(a):
        made = {"a": tf.exp(a), "b": [tf.sin(a), None, 2.0]}
        assert lms.keep(made) is made
        return made["a"] + made["b"][0]

    graph = function.get_concrete_function(x).graph
    marked = {op.name for op in graph.get_operations() if "_lms_hint" in op.node_def.attr}
    assert marked == {"Exp", "Sin"}


def test_what_is_no_nest_comes_back_as_it_was():
    mixed = {1: tf.constant(1.0), "b": object()}  # which has no order
    assert lms.keep(mixed) is mixed
    assert lms.recompute("x") == "x" and lms.swap(3) == 3 and lms.keep(None) is None


def test_what_cannot_be_followed_is_a_warning_with_the_reason():
    layers, x = weights(), inputs()

    def step():
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                mask = lms.recompute(tf.random.uniform([BATCH, WIDTH]))
                y = tf.tanh(tf.matmul(y, layer)) * mask
            y = lms.recompute(tf.exp(y))  # used again at once
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    function = named(step)
    lms.enable(AMPLE)
    function()
    report = reports_on(function)[-1]
    assert report.status in ("fits", "rewritten")
    said = "\n".join(report.warnings)
    assert "random_uniform" in said and "stays as it is" in said
    assert "test_hints.py:" in said
    assert sum(hint["not_followed"] for hint in report.hints) >= 5


def test_recompute_false_forbids_what_hints_ask_for():
    run = blocks()
    report = verified(lambda: run(lambda i, y: lms.recompute(y)), recompute=False)
    assert report.status == "fits"
    assert any("recompute=False" in warning for warning in report.warnings)


# ---- Checkpoints ----


def test_all_but_the_checkpoints_is_recomputed():
    run = blocks(8)
    report = verified(lambda: run(lambda i, y: lms.checkpoints(y) if i in (2, 5) else y))
    again = set(recomputed(report))
    assert {"Tanh", "Tanh_1", "Tanh_3", "Tanh_4"} <= again
    assert not {"Tanh_2", "Tanh_5"} & again
    assert {
        (hint["kind"], hint["where"] == "all but the checkpoints") for hint in report.hints
    } == {
        ("keep", False),
        ("recompute", True),
    }
    assert report.peak_after_bytes < report.peak_before_bytes


# ---- Swapping ----


def test_a_tensor_is_swapped_to_disk(tmp_path):
    run = blocks()
    report = verified(
        lambda: run(lambda i, y: lms.swap(y) if i == 1 else y),
        swap_to=f"{tmp_path}/",
        swap=lms.SwapOptions(out_bandwidth="1GB", in_bandwidth="1GB"),
    )
    assert report.status == "rewritten"
    assert [d["op"] for d in report.decisions if d["kind"] == "swap_out"] == ["Tanh_1"]
    assert not recomputed(report)
    assert report.hints[0]["kind"] == "swap" and report.hints[0]["tensors"] == 1


def test_swapping_to_nowhere_is_a_warning_with_what_to_do():
    run = blocks()
    report = verified(lambda: run(lambda i, y: lms.swap(y) if i == 1 else y))
    assert report.status == "fits"
    assert any("lms.swap" in text and "swap_to" in text for text in report.warnings)


# ---- Off, saved, failing ----


def test_without_lms_hints_do_nothing():
    run = blocks()
    hinted = named(lambda: run(lambda i, y: lms.recompute(y)))
    hinted()
    assert lms.reports() == []
    with lms.recompute():  # outside of a graph
        assert float(lms.keep(tf.constant(2.0)) * 2) == 4


def test_a_function_traced_while_lms_was_off_has_its_hints():
    run = blocks()
    hinted = named(lambda: run(lambda i, y: lms.recompute(y) if i == 2 else y))
    hinted()
    lms.enable(AMPLE)
    hinted()
    assert "Tanh_2" in recomputed(reports_on(hinted)[-1])


@pytest.mark.slow
def test_a_saved_model_loads_without_lms(tmp_path):
    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([4])])
        def run(self, a):
            with lms.recompute():
                b = tf.exp(a)
            return lms.keep(tf.sin(b))

    module = Module()
    expected = module.run(tf.ones([4])).numpy().tolist()
    tf.saved_model.save(module, str(tmp_path))
    status, output = run_python(
        "import tensorflow as tf, sys\n"
        f"loaded = tf.saved_model.load({str(tmp_path)!r})\n"
        "print('lms' in sys.modules, loaded.run(tf.ones([4])).numpy().tolist())\n"
    )
    assert status == 0, output
    assert output.splitlines()[-1] == f"False {expected}"


def test_a_failure_in_hints_leaves_the_program_as_it_is():
    run = blocks()
    _failure.inject("hints")
    function = named(lambda: run(lambda i, y: lms.recompute(y)))
    lms.enable(AMPLE)
    function()
    assert reports_on(function)[-1].status == "fits"


def test_plans_with_hints_are_the_same_each_time():
    run = blocks()
    plans = []
    for _ in range(2):
        report = verified(lambda: run(lambda i, y: lms.recompute(y) if i % 2 else y), "70%")
        plans.append([(d["kind"], d["op"], d["before"], d["position"]) for d in report.decisions])
    assert plans[0] == plans[1] and plans[0]
