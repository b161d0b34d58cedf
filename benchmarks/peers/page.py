"""docs/peers.md, made from the kept rows alone. No TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from _pages import machines, table
from published.verdict import AHEAD, BEHIND, LEVEL, NOT_MEASURED, counted

from peers.table import MODELS, WAYS, judge

Row = Mapping[str, Any]
Rows = Mapping[tuple[str, str], Row]
NONE = "\u2013"
VERDICTS = (AHEAD, LEVEL, BEHIND, NOT_MEASURED)

INTRO = """# Beside what you could use instead

Other ways to train in less memory, and lms at the same memory. `./run bench peers` measures what is
missing and writes this page. Its figures are in `benchmarks/results` (the newest `peers.json`),
each with its command.

**How it is measured.** A way and its own stock take turns in one process, with the threads that
the library takes by itself: what TensorFlow, Keras and XLA offer with stock TensorFlow, PyTorch's
ways with PyTorch (for `torch.compile`: compiled with all activations kept). The peak is that of the
allocator, above what it held before the step, the highest of all steps, as a share of stock's. Time
is CPU time: the median of the ratios, with their range. lms is asked for the way's share or less;
beside TensorFlow's own ways it runs in the same turns. Bits are equal where the loss and all
variables after a step are stock's, in a process with one thread of each kind.

**How it is judged.** A row is *ahead* where lms takes no more memory (to half a point) and adds
half of the way's time or less; *level* where it adds no more; else *behind*. Where a way saves less
than 2%, lms has nothing to do to be ahead.
"""


def text(rows: Rows, picture: str = "") -> str:
    """`picture`: its path, from the page."""
    judged = {name: {way: judge(rows.get((name, way), {})) for way in WAYS} for name in MODELS}
    lines = [INTRO, *counts(judged), "", "Measured on:", ""]
    lines += [f"- {line}" for line in machines(rows.values(), ("peer",))]
    versions = {row["peer"]["torch"] for row in rows.values() if "torch" in row.get("peer", {})}
    lines += [f"- PyTorch {version}" for version in sorted(versions)]
    if picture:
        lines += ["", f"![Memory and time of each way]({picture})"]
    for name, title in MODELS.items():
        lines += ["", f"## {title}", ""]
        lines += table(COLUMNS, (cells(rows, name, way, judged[name][way][0]) for way in WAYS))
        lines += reasons(judged[name])
    return "\n".join(lines).rstrip() + "\n"


COLUMNS = ("way", "its stock", "its peak", "its CPU time", "its bits", "lms: peak", "lms: CPU time")
COLUMNS = (*COLUMNS, "lms: bits", "lms is")


def cells(rows: Rows, name: str, way: str, verdict: str) -> list[str]:
    row = rows.get((name, way), {})
    peer, ours = row.get("peer"), row.get("lms")
    if not peer:
        return [WAYS[way], *[NONE] * 7, verdict]
    found = [WAYS[way], f"{peer['stock_peak'] / 1e6:.0f} MB", *figures(peer)]
    found.append(bits(row, "peer"))
    return [*found, *([*figures(ours), bits(row, "lms")] if ours else [NONE] * 3), verdict]


def figures(point: Row) -> list[str]:
    times = [1 + point[key] for key in ("added", "added_least", "added_most")]
    return [f"{1 - point['cut']:.1%}", "{:.2f} ({:.2f} to {:.2f})".format(*times)]


def bits(row: Row, of: str) -> str:
    other = row["bits"].get(of)
    return NONE if other is None else "other" if other else "equal"


def counts(judged: Mapping[str, Mapping[str, tuple[str, str]]]) -> list[str]:
    lines: list[list[Any]] = []
    every: list[str] = []
    for name, found in judged.items():
        words = [word for word, _ in found.values()]
        every += words
        lines.append([MODELS[name], len(words), *numbers(words)])
    lines.append(["**all**", len(every), *numbers(every)])
    return table(("model", "ways", *VERDICTS), lines)


def numbers(words: Iterable[str]) -> list[int]:
    found = counted(list(words))
    return [found.get(word, 0) for word in VERDICTS]


def reasons(judged: Mapping[str, tuple[str, str]]) -> list[str]:
    rest = {way: found for way, found in judged.items() if found[0] != AHEAD}
    if not rest:
        return ["", "lms is ahead of all of them."]
    lines = [
        f"- {WAYS[way]}, {word}: {why.rstrip('.') or 'not run yet'}."
        for way, (word, why) in rest.items()
    ]
    return ["", "Where lms is not ahead:", "", *lines]
