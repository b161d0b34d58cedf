"""lms.max_batch_size and lms.max_size: answers that plans, and runs, confirm on both sides."""

from __future__ import annotations

import dataclasses

import lms
import numpy as np
import pytest
import tensorflow as tf
from lms import _native
from lms._base.format import parse_bytes
from lms._planning import process_memory as _process_memory
from lms._planning import size_trials as _size_trials
from lms._planning.size_search import Search, Trial
from planning_steps import dense, narrow

WIDTH, LAYERS = 64, 12
# Small enough for hundreds of rows: a stand-in for a GPU.
SMALL = lms.Device("small", memory_bytes=4 << 20, usable_bytes=4 << 20)
QUICK = {"planner_seconds": 0.2, "device": SMALL, "precision": 0.02}


def open_step(shape):
    weights = [tf.Variable(tf.zeros([WIDTH, WIDTH])) for _ in range(LAYERS)]

    @tf.function(input_signature=[tf.TensorSpec(shape)])
    def step(x):
        with tf.GradientTape() as tape:
            y = tf.reshape(x, [-1, WIDTH])
            for weight in weights:
                y = tf.tanh(tf.matmul(y, weight))
            loss = tf.reduce_mean(y * y)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.1 * gradient)
        return loss

    return step


def test_the_answer_fits_and_the_next_does_not():
    step = open_step([None, WIDTH])
    found = lms.max_batch_size(step, **{**QUICK, "precision": 0.0})
    assert 0 < found.without_lms < found.with_lms
    assert found.slowdown > 0
    for size, fits in ((found.without_lms, True), (found.without_lms + 1, False)):
        report = lms.plan(step, device=SMALL, memory_budget=1 << 50, unknown_dim=size)
        assert (report.peak_before_bytes <= SMALL.budget_bytes) == fits
    assert found.report is not None and found.report.status == "rewritten"
    assert found.report.peak_after_bytes <= found.budget_bytes == SMALL.budget_bytes
    text = found.table()
    assert str(found.without_lms) in text and str(found.with_lms) in text
    assert str(found.with_lms) in str(found)


def test_a_function_is_traced_once():
    traced = []
    step = open_step([None, WIDTH])
    original = step.python_function

    def counted(x):
        traced.append(1)
        return original(x)

    function = tf.function(counted, input_signature=[tf.TensorSpec([None, WIDTH])])
    found = lms.max_batch_size(function, lms=False, **QUICK)
    assert found.with_lms is None and len(found.trials["without_lms"]) > 3
    assert len(traced) == 1


@pytest.mark.slow
def test_a_slowdown_that_is_allowed():
    step = open_step([None, WIDTH])
    free = lms.max_batch_size(step, lms=True, **QUICK)
    tight = lms.max_batch_size(step, lms=True, max_slowdown=0.05, **QUICK)
    none = lms.max_batch_size(step, lms=True, max_slowdown=0.0, **QUICK)
    assert free.without_lms is None
    assert none.with_lms <= tight.with_lms < free.with_lms
    assert tight.slowdown <= 0.05 < free.slowdown


def test_other_dimensions():
    step = open_step([8, None, WIDTH])
    found = lms.max_size(step, vary="x:1", what="sequence length", lms=False, **QUICK)
    rows = lms.max_batch_size(open_step([None, WIDTH]), lms=False, **QUICK).without_lms
    assert found.without_lms == pytest.approx(rows / 8, rel=0.05)
    assert "sequence length" in found.table()
    some = lms.max_size(step, multiple_of=16, lms=False, **QUICK)
    assert some.without_lms % 16 == 0
    assert some.without_lms == pytest.approx(found.without_lms, abs=16 + 3)


