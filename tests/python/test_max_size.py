"""lms.max_batch_size and lms.max_size: answers that plans, and runs, confirm on both sides."""

from __future__ import annotations

import lms
import pytest
import tensorflow as tf
from lms import _process_memory
from lms._max_size import Trial, _Search
from planning_steps import dense

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
    search = _Search(multiple, most, multiple, 0.02)
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
        found, _ = _Search(1, 1000, 1, 0.0).largest(try_size, 10**9, 0)
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


def test_a_check_of_ones_own():
    seen = []

    def check(size, budget):
        seen.append((size, budget > 0))
        return size <= 300

    found = lms.max_batch_size(open_step([None, WIDTH]), check=check, lms=False, **QUICK)
    size = found.without_lms
    assert seen == [(size, False), (found.checks["without_lms"][1][0], False)]
    assert found.checks["without_lms"][0] == (size, size <= 300)


def test_bad_input():
    step = open_step([None, WIDTH])
    with pytest.raises(ValueError, match="nothing can vary"):
        lms.max_batch_size(open_step([8, WIDTH]), **QUICK)
    with pytest.raises(TypeError, match="give memory_limit"):
        lms.max_batch_size(step, memory_budget="1GiB")
    with pytest.raises(ValueError, match="expected bytes or a text such as '2GiB'"):
        lms.max_batch_size(step, memory_limit="2 gigs", device=SMALL)
    with pytest.raises(ValueError, match="at_least=0"):
        lms.max_size(step, at_least=0)
    with pytest.raises(ValueError, match="max_slowdown=-1"):
        lms.max_size(step, max_slowdown=-1, device=SMALL)
    with pytest.raises(ValueError, match="check=True needs this machine"):
        lms.max_batch_size(step, check=True, lms=False, **QUICK)
    with pytest.raises(ValueError, match="unknown device"):
        lms.max_batch_size(step, device="abacus")


def test_a_limit_on_the_process_is_kept_by_real_runs():
    own, fill = _process_memory.overhead(dense, 4)
    assert 100 << 20 < own < 3 << 30 and 0 < fill < 1
    limit = own + (160 << 20)
    assert _process_memory.runs(dense, 4, limit, 0, own)["ok"]
    # Ten buffers and more of 16384 x 256 floats, 16 MiB each, are more than 160 MiB.
    assert not _process_memory.runs(dense, 16384, limit, 0, own)["ok"]
