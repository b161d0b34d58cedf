"""Figures and tables as text."""

from __future__ import annotations

import io
import numbers
import os
import sys
from collections.abc import Iterable
from typing import Any

from lms import _native


def format_bytes(count: float) -> str:
    """`count` with a binary unit: 1536 -> "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


def format_peak(highest: int, usual: int) -> str:
    """A predicted peak, with what is usual where that is lower: "14.1 MiB (usually 9.9 MiB)"."""
    text = format_bytes(highest)
    return text if usual > 0.98 * highest else f"{text} (usually {format_bytes(usual)})"


def parse_bytes(value: Any, name: str) -> int:
    """A number of bytes from what a user gives: 6442450944, 6e9, "6GiB", "500 MB".

    name: of the argument, for messages. Raises TypeError where it is neither a number nor text,
    ValueError where it is no whole number of bytes above 0 that fits into 63 bits.
    """
    expected = 'expected a number of bytes, or a text such as "2GiB"'
    count: int | None
    if isinstance(value, str):
        count = _native.parse_bytes(value)
    elif isinstance(value, numbers.Integral) and not isinstance(value, bool):
        count = int(value)
    elif isinstance(value, numbers.Real) and not isinstance(value, bool):
        count = int(float(value)) if float(value).is_integer() else None
    else:
        raise TypeError(f"{name}={value!r}: {expected}")
    if count is None or not 0 < count < 2**63:
        raise ValueError(f"{name}={value!r}: {expected}")
    return count


def counted(count: int, noun: str, plural: str = "") -> str:
    """`count` and the noun: 1 tensor, 2 tensors; `plural` where that is no mere "s"."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def write_text(path: str | os.PathLike[str] | None, text: str) -> str:
    """`text`, which is also written to `path` if one is given."""
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text


def render(parts: Iterable[Any]) -> str:
    """Rich's tables as plain text of at most 100 columns, such as stdout can print it."""
    from rich import console

    text = io.StringIO()
    # In a notebook, Rich would show the tables there and then, and leave the text empty.
    out = console.Console(
        file=text, width=100, color_system=None, markup=False, force_jupyter=False
    )
    for part in parts:
        out.print(part)
    return printable("\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n")


def printable(text: str) -> str:
    """`text` without what stdout's encoding lacks: with LC_ALL=C or a Latin locale, the lines of
    tables. To print it would raise UnicodeEncodeError, in the middle of somebody's training."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        for character, plain in (
            ("\u2500", "-"),
            ("\u2502", "|"),
            ("\u2026", "..."),
            ("\u2013", "-"),
        ):
            text = text.replace(character, plain)
        text = text.encode(encoding, "replace").decode(encoding)
    except LookupError:
        pass  # an encoding of somebody's own: what it has, nobody knows
    return text


def show(parts: Iterable[Any]) -> None:
    """Prints Rich's tables: with a terminal's colours and width, in a notebook as Rich shows them
    there, elsewhere as render() has them."""
    from rich import console

    out = console.Console(markup=False, highlight=False)
    parts = list(parts)
    if not (out.is_terminal or out.is_jupyter):
        print(render(parts), end="")
        return
    for part in parts:
        out.print(part)
