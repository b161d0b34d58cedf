"""lms is switched for all threads, those that exist already included."""

import queue
import threading

import lms
import tensorflow as tf
from helpers import lms_nodes, make_step, reports_on
from lms import _options, _tf_context, _tf_entry
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
    entry = _tf_entry.Entry(_options.as_entry({"memory_budget": "min"}))
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
    steps = [make_step(layers=3, batch=64)[0] for _ in range(3)]
    workers = [Worker() for _ in steps]
    expected = [make_step(layers=3, batch=64)[0]().numpy()] * 3
    stop = threading.Event()
    losses = [[] for _ in steps]

    def train(step, values):
        while not stop.is_set() and len(values) < 10_000:
            values.append(step().numpy())

    threads = [threading.Thread(target=train, args=arguments) for arguments in zip(steps, losses)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        lms.enable("min")
        lms.enable("50%")
        with lms.enabled("60%"):
            tf.constant(0)
        lms.disable()
    stop.set()
    for thread in threads:
        thread.join()
    for worker in workers:
        worker.close()
    assert [values[0] for values in losses] == expected
    # The three ran the same program: as far as all got, the losses agree.
    shortest = min(len(values) for values in losses)
    assert losses[0][:shortest] == losses[1][:shortest] == losses[2][:shortest]
