"""What is shown as tables: in a terminal, in a notebook, as plain text."""

from __future__ import annotations

import abc
from typing import Any

from lms._base.format import render, show


class Tables(abc.ABC):
    """A result that people look at as Rich's tables, one below the other."""

    @abc.abstractmethod
    def _tables(self) -> list[Any]:
        """The tables, made when they are wanted."""

    def __str__(self) -> str:
        return self.table()

    def __rich__(self) -> Any:
        from rich import console

        return console.Group(*self._tables())

    def table(self) -> str:
        """All of it as plain text tables of at most 100 columns."""
        return render(self._tables())

    def show(self) -> None:
        """Prints the tables: in a terminal with its colours and width, plain where it is piped."""
        show(self._tables())
