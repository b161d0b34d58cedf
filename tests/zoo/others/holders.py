"""What a step really holds at its peak, beside what is predicted: python -m zoo.others.holders NAME

Needs the environment of ./run zoo --others, and tests and benchmarks in PYTHONPATH. Sizes of which
there are not as many predicted as measured are listed, with the operations that asked for them.
One program, one thread of each kind; stock, or with --budget under lms.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
from collections.abc import Iterator
from typing import Any

import lms
import tensorflow as tf
from lms import _native

from zoo.others import catalogue, child
from zoo.others.training import Watch

_LEAST = 4096  # bytes of a block that is listed


class Holding(Watch):
    """Keeps what is held at the peak of one step."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at
        self.held: list[tuple[int, str]] = []

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        with super().step():
            wanted = len(self.peaks) + 1 == self._at and _native.begin_holder_scope()
            yield
            if wanted:
                self.held = _native.end_holder_scope()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("--step", type=int, default=3)
    parser.add_argument("--budget", help="what the steps that are measured run under")
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lms.memory.reset_peak()
    watch = Holding(args.step)
    if args.budget is None:
        catalogue.make(args.name).run(watch)
    with lms.enabled(args.budget or "1TiB", replan=False):
        catalogue.make(args.name).run(watch if args.budget else Watch())
    report = child.largest(lms.reports())
    if report is None:
        raise SystemExit("lms was asked about no step")
    said = child.held_at_peak(report, "before" if args.budget is None else "after")
    show(watch.held, [(block["bytes"], block["name"]) for block in said], report)


def show(held: list[tuple[int, str]], said: list[tuple[int, str]], report: Any) -> None:
    print(report.status, report.reason, *report.warnings, *report.sizes, sep="\n  ")
    print(f"measured {sum(size for size, _ in held)}, predicted {sum(size for size, _ in said)}")
    counts = [collections.Counter(size for size, _ in blocks) for blocks in (held, said)]
    for size in sorted(set(counts[0]) | set(counts[1]), reverse=True):
        if size < _LEAST or counts[0][size] == counts[1][size]:
            continue
        print(f"{size}: {counts[0][size]} measured, {counts[1][size]} predicted")
        for title, blocks in (("measured", held), ("predicted", said)):
            print(*(f"    {title} {op}" for bytes_, op in blocks if bytes_ == size), sep="\n")


if __name__ == "__main__":
    main()
