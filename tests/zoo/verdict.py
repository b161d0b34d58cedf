"""What a row says: were the bits those of stock, and was the budget met? Rows in, words out.

A budget is met where the last step measured took no more than it: bytes above those in use before
the step, against budget_bytes less resident_bytes, without any tolerance.
"""

from __future__ import annotations

from typing import Any

CLAIMED = ("rewritten", "fits")  # the report says that the budget is met
LIMIT = 1.0  # measured / budget


def final(at: dict[str, Any]) -> dict[str, Any]:
    """The last round at a budget: with what feedback has learnt."""
    last: dict[str, Any] = at["rounds"][-1]
    return last


def of_budget(part: dict[str, Any], peak: int) -> float | None:
    """peak / budget, both without what is resident; None where there is no budget."""
    allowed = part.get("budget_bytes", 0) - part.get("resident_bytes", 0)
    return peak / allowed if allowed > 0 else None


def of_predicted(part: dict[str, Any]) -> float | None:
    """Measured / predicted in the last step of a round, both without what is resident."""
    predicted = part.get("peak_after_bytes", 0) - part.get("resident_bytes", 0)
    return part["peaks"][-1] / predicted if predicted > 0 else None


def ratio(at: dict[str, Any]) -> float | None:
    """measured / budget of the last step."""
    last = final(at)
    return of_budget(last, last["peaks"][-1])


def first_ratio(at: dict[str, Any]) -> float | None:
    """The same of the first step, which makes the plan."""
    first = at["rounds"][0]
    return of_budget(first, first["peaks"][0])


def claimed(at: dict[str, Any]) -> bool:
    return final(at)["status"] in CLAIMED


def met(at: dict[str, Any]) -> bool:
    found = ratio(at)
    return claimed(at) and found is not None and found <= LIMIT


def bits(at: dict[str, Any]) -> str:
    """ "equal", "stock differs" (where stock did not repeat itself either), or "DIFFERENT"."""
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
        if final(at)["status"] in ("failed", "unseen"):
            found.append(f"{title}: {final(at)['status']}: {final(at)['reason']}")
        if claimed(at) and not met(at):
            text = f"{title}: measured {ratio(at):.3f} of the budget"
            open_sizes = [w for w in final(at)["warnings"] if "only the run decides" in w]
            found.append(text + "".join(f" (the report warns: {w})" for w in open_sizes))
    return found


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """What all rows say together."""
    ats = [at for row in rows if "error" not in row for at in row["budgets"].values()]
    equal = sum(bits(at) == "equal" for at in ats)
    unstable = sum(bits(at) == "stock differs" for at in ats)
    claims = [at for at in ats if claimed(at)]
    kept = sum(met(at) for at in claims)
    statuses = [final(at)["status"] for at in ats]
    counted = ", ".join(f"{statuses.count(s)} {s}" for s in sorted(set(statuses)))
    crashed = sum("error" in row for row in rows)
    return [
        f"{len(rows)} models, {len(ats)} rows ({counted}){f', {crashed} crashed' * bool(crashed)}",
        f"bits: {_share(equal, len(ats))} equal to stock's"
        + (f", {unstable} where stock does not repeat itself" if unstable else ""),
        f"budgets: {_share(kept, len(claims))} of those said to be met were met",
    ]


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "none"
