"""How lms changes what TensorFlow and Keras do: an attribute of a class is wrapped while needed.

Only the files of this folder touch private names of TensorFlow and Keras, the same in TensorFlow
2.16 to 2.21 and Keras 3.0 to 3.15; each says what it relies on. No state of TensorFlow's is
written, so taking the wrappers away restores everything. A wrapper is in place only while somebody
needs it. Exceptions: Keras' `compile` and `_resolve_auto_jit_compile` are wrapped from the import
of lms on, so that a model compiled before enable() is known to have said "auto", and what makes
iterators and Keras' datasets, so that those made before are known; what makes sessions from the
first configure() on, as its config may be used whenever; while lms is off, they change nothing.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from lms._tf.private import MissingNameError, say

log = logging.getLogger("lms")
lock = threading.RLock()  # of what all threads share in the files of this folder


class Patch:
    """One attribute of a class that is replaced while it has users.

    owner: the class, or a module of private.py, where the class is named in `of`. Where such a
    name is gone, nothing is replaced, and that is said.
    """

    def __init__(self, owner: Any, name: str, wrap: Callable[[Any], Any], of: str = ""):
        self._given, self._name, self._wrap, self._of = owner, name, wrap, of
        self._kept = False
        self._users = 0
        self._owner: Any = None
        self._original: Any = None
        self._replacement: Any = None

    def put(self) -> None:
        if self._replacement is not None:
            return
        try:
            owner = self._given.of(self._of, self._name) if self._of else self._given
        except MissingNameError as error:
            say(error)
            return
        self._owner, self._original = owner, owner.__dict__[self._name]
        self._replacement = self._wrap(self._original)
        setattr(owner, self._name, self._replacement)

    def keep(self) -> None:
        """From now on, whether or not it has users that can be counted."""
        self._kept = True
        self.put()

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """In place while anybody, in any thread, is within."""
        with lock:
            self._users += 1
            self.put()
        try:
            yield
        finally:
            with lock:
                self._users -= 1
                if self._users == 0:
                    self.take_away()

    def take_away(self) -> None:
        if self._kept or self._replacement is None:
            return
        # Where somebody has wrapped ours since, it stays: it passes everything through.
        if self._owner.__dict__[self._name] is self._replacement:
            setattr(self._owner, self._name, self._original)
            self._original = self._replacement = None


def warn(text: str) -> None:
    log.warning(text)
    warnings.warn(f"lms: {text}", stacklevel=3)
