"""Every model in every precision, with and without oneDNN: does lms decline a step that runs?

python -m zoo.declines [REGEX], in tests/ as ./run zoo does it. One call of each step under a budget
that all of them meet: what is looked at is whether the graph, as TensorFlow's passes leave it, is
read at all. Steps that do not run without lms either (no kernel for the precision) do not count.

Exit status 1: a report of status "failed".
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from zoo import catalogue

PRECISIONS = ("float32", "float64", "float16", "mixed_float16", "mixed_bfloat16", "bfloat16")
BUDGET = "1TiB"


def child(precision: str, names: list[str]) -> int:
    """Prints a line per model; the number of steps that were declined."""
    import keras
    import lms

    declined = 0
    keras.mixed_precision.set_dtype_policy(precision)
    lms.enable(BUDGET)
    for name in names:
        lms.clear_reports()
        problem = ""
        try:
            case = catalogue.make(name)
            case.step(*case.arguments)
        except Exception as error:
            problem = f"does not run: {type(error).__name__}"
        failed = [report for report in lms.reports() if report.status == "failed"]
        declined += len(failed)
        said = failed[0].reason if failed else problem or f"{len(lms.reports())} functions read"
        print(f"{precision:15} {name:20} {'DECLINED: ' if failed else ''}{said}", flush=True)
        keras.backend.clear_session()
    return declined


def main() -> int:
    if len(sys.argv) > 2:
        return min(1, child(sys.argv[1], sys.argv[2:]))
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    names = [name for name in catalogue.NAMES if re.search(wanted, name)]
    status = 0
    for onednn in ("1", "0"):
        for precision in PRECISIONS:
            print(f"TF_ENABLE_ONEDNN_OPTS={onednn} {precision}", flush=True)
            done = subprocess.run(
                [sys.executable, "-m", "zoo.declines", precision, *names],
                env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": onednn},
                check=False,
            )
            status = max(status, done.returncode)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
