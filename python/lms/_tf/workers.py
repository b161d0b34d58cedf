"""Whether the workers of a cluster have the same options: asked once, at the first common step.

Workers may have different ones: no plan changes the order of collective operations, so none of them
waits for ever (docs/distributed.md). But who set a budget on one worker alone as a rule meant all.
Nobody waits for an answer here:

- Each worker writes down what it has before its first step with collective operations. The worker
  that is first also writes that it is; the others find that, and compare.
- When the first one begins its second such step, all have begun the first, as it ended. It reads
  what they have written. Who has written nothing has lms off.

Relies on this:

- MultiWorkerMirroredStrategy starts TensorFlow's coordination service: its store of keys and values
  is the same for all workers. `set_config_key_value` fails where the key is there already, and
  `get_config_key_value` returns at once then.
- `Context.coordination_service` has the jobs of the cluster and how many tasks each has,
  `Context.host_address_space()` is which of these tasks this process is.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

import tensorflow as tf

from lms._base.failure import fail_if_injected, shielded
from lms._base.format import counted
from lms._tf.arguments import contents
from lms._tf.patch import warn
from lms._tf.private import private_module

_context = private_module("tensorflow.python.eager.context")
_MOST_NAMED = 4  # workers, in one message
_UNKNOWN = "lms off"

# Of each set of options that a process compares: workers that run one program count alike.
_rounds = itertools.count()
_lock = threading.Lock()


class Workers:
    """What one set of options is compared with. `called`: before every call of a function."""

    def __init__(self, facts: str):
        """`facts`: what is to be the same on all workers, in words."""
        self._facts = facts
        self._round = -1
        self._done = not facts
        self._first = False  # of all workers

    def called(self, context: Any, name: bytes) -> None:
        if self._done:
            return
        with shielded("workers") as shield:
            fail_if_injected("workers")
            # A program may make its strategy after other calls.
            if context.coordination_service is None or not contents(context, name).collectives:
                return
            _refuse_without_names()
            with _lock:
                if not self._done:
                    self._step(context)
        if shield.failed:
            self._done = True

    def _step(self, context: Any) -> None:
        jobs = context.coordination_service.coordinated_job_list
        tasks = [(job.name, number) for job in jobs for number in range(job.num_tasks)]
        if len(tasks) < 2:
            self._done = True
            return
        host = tf.DeviceSpec.from_string(context.host_address_space())
        own = (host.job, host.task)
        if self._first:
            self._done = True
            others = {task: self._read(context, task) for task in tasks if task != own}
            self._say({task: facts for task, facts in others.items() if facts != self._facts})
        elif self._write(context, own):
            self._first = True
        else:
            self._done = True
            first = _task(context.get_config_key_value(self._key("first")))
            facts = context.get_config_key_value(self._key(_words(first)))
            if first != own and facts != self._facts:  # its own: it has been started again
                self._say({first: facts})

    def _key(self, what: str) -> str:
        return f"lms/{self._round}/{what}"

    def _write(self, context: Any, own: tuple[str, int]) -> bool:
        """Whether this worker is the first one."""
        if self._round < 0:
            self._round = next(_rounds)
        key = self._key(_words(own))
        if not _put(context, key, self._facts):  # by the process that this one has taken over from
            context.delete_config_key_value(key)
            _put(context, key, self._facts)
        return _put(context, self._key("first"), _words(own))

    def _read(self, context: Any, task: tuple[str, int]) -> str:
        key = self._key(_words(task))
        if _put(context, key, _UNKNOWN):
            return _UNKNOWN
        return str(context.get_config_key_value(key))

    def _say(self, different: dict[tuple[str, int], str]) -> None:
        if not different:
            return
        named = [f"{_words(task)} has {facts}" for task, facts in different.items()]
        if len(named) > _MOST_NAMED:
            more = counted(len(named) - _MOST_NAMED, "more worker")
            named = [*named[:_MOST_NAMED], f"{more} have other options as well"]
        warn(
            f"workers have different options. This one has {self._facts}; {'; '.join(named)}. "
            "Each keeps to its own budget, results stay the same, and all wait for the slowest. "
            "Call lms.enable with the same options on every worker if that is not meant."
        )


def _refuse_without_names() -> None:
    """Raises MissingNameError where TensorFlow no longer has what is asked here."""
    _context.of("Context", "coordination_service")
    _context.of("Context", "host_address_space")
    _context.of("Context", "set_config_key_value")
    _context.of("Context", "get_config_key_value")
    _context.of("Context", "delete_config_key_value")


def _words(task: tuple[str, int]) -> str:
    return f"{task[0]} {task[1]}"


def _task(words: str) -> tuple[str, int]:
    job, _, number = words.rpartition(" ")
    return job, int(number)


def _put(context: Any, key: str, value: str) -> bool:
    """Writes the value; False where the key has one already."""
    try:
        context.set_config_key_value(key, value)
    except tf.errors.AlreadyExistsError:
        return False
    return True
