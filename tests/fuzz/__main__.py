"""Fuzzing: random training programs, and random graphs, until the time is up.

./run fuzz --seconds N [--seed S] [--jobs N] [--only programs|graphs] [--write]

  programs  random TensorFlow programs under random budgets and options (tests/fuzz): what they
            compute must be the bits of stock TensorFlow, and the reports true
  graphs    random, corrupt and hostile graphs thrown at the optimizer under sanitizers
            (tests/cc: lms_fuzz_graphs)

What is found is reduced and stored as tests/fuzz/cases/NAME.json, which `./run test` then runs;
what is known and not mended yet lies in tests/fuzz/open (worker.py --file runs it);
peaks above the budget go to build/fuzz/budget, and programs after which bytes stay in use to
build/fuzz/leak. Totals of all runs are kept in build/fuzz. The
program ends with status 1 where something was found.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import os
import secrets
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CASES = HERE / "cases"
PLACE = ROOT / "build" / "fuzz"
GRAPHS = ROOT / "build" / "asan" / "tests" / "cc" / "lms_fuzz_graphs"
SILENCE = 300  # seconds without a word, after which a worker counts as hung
APART = ("budget", "budget-warned", "leak", "details")  # kept apart: nothing that training sees
MOST_STORED = 20  # cases of one kind in one run

sys.path.insert(0, str(HERE))
sys.path.insert(0, str(ROOT / "benchmarks"))

import reduce  # noqa: E402
from _machine import machine_facts  # noqa: E402


class Fuzzer:
    """The workers and what they have told. Every method may be called from any thread."""

    def __init__(self, seed: int, seconds: float, reducing: float):
        self.seed, self.reducing = seed, reducing
        self.end = time.monotonic() + seconds
        self.begin = time.monotonic()
        self.counts: collections.Counter[str] = collections.Counter()
        self.findings: collections.Counter[str] = collections.Counter()
        self.excess: list[float] = []
        self.graphs: dict[str, Any] = {}
        self.lock = threading.Lock()
        self._next = seed

    def next_seed(self) -> int:
        with self.lock:
            self._next += 1000
            return self._next - 1000

    # ---- Programs ----

    def programs(self, number: int) -> None:
        """Keeps one worker going, a new one after each that fell."""
        directory = PLACE / f"worker-{number}"
        directory.mkdir(parents=True, exist_ok=True)
        while time.monotonic() < self.end - 5:
            current = directory / "current.json"
            current.unlink(missing_ok=True)
            with open(directory / "stderr.txt", "w", encoding="utf-8") as log:
                command = [
                    *(sys.executable, str(HERE / "worker.py"), "--directory", str(directory)),
                    *("--seed", str(self.next_seed()), "--reduce", str(self.reducing)),
                    *("--seconds", str(self.end - time.monotonic())),
                ]
                worker = subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=directory
                )
                ended, hung = self._listen(worker)
            if ended:
                continue
            log_text = (directory / "stderr.txt").read_text(errors="replace")[-2000:]
            if not current.exists():
                print(f"A worker cannot start:\n{log_text}", file=sys.stderr)
                with self.lock:
                    self.findings["start"] += 1
                return
            kind = "hang" if hung else "crash"
            spec = json.loads(current.read_text())
            self._found(kind, {**self._reduce_apart(spec, kind), "detail": log_text})

    def _listen(self, worker: Any) -> tuple[bool, bool]:
        """Reads what the worker says: whether it ended well, whether it hung."""
        said = [time.monotonic()]
        hung = [False]

        def watch() -> None:
            while worker.poll() is None:
                if time.monotonic() - said[0] > SILENCE + self.reducing:
                    hung[0] = True
                    worker.kill()
                    return
                time.sleep(1)

        threading.Thread(target=watch, daemon=True).start()
        ended = False
        for line in worker.stdout:
            said[0] = time.monotonic()
            try:
                facts = json.loads(line)
            except ValueError:
                continue
            ended |= "ended" in facts
            self._hear(facts)
        return worker.wait() == 0 and ended, hung[0]

    def _hear(self, facts: dict[str, Any]) -> None:
        with self.lock:
            if "outcomes" in facts:
                self.counts["programs"] += 1
                for outcome in facts["outcomes"]:
                    self.counts["runs"] += 1
                    self.counts[outcome["status"]] += 1
                    self.counts["unrepeatable"] += outcome["unrepeatable"]
                    self.counts["not finite"] += not outcome["finite"]
                    for kind in outcome["kinds"]:
                        self.counts[f"with {kind}"] += 1
                    if outcome["status"] == "rewritten" and outcome["excess"]:
                        self.excess.append(outcome["excess"])
        if facts.get("finding"):
            self._found(facts["finding"], facts)

    def _reduce_apart(self, spec: dict[str, Any], kind: str) -> dict[str, Any]:
        """Reduces a program that brings the process down: each try in a process of its own."""
        place = PLACE / f"reduce-{os.getpid()}-{threading.get_ident()}.json"

        def falls(candidate: dict[str, Any]) -> bool:
            place.write_text(json.dumps(candidate))
            try:
                status = subprocess.run(
                    [sys.executable, str(HERE / "worker.py"), "--file", str(place)],
                    capture_output=True,
                    timeout=90,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                return kind == "hang"
            return kind == "crash" and status not in (0, 1, 3)

        small = reduce.reduce(spec, falls, 5 * self.reducing)
        place.unlink(missing_ok=True)
        return {"program": small, "from_": spec}

    def _found(self, kind: str, facts: dict[str, Any]) -> None:
        with self.lock:
            self.findings[kind] += 1
            number = self.findings[kind]
        if "program" not in facts:
            print(f"\n{kind}: {facts.get('detail')}", flush=True)
            return
        folder = PLACE / kind if kind in APART else CASES
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(facts["program"], sort_keys=True)
        path = folder / f"{kind}_{hashlib.sha256(text.encode()).hexdigest()[:10]}.json"
        if number <= MOST_STORED or kind in APART:
            write_case(path, facts["program"], f"{kind}: {facts.get('detail', '')}")
        if kind not in APART:
            print(
                f"\n{kind}: {path.relative_to(ROOT)}: {facts.get('detail', '')[:300]}", flush=True
            )

    # ---- Graphs ----

    def random_graphs(self) -> None:
        """Runs the program that fuzzes graphs; its last line says what it has done."""
        command = [
            str(GRAPHS),
            *("--seconds", str(int(self.end - time.monotonic())), "--seed", str(self.seed)),
        ]
        PLACE.mkdir(parents=True, exist_ok=True)
        with open(PLACE / "graphs.txt", "w", encoding="utf-8") as log:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=log, text=True, check=False
            )
        lines = done.stdout.strip().splitlines()
        try:
            self.graphs = json.loads(lines[-1])
        except (IndexError, ValueError):
            self.graphs = {"findings": 1}
        self.graphs["status"] = done.returncode
        found = int(self.graphs.get("findings", 0)) or int(done.returncode != 0)
        if found:
            with self.lock:
                self.findings["graphs"] += found
            print(f"\ngraphs: {found} findings; see {PLACE / 'graphs.txt'}", flush=True)

    # ---- Words ----

    def facts(self) -> dict[str, Any]:
        with self.lock:
            seconds = time.monotonic() - self.begin
            over = sorted(self.excess)
            return {
                "seed": self.seed,
                "seconds": round(seconds, 1),
                "counts": dict(sorted(self.counts.items())),
                "per_second": round(self.counts["runs"] / max(1.0, seconds), 2),
                "measured_over_budget": {
                    "runs": len(over),
                    "above_1": sum(value > 1 for value in over),
                    "above_1.02": sum(value > 1.02 for value in over),
                    "highest": round(over[-1], 4) if over else 0,
                },
                "graphs": self.graphs,
                "findings": dict(self.findings),
            }

    def line(self) -> str:
        facts = self.facts()
        counts, runs = facts["counts"], max(1, facts["counts"].get("runs", 0))
        shares = ", ".join(
            f"{name} {counts.get(name, 0) / runs:.0%}"
            for name in ("rewritten", "fits", "infeasible", "skipped", "invalid", "raises")
        )
        found = ", ".join(f"{n} {kind}" for kind, n in facts["findings"].items()) or "none"
        return (
            f"{facts['seconds']:.0f} s: {counts.get('programs', 0)} programs, {runs} runs, "
            f"{facts['per_second']}/s ({shares}); unrepeatable {counts.get('unrepeatable', 0)}; "
            f"findings: {found}"
        )


def write_case(path: Path, program: dict[str, Any], why: str) -> None:
    """A stored case: the program, an op a line, and what was found."""
    ops = ",\n".join(f"  {json.dumps(op)}" for op in program["ops"])
    rest = {name: value for name, value in program.items() if name != "ops"}
    lines = "".join(f" {json.dumps(k)}: {json.dumps(v)},\n" for k, v in sorted(rest.items()))
    path.write_text(f'{{"why": {json.dumps(why)},\n"program": {{\n{lines} "ops": [\n{ops}\n]}}}}\n')


def add_totals(facts: dict[str, Any]) -> dict[str, Any]:
    """Adds a run to build/fuzz/totals.json, and returns what is there then."""
    path = PLACE / "totals.json"
    totals = json.loads(path.read_text()) if path.exists() else {"runs": [], "counts": {}}
    for name, count in facts["counts"].items():
        totals["counts"][name] = totals["counts"].get(name, 0) + count
    totals["runs"].append({name: facts[name] for name in ("seed", "seconds", "findings", "graphs")})
    part = path.with_suffix(".part")
    part.write_text(json.dumps(totals, indent=1) + "\n")
    part.replace(path)
    return totals


def write_results(facts: dict[str, Any], jobs: int) -> Path:
    from importlib.metadata import version

    packages = ("tensorflow", "tensorflow-cpu", "hypothesis")
    versions = {}
    for name in packages:
        try:
            versions[name] = version(name)
        except ImportError:
            continue
    machine = machine_facts(**versions)
    path = ROOT / "benchmarks" / "results" / f"{machine['date']}_fuzz.json"
    path.write_text(json.dumps({"machine": machine, "jobs": jobs, **facts}, indent=1) + "\n")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./run fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, help="default: a new one")
    parser.add_argument("--jobs", type=int, help="worker processes (default: one a CPU)")
    parser.add_argument("--only", choices=["programs", "graphs"])
    parser.add_argument("--reduce", type=float, default=60, help="seconds for each finding")
    parser.add_argument("--write", action="store_true", help="a file in benchmarks/results")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else secrets.randbelow(10**9)
    graphs = args.only != "programs"
    if graphs and not GRAPHS.exists():
        print(f"{GRAPHS.relative_to(ROOT)} is not there: random graphs are left out", flush=True)
        graphs = False
        if args.only == "graphs":
            return 1
    jobs = args.jobs or max(1, (os.cpu_count() or 1) - graphs)
    print(
        f"seed {seed}: ./run fuzz --seed {seed} --seconds {args.seconds:g} repeats it", flush=True
    )
    fuzzer = Fuzzer(seed, args.seconds, args.reduce)
    threads = [threading.Thread(target=fuzzer.random_graphs)] if graphs else []
    if args.only != "graphs":
        threads += [threading.Thread(target=fuzzer.programs, args=(n,)) for n in range(jobs)]
    for thread in threads:
        thread.start()
    shown = 0.0
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.2)
        if time.monotonic() - shown > (5 if sys.stdout.isatty() else 60):
            shown = time.monotonic()
            print(fuzzer.line(), flush=True)
    facts = fuzzer.facts()
    totals = add_totals(facts)
    print(fuzzer.line())
    over = facts["measured_over_budget"]
    print(
        f"measured peak over the budget: {over['above_1.02']} of {over['runs']} by more than 2%, "
        f"at most {over['highest']} times the budget"
    )
    if facts["graphs"]:
        print(f"graphs: {facts['graphs']}")
    print(f"all runs so far: {totals['counts'].get('programs', 0)} programs")
    if args.write:
        print(f"written: {write_results(facts, jobs).relative_to(ROOT)}")
    bad = {kind: n for kind, n in facts["findings"].items() if kind not in APART}
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