@pytest.mark.slow
def test_functions_of_the_size_and_models():
    device = lms.Device("small", memory_bytes=16 << 20, usable_bytes=16 << 20)
    options = {"lms": False, "precision": 0.0, "device": device}
    of_size = lms.max_batch_size(dense, **options).without_lms
    of_maker = lms.max_batch_size(lambda: dense(None)[0], **options).without_lms

    def known(size):
        return lms.plan(lambda: dense(None)[0], size, device=device, memory_budget=1 << 50)

    def opened(size):
        step = lms.plan(
            lambda: dense(None)[0], None, device=device, memory_budget=1 << 50, unknown_dim=size
        )
        return step

    for answer, planned in ((of_size, known), (of_maker, opened)):
        assert planned(answer).peak_before_bytes <= device.budget_bytes
        assert planned(answer + 1).peak_before_bytes > device.budget_bytes
    # Not the same step: of a batch that is known TensorFlow divides the gradient of the mean when
    # the step begins, of an open one once the size has been computed, at the end of the forward
    # pass. So one activation of 1 KiB a row more is there at the peak; with real steps as well.
    assert of_size < of_maker
    less = known(of_size).peak_before_bytes - opened(of_size).peak_before_bytes
    assert less == pytest.approx(of_size * 1024, rel=0.02)


def fake(kind, answer, budget=10**9):
    """Trials of a step whose largest size is known."""
    sizes = []

    def try_size(size):
        sizes.append(size)
        assert len(sizes) <= 100, sizes
        fits = size <= answer
        needed = {
            "line": size * budget // max(answer, 1),
            "bent": int((size / max(answer, 1)) ** 0.2 * budget),
            "flat": budget // 2 + size,
            # Two sizes that fit, one byte apart: a line through them meets the budget at once.
            "noise": budget - 1 - size % 2 if fits else budget * 50 + size,
            "rewritten": budget - 1 if fits else budget + 1,
        }[kind]
        status = "rewritten" if kind == "rewritten" and fits else "fits"
        return Trial(size, fits, needed, needed, status=status)

    return try_size, sizes


