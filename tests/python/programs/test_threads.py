"""lms is switched for all threads, those that exist already included."""

import queue
import sys
import threading
import time
import weakref

import lms
import pytest
from helpers import lms_nodes, make_step, reports_on
from lms._control import switch as _switch
from lms._tf import calls as _tf_calls
from lms._tf import context as _tf_context
from lms._tf import entry as _tf_entry
from lms._tf import keras as _tf_keras
from lms._tf import patch as _tf_patch
from lms._tf import state as _tf_state
from patience import HANGS


class Worker:
    """A thread that runs what it is given, one after the other."""

    def __init__(self):
        self._work, self._done = queue.Queue(), queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        for function in iter(self._work.get, None):
            try:
                self._done.put((function(), None))
            except Exception as error:
                self._done.put((None, error))

    def __call__(self, function):
        self._work.put(function)
        value, error = self._done.get(timeout=HANGS)
        if error is not None:
            raise error
        return value

    def close(self):
        self._work.put(None)
        self._thread.join()


def test_a_thread_that_ran_functions_before_is_reached_and_let_go():
    worker = Worker()
    step, _ = make_step()
    worker(step)  # its call options are kept for this thread from now on
    assert reports_on(step) == []
    lms.enable("min")
    assert worker(lambda: lms_nodes(step)) != []
    lms.disable()
    assert worker(lambda: lms_nodes(step)) == []
    worker.close()


def test_an_override_is_for_its_own_thread():
    worker = Worker()
    (here, _), (there, _) = make_step(), make_step()
    entry = _tf_entry.Entry(_tf_entry.as_entry({"memory_budget": "min"}))
    with _tf_context.override(entry):
        worker(there)
        here()
    assert reports_on(here) != [] and reports_on(there) == []
    lms.enable("min")
    with _tf_context.override(None):
        worker(there)
        assert lms_nodes(here) == []
    assert reports_on(there) != []
    worker.close()


def test_switching_while_other_threads_train():
    """All of them train under each of the options, and compute what stock TensorFlow does."""
    count = 3
    steps = [make_step(layers=3, batch=64)[0] for _ in range(count)]
    losses = [[] for _ in steps]
    stop = threading.Event()

    def train(step, values):
        while not stop.is_set() and len(values) < 10_000:
            values.append(step().numpy())

    def train_on():
        """Until each thread has begun and ended a step: the second one from here."""
        wanted = [len(values) + 2 for values in losses]
        end = time.monotonic() + HANGS
        while any(len(values) < least for values, least in zip(losses, wanted)):
            assert time.monotonic() < end and all(thread.is_alive() for thread in threads)
            time.sleep(0.001)

    threads = [threading.Thread(target=train, args=arguments) for arguments in zip(steps, losses)]
    for thread in threads:
        thread.start()
    try:
        train_on()
        for _ in range(2):
            lms.enable("min")
            train_on()
            lms.enable("50%")
            train_on()
            with lms.enabled("60%"):
                train_on()
            lms.disable()
            train_on()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for step in steps:
        assert {report.budget for report in reports_on(step)} == {"min", "50%", "60%"}
    stock = make_step(layers=3, batch=64)[0]
    expected = [stock().numpy() for _ in range(max(map(len, losses)))]
    assert losses == [expected[: len(values)] for values in losses]


def switch_before(number, function, switch):
    """What a function returns where another thread switches before its instruction `number`; the
    other value says whether it has so many."""
    seen = 0

    def trace(frame, event, argument):
        nonlocal seen
        if frame.f_code is not function.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            if seen == number:
                switch()
            seen += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return function(), seen > number
    finally:
        sys.settrace(before)


def test_the_options_are_those_before_or_after_a_switch():
    number, left = 0, True
    while left:
        lms.enable("60%")
        found, left = switch_before(number, _switch.current, lms.disable)
        assert found in ({"memory_budget": "60%"}, None)
        number += 1
    assert number > 3


@pytest.mark.parametrize("before", ["60%", None])
def test_a_call_has_one_entry_from_its_beginning_to_its_end(before, monkeypatch):
    """Another thread switches when the call has asked for the entry, and is not made yet."""
    step, _ = make_step()
    step.get_concrete_function()  # there is no other call then
    if before:
        lms.enable(before)

    def switching():
        entry = _tf_state.active()
        monkeypatch.setattr(_tf_calls, "active", _tf_state.active)
        lms.enable("50%")
        return entry

    _tf_context._count_user(+1)  # the wrappers are there, as where a thread has an override
    try:
        monkeypatch.setattr(_tf_calls, "active", switching)
        step()
    finally:
        _tf_context._count_user(-1)
    assert {report.budget for report in reports_on(step)} == ({before} if before else set())
    step()
    assert reports_on(step)[-1].budget == "50%"


class Guarded(weakref.WeakKeyDictionary):
    """A dictionary that is only changed by who has the lock."""

    def __setitem__(self, key, value):
        assert _tf_patch.lock._is_owned()
        super().__setitem__(key, value)

    def pop(self, key, *default):
        assert _tf_patch.lock._is_owned()
        return super().pop(key, *default)


def test_models_are_noted_under_the_lock_that_switching_has(monkeypatch, caplog):
    import keras

    models = Guarded()
    monkeypatch.setattr(_tf_keras, "_auto_models", models)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    assert list(models) == [model]
    model.compile("sgd", "mse", jit_compile=False)
    assert list(models) == []
    assert caplog.text == ""  # errors are logged there
