"""Where a command's words go: results to stdout, all else to stderr."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Callable


class Output:
    """The result of one command.

    With `json` the result is one JSON object on stdout, and nothing else comes there: what
    TensorFlow, Python code of the user's, or a child process prints meanwhile goes to stderr.
    """

    def __init__(self, json: bool):
        self.json = json

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """While it is open and `json` is set, stdout is stderr for everybody but `result`."""
        if not self.json:
            yield
            return
        sys.stdout.flush()
        real = os.dup(1)
        os.dup2(2, 1)
        text: list[str] = []
        self._keep = text.append
        try:
            # Python's stdout need not be the descriptor's: in a notebook it is not.
            with contextlib.redirect_stdout(sys.stderr):
                yield
        finally:
            os.dup2(real, 1)
            os.close(real)
            for line in text:
                print(line, flush=True)

    def result(self, data: Mapping[str, Any], show: Callable[[], None]) -> None:
        """`data` as JSON, or what `show` prints."""
        if self.json:
            self._keep(json.dumps(data, indent=1, default=str))
        else:
            show()

    def print(self, *parts: Any) -> None:
        """Tables and texts for people: as wide as a terminal is, in colours; piped, plain."""
        from rich.console import Console

        if sys.stdout.isatty():
            for part in parts:
                Console(markup=False, highlight=False).print(part)
            return
        text = io.StringIO()
        console = Console(file=text, width=100, color_system=None, markup=False)
        for part in parts:
            console.print(part)
        for line in text.getvalue().splitlines():
            print(line.rstrip())

    def say(self, text: str) -> None:
        """A remark, on stderr."""
        print(text, file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def progress(self, text: str, total: float | None = None) -> Iterator[Callable[..., None]]:
        """A bar on stderr where that is a terminal.

        Yields a function of (advance=0, text=None, total=None) that moves it on.
        """
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        parts = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(
            *parts, console=console, transient=True, disable=not console.is_terminal
        ) as bar:
            task = bar.add_task(text, total=total)

            def move(advance: float = 0, text: str | None = None) -> None:
                bar.update(task, advance=advance, description=text)

            yield move
