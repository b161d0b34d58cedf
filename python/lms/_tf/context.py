"""Switching: for the process, for one thread, and afresh.

Relies on this: `Context.clear_kernel_cache()` drops functions that were optimised.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lms import _native
from lms._tf.calls import PATCHES
from lms._tf.entry import Entry
from lms._tf.keras import update_models, watch_keras
from lms._tf.patch import lock
from lms._tf.private import private_module, say_missing
from lms._tf.state import local, process_entry, set_process_entry

_context = private_module("tensorflow.python.eager.context")

_users = 0


def _count_user(change: int) -> None:
    global _users
    with lock:
        _users += change
        for patch in PATCHES:
            if _users > 0:
                patch.put()
            else:
                patch.take_away()


def set_entry(entry: Entry | None) -> None:
    """From now on every call and every new session carries `entry`; None: as without lms."""
    if entry is not None:
        say_missing()
    with lock:
        change = (entry is not None) - (process_entry() is not None)
        set_process_entry(entry)
        _count_user(change)
        watch_keras()
        update_models()


@contextlib.contextmanager
def override(entry: Entry | None) -> Iterator[None]:
    """The same for this thread alone, whatever is set for the process. Keras is left alone."""
    _count_user(+1)
    before = (local.overridden, local.entry)
    local.overridden, local.entry = True, entry
    try:
        yield
    finally:
        local.overridden, local.entry = before
        _count_user(-1)


def forget_optimized_functions() -> None:
    """Drops what the runtime keeps of functions that ran: the next call optimises afresh."""
    _context.context().clear_kernel_cache()
    _native.forget_earlier_plans()


watch_keras()
