"""What a row says: were the bits those of stock, and was the budget met? Rows in, words out.

A budget is met where the last step measured took no more than it: bytes above those in use before
the step, against budget_bytes less resident_bytes, without any tolerance. Of programs of others it
is the highest of the last steps, and what their rows name as "limit" is allowed.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

CLAIMED = ("rewritten", "fits")  # the report says that the budget is met
LIMIT = 1.0  # measured / budget, where a row says no other
_RANGES = ((0.98, 1.08), (0.95, 1.08), (0.95, 1.15))  # predicted / measured
_EXCEEDED = "the step takes "  # ... more than the budget
# What a report says where it knows that a size, or all of something, is not known.
_NOT_KNOWN = ("was taken to be", "is not predicted", "is neither predicted", "knows little of")


def final(at: dict[str, Any]) -> dict[str, Any]:
    """The last round at a budget: with what feedback has learnt."""
    last: dict[str, Any] = at["rounds"][-1]
    return last


def measured(part: dict[str, Any]) -> int:
    """The peak that is judged."""
    found: int = part.get("judged", part["peaks"][-1])
    return found


def stock(row: dict[str, Any]) -> int:
    """The peak of stock's steps; of programs of others, that of several instances, of which the
    first steps may have made things that stay."""
    return max(row.get("instance_peaks") or row["stock_peaks"])


def predicted_stock(row: dict[str, Any]) -> int:
    """What the report of the first budget says of the step as it came; 0 where there is none."""
    if "predicted_stock" in row:
        return int(row["predicted_stock"])
    parts = [at["rounds"][0] for at in row.get("budgets", {}).values()]
    return max(
        (p.get("peak_before_bytes", 0) - p.get("resident_bytes", 0) for p in parts), default=0
    )


def warned(part: dict[str, Any]) -> bool:
    """Whether the report says that something it needs is not known."""
    return any(said in text for text in part.get("warnings", ()) for said in _NOT_KNOWN)


def of_budget(part: dict[str, Any], peak: int) -> float | None:
    """peak / budget, both without what is resident; None where there is no budget."""
    allowed = part.get("budget_bytes", 0) - part.get("resident_bytes", 0)
    return peak / allowed if allowed > 0 else None


def of_predicted(part: dict[str, Any]) -> float | None:
    """Measured / predicted in the last step of a round, both without what is resident."""
    predicted = part.get("peak_after_bytes", 0) - part.get("resident_bytes", 0)
    return measured(part) / predicted if predicted > 0 else None


def _nearest(orders: list[int], peak: int) -> float:
    """Of the peaks of the orders that are foretold, the nearest, over what was measured."""
    return min(orders, key=lambda order: abs(order - peak)) / peak


def _of_stock(row: dict[str, Any]) -> tuple[float, float, float]:
    """Predicted / measured peak of stock's steps: the highest, of the order that was run (the worst
    of the instances counts), and what is usual."""
    peaks = sorted(row.get("instance_peaks") or row["stock_peaks"])
    orders = row.get("stock_orders") or [row["predicted_stock"]]
    nearest = max((_nearest(orders, peak) for peak in peaks), key=lambda found: abs(found - 1))
    usual = statistics.median_low(orders) / statistics.median_low(peaks)
    return row["predicted_stock"] / stock(row), nearest, usual


def _of_rewritten(part: dict[str, Any]) -> tuple[float, float, float]:
    """The same of a rewritten step."""
    resident, peak = part["resident_bytes"], measured(part)
    found = part.get("order_peaks", {}).get("after") or [part["peak_after_bytes"]]
    orders = [order - resident for order in found]
    return max(orders) / peak, _nearest(orders, peak), statistics.median_low(orders) / peak


def ratio(at: dict[str, Any]) -> float | None:
    """measured / budget of the last step."""
    last = final(at)
    return of_budget(last, measured(last))


def first_ratio(at: dict[str, Any]) -> float | None:
    """The same of the first step, which makes the plan."""
    first = at["rounds"][0]
    return of_budget(first, first["peaks"][0])


def claimed(at: dict[str, Any]) -> bool:
    return final(at)["status"] in CLAIMED


def admitted(at: dict[str, Any]) -> bool:
    """Whether the report says, having measured steps, that they take more than the budget."""
    return any(text.startswith(_EXCEEDED) for text in final(at).get("warnings", ()))


def met(at: dict[str, Any]) -> bool:
    found = ratio(at)
    return claimed(at) and found is not None and found <= at.get("limit", LIMIT)


def bits(at: dict[str, Any]) -> str:
    """ "equal", "stock differs" (where stock did not repeat itself either), "DIFFERENT", or "",
    where nothing was computed that could be compared."""
    if final(at)["status"] == "out of memory":
        return ""
    if not at["differing"]:
        return "equal"
    return "DIFFERENT" if at["differing_alone"] else "stock differs"


def faults(row: dict[str, Any]) -> list[str]:
    """What must not be: one line each."""
    if "error" in row:
        return [f"{row['model']}: {row['error']}"]
    found = []
    for budget, at in row["budgets"].items():
        title = f"{row['model']} at {budget}"
        if bits(at) == "DIFFERENT":
            found.append(
                f"{title}: {at['differing']} of {row['compared']} values differ from stock's, "
                f"{at['differing_alone']} of them where stock repeats itself: {at['differ'][0]}"
            )
        if final(at)["status"] in ("failed", "unseen", "out of memory"):
            found.append(f"{title}: {final(at)['status']}: {final(at)['reason']}")
        if claimed(at) and not met(at):
            text = f"{title}: measured {ratio(at):.3f} of the budget"
            open_sizes = [w for w in final(at)["warnings"] if warned({"warnings": [w]})]
            found.append(text + "".join(f" (the report warns: {w})" for w in open_sizes))
    return found


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """What all rows say together."""
    ats = [at for row in rows if "error" not in row for at in row["budgets"].values()]
    compared = sum(bits(at) != "" for at in ats)
    equal = sum(bits(at) == "equal" for at in ats)
    unstable = sum(bits(at) == "stock differs" for at in ats)
    claims = [at for at in ats if claimed(at)]
    said = sum(admitted(at) for at in claims if not met(at))
    kept = sum(met(at) for at in claims)
    statuses = [final(at)["status"] for at in ats]
    counted = ", ".join(f"{statuses.count(s)} {s}" for s in sorted(set(statuses)))
    crashed = sum("error" in row for row in rows)
    return [
        f"{len(rows)} models, {len(ats)} rows ({counted}){f', {crashed} crashed' * bool(crashed)}",
        f"bits: {_share(equal, compared)} equal to stock's"
        + (f", {unstable} where stock does not repeat itself" if unstable else ""),
        f"budgets: {_share(kept, len(claims))} of those said to be met were met"
        + (f"; of {said} that were not, the report says so, having measured" if said else ""),
        *_of_limits(rows),
        *_of_predictions(rows),
        *_of_instances(rows),
    ]


def _of_limits(rows: list[dict[str, Any]]) -> list[str]:
    """Of devices that have too little memory for stock, where rows have such."""
    limited = [row["budgets"]["auto"] for row in rows if "limit" in row]
    if not limited:
        return []
    trained = sum(final(at)["status"] != "out of memory" for at in limited)
    by_stock = sum(at.get("stock_trains", False) for at in limited)
    return [
        f"a device's limit, between the peaks of lms and of stock: {_share(trained, len(limited))} "
        f"trained by lms, {by_stock} by stock"
    ]


def _of_predictions(rows: list[dict[str, Any]]) -> list[str]:
    """How near predicted peaks are to measured ones: of stock's steps, and of rewritten ones."""
    known, unknown = [], 0
    for row in rows:
        found = []
        if row.get("predicted_stock"):
            found.append(({"warnings": row["stock_warnings"]}, _of_stock(row)))
        for part in map(final, row.get("budgets", {}).values()):
            if part["status"] == "rewritten" and of_predicted(part):
                found.append((part, _of_rewritten(part)))
        known += [ratios for part, ratios in found if not warned(part)]
        unknown += sum(warned(part) for part, _ in found)
    highest, nearest, usual = zip(*known) if known else ((), (), ())
    return [
        f"predicted / measured peak, of stock's steps and of rewritten ones: {_in_ranges(highest)}",
        f"the same of the nearest order that is foretold: {_in_ranges(nearest)}",
        f"the same of what is foretold to be usual: {_in_ranges(usual)}",
        f"unknown sizes: {_share(unknown, len(known) + unknown)} of these are with a warning, and "
        "not counted there",
    ]


def _of_instances(rows: list[dict[str, Any]]) -> list[str]:
    """How far stock's instances of one step are from each other, where there were several."""
    peaks = [row["instance_peaks"] for row in rows if len(row.get("instance_peaks") or ()) > 1]
    if not peaks:
        return []
    spreads = [max(found) / min(found) for found in peaks]
    beyond = ", ".join(
        f"{_share(sum(spread > high / low for spread in spreads), len(spreads))} models {low} to "
        f"{high}"
        for low, high in (_RANGES[0], _RANGES[-1])
    )
    return [
        "stock beside itself: no one number is within the range of both the highest and the lowest "
        f"of its instances in {beyond}"
    ]


def _in_ranges(ratios: Sequence[float]) -> str:
    shares = []
    for low, high in _RANGES:
        near = sum(low <= ratio <= high for ratio in ratios)
        shares.append(f"{_share(near, len(ratios))} between {low} and {high}")
    return ", ".join(shares)


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "none"
