"""One finding of `lms doctor`."""

from __future__ import annotations

import dataclasses

OK, WARNING, PROBLEM = "ok", "warning", "problem"


@dataclasses.dataclass(frozen=True)
class Check:
    """status: "ok", "warning" (works, but look) or "problem" (does not work). `fix`: what to do."""

    group: str
    name: str
    status: str
    text: str
    fix: str = ""
