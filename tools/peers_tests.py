"""Keras' own tests, by stock TensorFlow and with lms switched on: do they come to the same?

./run peers-tests KERAS_CHECKOUT [--only layers,ops,...] [--budget min] [pytest arguments]

The tests of layers, trainers, models, optimizers and ops run twice, in the checkout and with its
own settings: as they are, and in processes where lms is on for every step, however small. Tests
with another outcome run once more by themselves; those that still differ are listed, and the exit
status is 1. Also listed: what lms did, so that "the same" is not for want of anything to do.
Nothing is fetched; the Keras that is tested is the checkout's. Logs are in build/peers-tests.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "peers-tests"
PARTS = ("layers", "trainers", "models", "optimizers", "ops")
MOST_LISTED = 40


def run(
    checkout: Path, name: str, budget: str, tests: list[str], words: list[str]
) -> tuple[dict[str, str], dict[str, int]]:
    """The outcome of each test, and how many graphs lms judged how. budget: "" is stock."""
    for old in OUT.glob(f"{name}.*"):
        old.unlink()
    paths = [str(ROOT / "tools"), str(ROOT / "python"), str(checkout)]
    paths += [path for path in [os.environ.get("PYTHONPATH")] if path]
    settings = {
        "KERAS_BACKEND": "tensorflow",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join(paths),
        "PEERS_BUDGET": budget,
        "PEERS_OUT": str(OUT / name),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "peers_plugin", "-p", "no:cacheprovider"]
    began = time.monotonic()
    with (OUT / f"{name}.log").open("w") as log:
        done = subprocess.run(
            [*command, *words, *tests],
            cwd=checkout,
            env={**os.environ, **settings},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    outcomes = OUT / f"{name}.outcomes.json"
    if not outcomes.exists():
        raise SystemExit(
            f"the tests did not run to their end (status {done.returncode}): {log.name}"
        )
    found = json.loads(outcomes.read_text())
    judged: collections.Counter[str] = collections.Counter()
    for counts in OUT.glob(f"{name}.reports.*.json"):
        judged.update(json.loads(counts.read_text()))
    numbers = collections.Counter(found.values())
    said = ", ".join(f"{count} {outcome}" for outcome, count in numbers.most_common())
    print(f"{name}: {said}; {time.monotonic() - began:.0f} s", flush=True)
    return found, judged


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, help="of Keras 3")
    parser.add_argument("--only", default=",".join(PARTS), help="parts of keras/src, with commas")
    parser.add_argument("--budget", default="min", help="memory_budget of lms (default: min)")
    args, words = parser.parse_known_args()
    checkout = args.checkout.resolve()
    tests = [f"keras/src/{part}" for part in args.only.split(",")]
    missing = [test for test in tests if not (checkout / test).exists()]
    if missing:
        parser.error(f"{checkout} has no {', '.join(missing)}")
    OUT.mkdir(parents=True, exist_ok=True)
    if not any(word.startswith("-n") for word in words):
        words += ["-n", str(len(os.sched_getaffinity(0)))]

    stock, _ = run(checkout, "stock", "", tests, words)
    ours, judged = run(checkout, "lms", args.budget, tests, words)
    print("lms:", ", ".join(f"{count} {status}" for status, count in sorted(judged.items())))
    differ = [test for test in {**stock, **ours} if stock.get(test) != ours.get(test)]
    if differ:
        print(f"{len(differ)} with another outcome: once more", flush=True)
        alone = ["-n", "0"]
        again, _ = run(checkout, "stock-again", "", differ, alone)
        then, _ = run(checkout, "lms-again", args.budget, differ, alone)
        differ = [test for test in differ if again.get(test) != then.get(test)]
    for test in differ[:MOST_LISTED]:
        print(
            f"  {test}: {stock.get(test, 'not run')} by stock, {ours.get(test, 'not run')} with lms"
        )
    if len(differ) > MOST_LISTED:
        print(f"  and {len(differ) - MOST_LISTED} more")
    failed = judged.get("failed", 0)
    if failed:
        print(f"lms left {failed} graphs as they were, as a stage failed")
    if not judged.get("rewritten"):
        print("lms has rewritten nothing: these tests say nothing")
    print("no difference" if not differ else f"{len(differ)} differ")
    sys.exit(1 if differ or failed or not judged.get("rewritten") else 0)


if __name__ == "__main__":
    main()
