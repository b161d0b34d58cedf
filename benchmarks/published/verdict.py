"""Ahead, level or behind, and why. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]
Rows = Mapping[tuple[str, str], Row]  # by table and row
AHEAD, LEVEL, BEHIND = "ahead", "level", "behind"
OPEN = "open"  # measured, with nothing to judge it by
NOT_MEASURED = "not measured"
WORDS = (AHEAD, LEVEL, BEHIND, OPEN, NOT_MEASURED)
CLOSE = 0.005  # of the cut: what a peak may miss by and still count as the same


def judge_cut(point: Mapping[str, Any], cut: float, added: float) -> tuple[str, str]:
    """A measured point beside a published cut and added time.

    Ahead: the cut, for half of the added time or less. Level: for the added time or less.
    """
    if point.get("pairs_with_other_bits"):
        return BEHIND, f"{point['pairs_with_other_bits']} steps had other bits than stock's"
    if point["cut"] < cut - CLOSE:
        why = "" if point["status"] == "rewritten" else f": {point['reason']}"
        return BEHIND, f"the cut reached is {point['cut']:.1%}, not {cut:.0%}{why}"
    if point["added"] <= added / 2:
        return AHEAD, ""
    bound = point.get("bound_added") or 0
    least = f"; no plan is predicted to add less than {bound:.1%}" if bound else ""
    if point["added"] <= added:
        return LEVEL, f"{point['added']:+.1%} is more than half of {added:+.0%}{least}"
    return BEHIND, f"{point['added']:+.1%} is more than {added:+.0%}{least}"


def counted(verdicts: list[str]) -> dict[str, int]:
    return {word: verdicts.count(word) for word in WORDS if word in verdicts}
