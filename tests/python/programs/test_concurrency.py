"""Many threads at once: nothing is lost, nothing waits for ever, every bit is right.

Each test runs in a process of its own, so that a deadlock is a test that fails, not one that
never ends.
"""

import subprocess
import textwrap

import pytest
from forked import run_forked

THREADS = 6


def run(code: str) -> str:
    """The output of `code`, which must end well, and within a minute or two."""
    preamble = f"""
        import sys, threading
        import tensorflow as tf
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        import lms
        from lms import _native
        from lms._control import switch as _switch
        from helpers import make_step, reports_on
        THREADS = {THREADS}

        def in_threads(*works):
            errors = []
            start = threading.Barrier(len(works))
            def run(work):
                try:
                    start.wait()
                    work()
                except BaseException as error:
                    errors.append(error)
            threads = [threading.Thread(target=run, args=(work,)) for work in works]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if errors:
                raise errors[0]

        def bits(step, weights, calls):
            losses = [step().numpy().tobytes() for _ in range(calls)]
            return losses + [weight.numpy().tobytes() for weight in weights]
    """
    try:
        status, output = run_forked(textwrap.dedent(preamble) + textwrap.dedent(code))
    except subprocess.TimeoutExpired:
        pytest.fail("the threads wait for each other")
    assert status == 0, output
    return output


@pytest.mark.slow
def test_functions_that_are_optimised_at_once_have_the_right_bits_and_a_report_each():
    run("""
        expected = [bits(*make_step(layers=n + 3), 3) for n in range(THREADS)]
        steps = [make_step(layers=n + 3) for n in range(THREADS)]
        got = [None] * THREADS
        def train(n):
            got[n] = bits(*steps[n], 3)
        lms.enable("60%", planner_seconds=0.05)
        in_threads(*[lambda n=n: train(n) for n in range(THREADS)])
        assert got == expected
        for step, _ in steps:
            assert [report.status for report in reports_on(step)] == ["rewritten"], lms.reports()
    """)


@pytest.mark.slow
def test_switching_reports_and_counting_meanwhile():
    run("""
        expected = [bits(*make_step(layers=n + 3), 4) for n in range(THREADS)]
        steps = [make_step(layers=n + 3) for n in range(THREADS)]
        got = [None] * THREADS
        stop = threading.Event()
        def train(n):
            got[n] = bits(*steps[n], 4)
        def trains():
            try:
                in_threads(*[lambda n=n: train(n) for n in range(THREADS)])
            finally:
                stop.set()
        def until_done(*actions):
            def loop():
                while not stop.is_set():
                    for action in actions:
                        action()
                        stop.wait(0.001)
            return loop
        def block():
            with lms.enabled("min", planner_seconds=0.02):
                stop.wait(0.02)
        def look():
            for report in lms.reports():
                str(report)
            lms.report()
        in_threads(
            trains,
            until_done(lambda: lms.enable("50%", planner_seconds=0.02), look, lms.disable),
            until_done(block),
            until_done(block, lms.clear_reports),
            until_done(lms.memory.reset_peak, lms.memory.peak_bytes, lms.memory.bytes_in_use),
            until_done(lms.swap_statistics, lambda: lms.enable("min", swap_to="disk"), look),
        )
        assert got == expected
    """)


@pytest.mark.slow
def test_failures_come_and_go():
    run("""
        expected = [bits(*make_step(layers=n + 3), 3) for n in range(THREADS)]
        steps = [make_step(layers=n + 3) for n in range(THREADS)]
        got = [None] * THREADS
        stop = threading.Event()
        def train(n):
            got[n] = bits(*steps[n], 3)
        def trains():
            try:
                in_threads(*[lambda n=n: train(n) for n in range(THREADS)])
            finally:
                stop.set()
        def fail():
            while not stop.is_set():
                for stage in ("sums", "plan", "", "verify", "import", ""):
                    _native.inject_failure(stage)
                    stop.wait(0.002)
            _native.inject_failure("")
        lms.enable("60%", planner_seconds=0.02)
        in_threads(trains, fail)
        assert got == expected
        for step, _ in steps:
            assert len(reports_on(step)) == 1
            assert reports_on(step)[0].status in ("rewritten", "failed")
    """)


def test_blocks_of_two_threads_that_overlap_leave_lms_off():
    # The first block ends first: what it found must not be what the second one leaves.
    run("""
        first_open, second_open, first_closed = (threading.Event() for _ in range(3))
        seen = []
        def first():
            with lms.enabled("60%"):
                first_open.set()
                assert second_open.wait(60)
            seen.append(_switch.current()["memory_budget"])
            first_closed.set()
        def second():
            assert first_open.wait(60)
            with lms.enabled("50%"):
                second_open.set()
                assert first_closed.wait(60)
        in_threads(first, second)
        assert seen == ["50%"]
        assert _switch.current() is None
    """)


def test_looking_for_variables_holds_no_tuple_that_another_thread_is_making():
    run("""
        from lms._tf.variables import names_by_handle
        variable = tf.Variable([1.0], name="mine")
        sys.setswitchinterval(1e-5)
        stop = threading.Event()
        def make_tuples():
            while not stop.is_set():
                assert tuple(n for n in range(37)) == tuple(range(37))
        def look():
            try:
                for _ in range(10):
                    assert names_by_handle([("handle", variable.handle)]) == {"handle": "mine"}
            finally:
                stop.set()
        in_threads(make_tuples, look)
    """)
