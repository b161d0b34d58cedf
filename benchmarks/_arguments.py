"""The arguments that benchmarks over a list of named models share."""

from __future__ import annotations

import argparse
from collections.abc import Collection


def parser_for_models(doc: str, models: Collection[str], rounds: int) -> argparse.ArgumentParser:
    """`doc`: the program's docstring, whose first line describes it."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--models", default=",".join(models), help="default: all")
    parser.add_argument("--rounds", type=int, default=rounds, help="steps of each, in turn")
    parser.add_argument("--out", help="write the figures here, as JSON")
    return parser


def parsed(parser: argparse.ArgumentParser, models: Collection[str]) -> argparse.Namespace:
    """The arguments; ends the program where --models names one that is not there."""
    args = parser.parse_args()
    unknown = set(args.models.split(",")) - set(models)
    if unknown:
        parser.error(f"unknown model {', '.join(sorted(unknown))}; known: {', '.join(models)}")
    return args
