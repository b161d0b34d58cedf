"""What is added to TensorFlow's error where a step, or a session's, runs out of memory."""

from __future__ import annotations

import tensorflow as tf

from lms._learnt import out_of_memory as _out_of_memory
from lms._tf.patch import warn


def add_note(error: tf.errors.ResourceExhaustedError, function: str, again: str = "") -> None:
    """Adds what explained() says of the function; before Python 3.11, which has no notes on errors,
    it is a warning."""
    text = _out_of_memory.explained(error.message, function, again)
    if text and hasattr(error, "add_note"):
        error.add_note(text)
    elif text:
        warn(text)