@pytest.mark.parametrize("kind", ["line", "bent", "flat", "noise", "rewritten"])
@pytest.mark.parametrize("multiple", [1, 16])
def test_the_search_ends_soon(kind, multiple):
    most, budget = 65536, 10**9
    search = Search(multiple, most, multiple, 0.02)
    for answer in (16, 17, 100, 1348, 20011, 37001, 56412, 60000, 65535, 65536, 90000):
        for first in (0, answer // 3):
            try_size, sizes = fake(kind, answer, budget)
            found, trials = search.largest(try_size, budget, first)
            best = min(answer, most) // multiple * multiple
            assert best - max(multiple, 0.02 * best) <= found <= best, sizes
            assert len(trials) == len(sizes) <= 25, sizes
            assert all(multiple <= size <= most and size % multiple == 0 for size in sizes)


def test_the_search_is_exact_where_that_is_asked():
    for answer in (0, 1, 2, 7, 8, 9, 1000, 1001):
        try_size, _ = fake("noise", answer)
        found, _ = Search(1, 1000, 1, 0.0).largest(try_size, 10**9, 0)
        assert found == min(answer, 1000)


def test_what_does_not_fit_at_all():
    tiny = lms.Device("tiny", memory_bytes=1 << 16, usable_bytes=1 << 16)
    found = lms.max_batch_size(open_step([None, WIDTH]), device=tiny)
    assert (found.without_lms, found.with_lms) == (0, 0)
    assert "none fits" in found.table()


def test_it_ends_at_the_most_that_is_asked():
    found = lms.max_batch_size(open_step([None, WIDTH]), at_most=32, **QUICK)
    assert (found.without_lms, found.with_lms) == (32, 32)
    assert found.slowdown == 0


@pytest.mark.parametrize("most", [1 << 20, 300, 0])
def test_a_check_of_ones_own(most):
    """Where what was predicted does not train, the answer is what does."""
    seen = []

    def check(size, budget):
        seen.append((size, budget > 0))
        return size <= most

    step = open_step([None, WIDTH])
    predicted = lms.max_batch_size(step, lms=False, **QUICK).without_lms
    found = lms.max_batch_size(step, check=check, lms=False, **QUICK)
    size, runs = found.without_lms, found.checks["without_lms"]
    assert sorted(seen) == [(one, False) for one, _ in runs]
    assert runs == tuple((one, one <= most) for one, _ in runs)
    if most > predicted:
        assert size == predicted and len(runs) == 2
    else:
        assert predicted > most and predicted in dict(runs)
        assert 0.95 * most <= size <= most
        assert not size or size in {trial.size for trial in found.trials["without_lms"]}


def test_bytes_are_read_alike_everywhere():
    for given in (6_000_000_000, 6e9, np.int64(6_000_000_000), "6e9", "6GB", "6 GB", "6000000000"):
        assert parse_bytes(given, "limit") == 6_000_000_000
        lms.rewriter_config(memory_budget=given)
    for given in (0, -1, 1.5, float("nan"), float("inf"), 2**63, "much", "", "-6GB"):
        with pytest.raises(ValueError, match="limit="):
            parse_bytes(given, "limit")
    for given in (True, None, [1]):
        with pytest.raises(TypeError, match="limit="):
            parse_bytes(given, "limit")


def test_bad_input():
    step = open_step([None, WIDTH])
    with pytest.raises(ValueError, match="nothing can vary"):
        lms.max_batch_size(open_step([8, WIDTH]), **QUICK)
    with pytest.raises(TypeError, match="give memory_limit"):
        lms.max_batch_size(step, memory_budget="1GiB")
    with pytest.raises(ValueError, match='expected a number of bytes, or a text such as "2GiB"'):
        lms.max_batch_size(step, memory_limit="2 gigs", device=SMALL)
    with pytest.raises(ValueError, match="at_least=0"):
        lms.max_size(step, at_least=0)
    with pytest.raises(ValueError, match="max_slowdown=-1"):
        lms.max_size(step, max_slowdown=-1, device=SMALL)
    with pytest.raises(ValueError, match="check=True needs this machine"):
        lms.max_batch_size(step, check=True, lms=False, **QUICK)
    with pytest.raises(ValueError, match="unknown device"):
        lms.max_batch_size(step, device="abacus")


@pytest.mark.slow
def test_a_limit_on_the_process_is_kept_by_real_runs():
    own = _process_memory.overhead(narrow, 512)
    assert 100 << 20 < own < 3 << 30
    # Tensors may take 56 MiB; with room for what else a process may want, they alone end it.
    own += 128 << 20
    limit = own + (56 << 20)
    # Of each row the backward pass needs eight times 512 floats, 16 KiB: 8 MiB of 512 rows (and 14
    # are weights and their gradients), 64 MiB of 4096. What comes in is 16 KiB of all those.
    assert _process_memory.runs(narrow, 512, limit, 0, own)["ok"]
    answer = _process_memory.runs(narrow, 4096, limit, 0, own)
    assert not answer["ok"]
    assert "ResourceExhausted" in answer["error"], answer


@pytest.mark.slow
def test_what_a_process_takes_is_measured_at_each_answer(monkeypatch):
    """It grows with the size, and so with lms it is more than at the largest size without."""
    fixed, each = 64 << 20, 256
    measured = []

    def overhead(step, size=1, region=0, budget=0):
        measured.append((size, budget > 0))
        return fixed + each * size

    monkeypatch.setattr(_process_memory, "overhead", overhead)
    limit = (64 + 24) << 20
    found = lms.max_batch_size(
        dense, memory_limit=limit, check=lambda size, budget: True, planner_seconds=0.2
    )
    sizes = {with_lms: size for size, with_lms in measured}
    assert found.with_lms > found.without_lms > 0
    assert found.without_lms == pytest.approx(sizes[False], rel=0.05)
    assert found.own_without_lms_bytes == fixed + each * sizes[False]
    assert found.own_bytes == fixed + each * sizes[True]
    assert found.budget_bytes == limit - found.own_bytes
    assert found.with_lms <= sizes[True]
    assert found.report.peak_after_bytes <= found.budget_bytes


@pytest.mark.slow
def test_what_is_said_to_train_under_a_limit_does():
    """Planned for the pool of a process that is not there yet, piece by piece."""
    limit = _process_memory.overhead(dense) + (256 << 20)
    found = lms.max_batch_size(
        dense, memory_limit=limit, check=True, precision=0.05, planner_seconds=0.2
    )
    assert found.with_lms > found.without_lms > 0
    for key, size in (("without_lms", found.without_lms), ("with_lms", found.with_lms)):
        assert dict(found.checks[key])[size]
    assert found.report.peak_after_bytes <= found.budget_bytes


# ---- sizes that cannot be planned ------------------------------------------------------------


def broken_from(size, monkeypatch, how):
    """Planning that fails from a size on; `how` gives the report, or raises."""
    original = _size_trials.Sizes._planned

    def planned(self, at, budget):
        return original(self, at, budget) if at < size else how(original(self, at, budget))

    monkeypatch.setattr(_size_trials.Sizes, "_planned", planned)


def skipped(report):
    return dataclasses.replace(report, status="skipped", reason="too much for planning: 12 s")


def raises(report):
    raise ValueError("TensorFlow cannot read the graph of step")


@pytest.mark.parametrize("how", [pytest.param(skipped, marks=pytest.mark.slow), raises])
def test_a_size_that_cannot_be_planned_counts_as_too_large(how, monkeypatch):
    step = open_step([None, WIDTH])
    free = lms.max_batch_size(step, **QUICK)
    assert free.unplanned == () and "could not be planned" not in free.table() + str(free)
    # Between the two answers: the one without lms stays, that with lms ends below the failures.
    at = (free.without_lms + free.with_lms) // 2
    broken_from(at, monkeypatch, how)
    found = lms.max_batch_size(step, **QUICK)
    assert found.without_lms == free.without_lms
    assert at * 0.97 <= found.with_lms < at
    wrong = [trial for trial in found.trials["with_lms"] if not trial.planned]
    assert wrong and all(trial.size >= at and not trial.fits for trial in wrong)
    status, reason = ("skipped", "too much for planning: 12 s")
    if how is raises:
        status, reason = "failed", "ValueError: TensorFlow cannot read the graph of step"
    assert {(trial.status, trial.reason) for trial in wrong} == {(status, reason)}
    assert set(wrong) <= set(found.unplanned)
    said = f"with lms: could not be planned, and counted as too large: {wrong[0].size}"
    for text in (found.table(), str(found)):
        assert said in text and f"({status}: {reason})" in text


def test_failures_of_the_optimizer_itself():
    """In the planner only: what needs no plan is found all the same."""
    step = open_step([None, WIDTH])
    without = lms.max_batch_size(step, lms=False, **QUICK).without_lms
    _native.inject_failure("plan")
    found = lms.max_batch_size(step, **QUICK)
    assert found.without_lms == found.with_lms == without
    assert {trial.status for trial in found.unplanned} == {"failed"}
    assert found.report is not None and found.report.status == "fits"


def test_no_size_at_all_can_be_planned(monkeypatch):
    step = open_step([None, WIDTH])
    _native.inject_failure("import")
    with pytest.raises(ValueError, match=r"no size can be planned \(1, .*were tried\): .*import"):
        lms.max_batch_size(step, **QUICK)
    _native.inject_failure("")

    def make(size):
        raise OSError("the data are not there")

    with pytest.raises(ValueError, match=r"no size can be planned .*: OSError: the data are not"):
        lms.max_batch_size(make, **QUICK)

    def wrong(size):
        return size, size

    with pytest.raises(TypeError, match="nothing to plan"):
        lms.max_batch_size(wrong, **QUICK)


def test_what_is_tried_is_told(capfd):
    told = []
    options = {**QUICK, "lms": None}
    found = lms.max_batch_size(open_step([None, WIDTH]), progress=told.append, **options)
    assert told[0] == "tracing the step"
    tried = [trial.size for trial in found.trials["without_lms"]]
    wanted = {f"without lms: batch size {size}" for size in tried}
    assert wanted == {text for text in told if text.startswith("without lms")}
    assert f"with lms: batch size {found.with_lms}" in told
    assert found.seconds > 0 and f"searched in {found.seconds:.1f} s" in found.table()
    capfd.readouterr()
    lms.max_batch_size(open_step([None, WIDTH]), lms=False, **QUICK)
    assert "batch size" not in capfd.readouterr().err
    lms.max_batch_size(open_step([None, WIDTH]), lms=False, progress=True, **QUICK)
    assert "without lms: batch size 8" in capfd.readouterr().err


def test_every_size_is_planned_as_by_itself():
    """TensorFlow's passes run once; what follows them is what lms.plan gives, to the byte."""
    for device in (SMALL, None):
        step = open_step([None, WIDTH])
        options = {**QUICK, "device": device, "at_most": 2000}
        found = lms.max_batch_size(step, **options)
        for key, budget in (("without_lms", 1 << 50), ("with_lms", found.budget_bytes)):
            for trial in found.trials[key][::3]:
                alone = lms.plan(
                    step,
                    device=device,
                    memory_budget=budget,
                    unknown_dim=trial.size,
                    planner_seconds=QUICK["planner_seconds"],
                )
                if trial.status == alone.status:
                    assert trial.peak_bytes == alone.peak_after_bytes


def test_the_search_takes_few_plans_where_the_added_time_decides():
    """As of a large network: from 85 on it costs time, from 447 on more than a tenth."""

    def try_size(size):
        tried.append(size)
        added = 0.0 if size <= 85 else 0.03 + 0.07 * ((size - 85) / 363) ** 0.8
        noise = (size * 7919 % 13 - 6) * 1e-5
        fits = added + noise <= 0.1
        return Trial(size, fits, 0, 0, added + noise, "rewritten" if size > 85 else "fits")

    tried = []
    found, _ = Search(1, 65536, 1, 0.01, slowdown=0.1).largest(try_size, 10**9, 85)
    assert found == pytest.approx(448, rel=0.02)
    assert len(tried) <= 8, tried
    tried = []
    exact, _ = Search(1, 65536, 1, 0.0, slowdown=0.1).largest(try_size, 10**9, 85)
    assert try_size(exact).fits and not try_size(exact + 1).fits


def test_one_trial_tells_where_a_step_of_given_weights_fills_the_budget():
    """Weights are there at any size; the rest grows with it."""

    def try_size(size):
        tried.append(size)
        needed = 240 + 180 * size
        return Trial(size, needed <= 15_400, needed, needed, status="fits", fixed_bytes=240)

    tried: list[int] = []
    found, _ = Search(1, 65536, 1, 0.01).largest(try_size, 15_400, 0)
    assert found == 84
    assert tried == [8, 85, 84]


def test_added_time_that_is_nearly_what_is_allowed_ends_the_search():
    """From 98% of it on, but only where the rest would buy no larger size."""

    def slowed(added):
        def try_size(size):
            tried.append(size)
            now = added(size)
            return Trial(size, now <= 0.1, 0, 0, now, "rewritten" if size > 100 else "fits")

        tried: list[int] = []
        found, _ = Search(1, 65536, 1, 0.01, slowdown=0.1).largest(try_size, 10**9, 100)
        return found, tried

    def steep(size):
        return max(0.0, (size - 100) / 3000)

    found, tried = slowed(steep)
    assert 0.098 <= steep(found) <= 0.1 and len(tried) <= 4, (found, tried)

    def flat(size):
        return 0.0 if size <= 100 else 0.0985 + 0.0015 * (size - 100) / 900

    found, tried = slowed(flat)
    assert found == pytest.approx(1000, rel=0.02), tried
