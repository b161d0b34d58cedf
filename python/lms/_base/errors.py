"""The exceptions of the package."""

from __future__ import annotations


class OptionError(ValueError):
    """One or more options are wrong; `problems` has a sentence for each."""

    def __init__(self, problems: list[str]):
        self.problems = tuple(problems)
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"lms: {count} with the options:\n  " + "\n  ".join(problems))
