"""One process of the fuzzer: one thread of each kind, programs one after the other.

python worker.py --directory DIR --seed S --seconds N   draws programs, a line of JSON on each
python worker.py --file CASE …                          runs these cases; status 3: a finding
python worker.py --seed S --programs N                  draws and runs so many, likewise

The program at hand is in DIR/current.json before it runs, so that it is known where it brings the
process down. A program with a finding is reduced here.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
for _name in [name for name in os.environ if name.startswith("LMS_")]:
    del os.environ[_name]
_profiles = tempfile.TemporaryDirectory(prefix="lms-profiles-")
os.environ["LMS_PROFILE_DIR"] = _profiles.name

import tensorflow as tf  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
logging.getLogger("tensorflow").setLevel(logging.ERROR)
logging.getLogger("lms").setLevel(logging.ERROR)

import check  # noqa: E402
import reduce  # noqa: E402

gc.collect()
gc.freeze()  # what was imported is no garbage: the collections between programs pass over it

DRAWN = 10  # programs at a time: among more of them Hypothesis makes many that are alike
COLLECTED_AFTER = 30  # programs: they leave cycles behind


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def seen(outcome: check.Outcome) -> dict[str, Any]:
    keep = ("finding", "status", "detail", "excess", "unrepeatable", "finite", "nodes", "kinds")
    return {name: getattr(outcome, name) for name in keep}


def finds(kind: str) -> Any:
    """A predicate for reducing, which asks quickly: does the program still have such a finding?"""
    return lambda spec: any(o.finding == kind for o in check.check(spec, check.FEW))


def fuzz(directory: Path, seed: int, seconds: float, reducing: float) -> None:
    import strategies

    end = time.monotonic() + seconds
    count = 0
    current = directory / "current.json"
    while time.monotonic() < end:
        begin = time.monotonic()
        programs = strategies.draw(seed, DRAWN)
        say(drawn=len(programs), seed=seed, seconds=time.monotonic() - begin)
        for spec in programs:
            if time.monotonic() > end:
                break
            current.write_text(json.dumps(spec))
            count += 1
            begin = time.monotonic()
            outcomes = check.check(spec)
            say(outcomes=[seen(o) for o in outcomes], seconds=time.monotonic() - begin)
            kinds = {o.finding: o for o in outcomes if o.finding}
            for kind, outcome in kinds.items():
                known = [dict(outcome.options)]
                small, detail = {**spec, "options": known}, outcome.detail
                if kind in check.HARD:
                    small = reduce.reduce(small, finds(kind), reducing)
                    again = [o for o in check.check(small) if o.finding == kind]
                    if not again:  # asked quickly alone
                        small = {**spec, "options": known}
                    detail = (again or [outcome])[0].detail
                say(finding=kind, detail=detail, program=small, from_=spec, seed=seed)
        if count >= COLLECTED_AFTER:
            count = 0
            gc.collect()
        seed += 1
    say(ended=True)


def run_some(named: Iterable[tuple[str, dict[str, Any]]]) -> int:
    """Checks programs by name; a line of JSON on each."""
    status = 0
    for name, spec in named:
        outcomes = check.check(spec)
        if any(o.finding in check.HARD for o in outcomes):
            status = 3
        say(name=name, outcomes=[seen(o) for o in outcomes])
    return status


def stored(files: list[Path]) -> Iterable[tuple[str, dict[str, Any]]]:
    for file in files:
        spec = json.loads(file.read_text())
        yield file.name, spec.get("program", spec)


def drawn(seed: int, count: int) -> Iterable[tuple[str, dict[str, Any]]]:
    import strategies

    for number, spec in enumerate(strategies.draw(seed, count)):
        yield f"seed {seed}, program {number}", spec


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--reduce", type=float, default=60, help="seconds for each finding")
    parser.add_argument("--file", type=Path, nargs="+", default=[])
    parser.add_argument("--programs", type=int, default=0)
    args = parser.parse_args()
    if args.file or args.programs:
        some = list(stored(args.file))
        if args.programs:
            some += drawn(args.seed, args.programs)
        return run_some(some)
    args.directory.mkdir(parents=True, exist_ok=True)
    fuzz(args.directory, args.seed, args.seconds, args.reduce)
    return 0


if __name__ == "__main__":
    sys.exit(main())
