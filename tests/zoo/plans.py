"""Are plans what they were? Records all plans for the zoo's models, or compares with a record.

python -m zoo.plans FILE [REGEX], in tests/ as ./run plans does it: each model's step is planned
(not run) at 70% and "min" for two devices; the graph as lms read it and the plan that it made, as
dump_graphs writes them, go into the record as digests, beside the predicted peak and added time.
Where FILE is there, it is compared with, and what differs is printed; where not, it is written.

For changes that are to leave plans as they are: record before, compare after. Exit status 1:
something differs.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
import sys
import tempfile
from typing import Any

BUDGETS = ("70%", "min")
DEVICES = (None, "V100-16GB")


def planned(name: str) -> dict[str, Any]:
    """By budget and device: what was planned for one model."""
    import lms

    from zoo import catalogue

    case = catalogue.make(name)
    found = {}
    for device in DEVICES:
        for budget in BUDGETS:
            with tempfile.TemporaryDirectory() as directory:
                report = lms.plan(
                    case.step,
                    *case.arguments,
                    memory_budget=budget,
                    device=device,
                    dump_graphs=directory,
                )
                files = sorted(pathlib.Path(directory).rglob("*"))
                texts = [path.read_bytes() for path in files if path.is_file()]
            found[f"{device or 'CPU'} {budget}"] = {
                "status": report.status,
                "peak_bytes": report.peak_after_bytes,
                "time_overhead": report.predicted_time_overhead,
                "digests": [hashlib.sha256(text).hexdigest()[:16] for text in texts],
            }
    return found


def compare(name: str, before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What differs, a line each."""
    return [
        f"{name} {key}: {before.get(key)} -> {now.get(key)}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]


def main() -> int:
    path = pathlib.Path(sys.argv[1])
    known = json.loads(path.read_text()) if path.exists() else None
    from zoo import catalogue

    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    names = [name for name in catalogue.NAMES if re.search(wanted, name)]
    record: dict[str, Any] = {}
    different = 0
    for number, name in enumerate(names, 1):
        try:
            record[name] = planned(name)
        except ValueError as error:  # what cannot be planned is as it was, too
            record[name] = {"problem": str(error)}
        if known is None or name not in known:
            lines = [] if known is None else [f"{name}: not in the record"]
        else:
            lines = compare(name, known[name], record[name])
        different += len(lines)
        print("\n".join([f"[{number}/{len(names)}] {name}", *lines]), flush=True)
    if known is None:
        path.write_text(json.dumps(record, indent=1) + "\n")
        print(f"recorded {len(record)} models in {path}")
    else:
        print(f"{different} of {len(names) * len(BUDGETS) * len(DEVICES)} plans differ")
    return min(1, different)


if __name__ == "__main__":
    raise SystemExit(main())
