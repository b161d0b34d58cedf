"""Which entry is in force: one for the process, or one for a thread, which goes first."""

from __future__ import annotations

import threading

from lms._tf.entry import Entry


class _Local(threading.local):
    overridden = False
    entry: Entry | None = None


local = _Local()
_process_entry: Entry | None = None


def process_entry() -> Entry | None:
    return _process_entry


def set_process_entry(entry: Entry | None) -> None:
    global _process_entry
    _process_entry = entry


def active() -> Entry | None:
    """The entry for this thread."""
    return local.entry if local.overridden else _process_entry
