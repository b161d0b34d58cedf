"""The command `lms`: plan, report, bench, doctor.

A package of its own beside `lms`, because importing lms loads TensorFlow and the native library
built for it: `lms --help` is to answer at once, and `lms doctor` has to work just where that
import fails. What needs lms imports it when it is run.

    lms ...                 the program that the package installs
    python -m lms ...       the same; where lms cannot be imported, this still works
"""

from lms_cli._main import main

__all__ = ["main"]
