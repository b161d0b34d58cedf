"""Installs lms from source as users do, in fresh environments, and trains: ./run packaging

  ./run packaging [NAME ...]   those cases (default: all; --list names them)

From the sdist, from what `git archive` gives and from the checkout, with pip's build isolation,
under each Python that is installed; with one core, and with 8 GB of memory; and as a wheel that pip
builds first. The exit status is 1 where one does not work. Logs are in build/packaging.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import resource
import shutil
import sys
import tarfile
import time
from pathlib import Path

from environments import ROOT, SUPPORTED, Failure, Log, newest_for, print_table, pythons_here

PLACE = ROOT / "build" / "packaging"
USUAL = "3.11"
MEMORY = 8 << 30


@dataclasses.dataclass(frozen=True)
class Case:
    source: str  # "sdist", "git archive" or "checkout"
    python: str
    within: str = ""  # "one core" or "8 GB"
    as_wheel: bool = False

    @property
    def name(self) -> str:
        parts = (self.source, self.python, self.within, "as a wheel" if self.as_wheel else "")
        return ", ".join(part for part in parts if part)


def cases(pythons: dict[str, Path]) -> list[Case]:
    usual = USUAL if USUAL in pythons else next(iter(pythons))
    found = [Case("sdist", python) for python in pythons if newest_for(python)]
    found.append(Case("git archive", usual))
    found.append(Case("checkout", usual, "one core"))
    found += [Case("sdist", usual, "8 GB"), Case("sdist", usual, as_wheel=True)]
    return found


def source(kind: str, log: Log) -> Path:
    """What pip is given."""
    if kind == "checkout":
        return ROOT
    place = PLACE / "sources" / kind.replace(" ", "-")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if kind == "git archive":
        archive = place / "lms.tar"
        log.call("git archive", "git", "-C", ROOT, "archive", "-o", archive, "HEAD")
        with tarfile.open(archive) as tar:
            tar.extractall(place / "lms")
        return place / "lms"
    log.call(
        *("sdist", ROOT / ".venv" / "bin" / "python", "-c"),
        f"import os; os.chdir({str(ROOT)!r}); import setuptools.build_meta as b; "
        f"b.build_sdist({str(place)!r})",
    )
    (archive,) = place.glob("*.tar.gz")
    return archive


def limits(within: str) -> None:
    """Of this process and those that it starts."""
    if within == "one core":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    elif within == "8 GB":
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def try_case(case: Case, python: Path) -> tuple[list[str], bool]:
    log = Log(PLACE / case.name.replace(", ", "-").replace(" ", "_"), case.name)
    venv = log.place / "venv"
    tensorflow = newest_for(case.python)
    installed = ""
    try:
        what = source(case.source, log)
        shutil.rmtree(venv, ignore_errors=True)
        log.call("making the environment", python, "-m", "venv", venv)
        pip = (venv / "bin" / "python", "-m", "pip")
        log.call("TensorFlow", *pip, "install", "-q", f"tensorflow-cpu=={tensorflow}")
        began = time.monotonic()
        if case.as_wheel:
            log.call("pip wheel", *pip, "wheel", "--no-deps", "-w", log.place / "made", what)
            (what,) = (log.place / "made").glob("*.whl")
        log.call("pip install", *pip, "install", what)
        installed = f"{time.monotonic() - began:.0f}"
        said = log.call("training", venv / "bin" / "python", ROOT / "tests" / "smoke.py")
        return [case.name, tensorflow, installed, said.strip().splitlines()[-1]], True
    except Failure as failure:
        return [case.name, tensorflow, installed, str(failure)], False
    finally:
        for made in (venv, log.place / "made"):
            shutil.rmtree(made, ignore_errors=True)


def in_child(case: Case, python: Path) -> tuple[list[str], bool]:
    """Under its limits, which are this process's alone."""
    if not case.within:
        return try_case(case, python)
    import concurrent.futures
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        1, context, initializer=limits, initargs=(case.within,)
    ) as pool:
        return pool.submit(try_case, case, python).result()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./run packaging", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="name the cases")
    args = parser.parse_args()
    pythons = pythons_here()
    chosen = [
        case
        for case in cases(pythons)
        if not args.names or any(name in case.name for name in args.names)
    ]
    if args.list:
        print("\n".join(case.name for case in chosen))
        return 0
    if not chosen:
        parser.error("no such case")
    print(f"==> {len(chosen)} ways to install; TensorFlow up to {SUPPORTED[-1]}", flush=True)
    results = [in_child(case, pythons[case.python]) for case in chosen]
    print_table([["from", "TensorFlow", "pip, s", "smoke test"], *(row for row, _ in results)])
    return 0 if all(works for _, works in results) else 1


if __name__ == "__main__":
    sys.exit(main())
