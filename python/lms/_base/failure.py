"""What goes wrong in lms must not go wrong in a user's call; and failures on purpose, for tests.

What lms does around a call of TensorFlow's stands in `with shielded(place)`: an error in it is
logged once for each place, and the call goes on without what lms would have done. Only what the
user asked for and cannot have (`OptionError`) is raised.
"""

from __future__ import annotations

import logging
from types import TracebackType

from lms._base.errors import OptionError

_log = logging.getLogger("lms")

# Where a failure can be injected: around calls of functions, sessions, Keras and datasets.
PLACES = (
    "entry",
    "swap link",
    "hints",
    "sizes",
    "variable names",
    "size check",
    "workers",
    "feedback",
    "feedback begin",
    "feedback end",
    "feedback judge",
    "out of memory",
    "session",
    "jit warning",
    "keras compile",
    "keras jit",
    "keras data",
    "keras spec",
    "iterator",
    "keras callback",
)

_injected: dict[str, type[BaseException]] = {}
_logged: set[str] = set()


class shielded:
    """Encloses what lms does at a place. `failed` says, after it, whether that went wrong."""

    def __init__(self, place: str):
        self._place = place
        self.failed = False

    def __enter__(self) -> shielded:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None:
            return False
        self.failed = True
        if isinstance(error, OptionError) or not isinstance(error, Exception):
            return False
        if self._place not in _logged:
            _logged.add(self._place)
            _log.warning(
                "%s: %s: %s (the call goes on without it; said once)",
                self._place,
                type(error).__name__,
                error,
            )
        return True


def fail_if_injected(place: str) -> None:
    """Raises what a test has injected into the place."""
    if _injected and place in _injected:
        raise _injected[place](f"failure injected into {place}")


def inject(place: str, kind: type[BaseException] = RuntimeError) -> None:
    """Has the place raise from now on; "" for none at all."""
    _injected.clear()
    _logged.clear()
    if place:
        if place not in PLACES:
            raise ValueError(f"there is no place {place!r}")
        _injected[place] = kind
