"""What a step may take of a limit: on this machine, what the process leaves it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from lms._base.format import format_bytes, parse_bytes
from lms._planning import process_memory as _process_memory
from lms._settings import devices as _devices

_log = logging.getLogger("lms")


class Share:
    """What a step may take of `memory_limit` on a device; None: what the device has.

    memory_limit: in bytes, or 0. budget: bytes for the step, weights and arguments included.
    limit: of a CPU, that on the whole process; own: what the process takes of it beside the step's
    tensors; both 0 elsewhere.

    Raises ValueError where nothing is left for a step.
    """

    def __init__(
        self,
        step: Any,
        memory_limit: str | int | None,
        device: _devices.Device,
        what: str,
        tell: Callable[[str], None],
    ):
        self._step, self._what, self._tell = step, what, tell
        limit = None if memory_limit is None else parse_bytes(memory_limit, "memory_limit")
        self.budget = limit if limit is not None else device.budget_bytes
        self.memory_limit = limit or 0
        self.limit, self.own = 0, 0
        if limit is None or device.kind != "CPU":
            return
        tell("measuring what a process takes by itself")
        own = _process_memory.overhead(step)
        if limit <= own:
            raise ValueError(
                f"memory_limit={memory_limit!r} leaves nothing for a step: the process takes "
                f"{format_bytes(own)} of it by itself"
            )
        self.limit = limit
        self._take(own)

    def _take(self, own: int) -> None:
        self.own = own
        self.budget = self.limit - own

    def measure_at(self, size: int, budget: int = 0) -> bool:
        """Measures what the process takes at a size, with lms where the budget is above 0; whether
        less is left for a step than was thought. What cannot be measured changes nothing."""
        if not self.limit or not _process_memory.can_be_found(self._step):
            return False
        self._tell(f"measuring what a process takes by itself at {self._what} {size}")
        try:
            own = _process_memory.overhead(self._step, size, self.limit, budget)
        except RuntimeError as error:
            _log.info("what the process takes at %d is not known, but at less: %s", size, error)
            return False
        if not self.own < own < self.limit:
            return False
        self._take(own)
        return True
