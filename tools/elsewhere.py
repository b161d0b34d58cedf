"""Runs the tests as other machines would: ./run test --elsewhere [arguments, also pytest's]

A round runs all C++ and Python tests once, under several circumstances at a time: few processors, a
loaded machine, another user, less memory, other instruction sets, locales and time zones. What this
machine cannot give is listed as "not possible here", with the reason. Logs and results (JUnit) are
in build/elsewhere. The exit status is 1 where anything failed.

Another user needs no copy: it reads the sources, .venv and build/dev as they are. Where they, or
the Python that .venv was made with, lie in a directory that is closed to others, it sees them alone
of it, in a mount namespace. What is written goes to a folder of its own, its HOME and TMPDIR too.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from circumstances import OTHER_USER, ROOT, ROUNDS, Circumstance, as_other_user

LOGS = ROOT / "build" / "elsewhere"
BUILD = ROOT / "build" / "dev"
_WORKER_BYTES = 3 << 29  # of a process that tests
CGROUPS = Path("/sys/fs/cgroup")
_ALL = str(1 << 28)  # bytes that a test prints
# What GoogleTest prints of a program, of a test that has ended, and of one that is skipped.
_GTEST = re.compile(r"^\[==========\] Running", re.M)
_GTEST_TEST = re.compile(r"^\[ +(OK|FAILED) +\] (.+) \(\d+ ms\)$", re.M)
_GTEST_SKIPPED = re.compile(r": Skipped\n(.*)\n\n\[  SKIPPED \]")


@dataclasses.dataclass
class Result:
    """What one set of tests gave in a round."""

    round: str
    tests: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    broken: str = ""  # where there is no result at all
    failures: list[str] = dataclasses.field(default_factory=list)
    reasons: dict[str, int] = dataclasses.field(default_factory=dict)  # of what was skipped


class Round:
    """What the processes of a round run under."""

    def __init__(self, name: str, circumstances: tuple[Circumstance, ...], without: list[str]):
        self.name = name
        lacking = {
            c: "left out by --without" if any(text in c.name for text in without) else c.lacking()
            for c in circumstances
        }
        self.impossible = [(c.name, why) for c, why in lacking.items() if why]
        self.given = [c for c, why in lacking.items() if not why]
        self.logs = LOGS / name
        self.how: list[str] = []
        self.prefix: list[str] = []  # of every command

    def _first(self, field: str) -> Any:
        values = [getattr(c, field) for c in self.given]
        return next((value for value in values if value not in (None, False, 0)), None)

    @property
    def processors(self) -> list[int]:
        there = sorted(os.sched_getaffinity(0))
        return there[: self._first("processors") or len(there)]

    @property
    def workers(self) -> int:
        """As ./run test counts them: processors, and what memory has room for."""
        memory = self._first("memory") or _available_bytes()
        return max(1, min(len(self.processors), int(memory // _WORKER_BYTES)))

    def environment(self, home: Path) -> dict[str, str]:
        made = {**os.environ, "HOME": str(home / "home"), "TMPDIR": str(home / "tmp")}
        made.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        made |= {"PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": str(home / "home" / ".cache")}
        for circumstance in self.given:
            for name, value in circumstance.environment.items():
                made.pop(name, None)
                if value is not None:
                    made[name] = value
        return made

    @contextlib.contextmanager
    def open(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """A folder to write in, and the arguments of subprocess for this round's processes."""
        with (
            tempfile.TemporaryDirectory(prefix="lms-elsewhere-") as made,
            contextlib.ExitStack() as stack,
        ):
            home = Path(made)
            home.chmod(0o711)  # what is in it may be another user's, in a round within this one
            for name in ("home", "tmp", "out"):
                (home / name).mkdir()
            options: dict[str, Any] = {"env": self.environment(home), "cwd": ROOT}
            if self._first("other_user"):
                room = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                self.prefix = as_other_user(room)
                _give_away(home)
                self.how.append(f"not root: {OTHER_USER.pw_name} reads the sources, .venv, build")
            if self._first("read_only_home"):
                if os.geteuid() == 0 and not self._first("other_user"):
                    # Root may write anywhere, but not where no directory can be.
                    options["env"]["HOME"] = "/dev/null"
                    options["env"].pop("XDG_CACHE_HOME")
                else:
                    (home / "home").chmod(0o500)
            group = stack.enter_context(self._memory_group())
            options["preexec_fn"] = self._before_exec(group)
            for _ in range(self._first("beside") or 0):
                stack.enter_context(_busy(self.processors))
            yield home, options

    @contextlib.contextmanager
    def _memory_group(self) -> Iterator[Path | None]:
        """A cgroup of its own with the round's memory; None without, or where there can be none."""
        memory = self._first("memory")
        if not memory:
            yield None
            return
        group = CGROUPS / f"lms-elsewhere-{os.getpid()}"
        try:
            if "memory" not in (CGROUPS / "cgroup.controllers").read_text(encoding="utf-8").split():
                raise OSError("no memory controller of version 2")
            group.mkdir()
            (group / "memory.max").write_text(str(memory))
        except OSError as error:
            self.how.append(f"8 GiB: by RLIMIT_DATA, for each process (no cgroup: {error})")
            yield None
            return
        self.how.append("8 GiB: by a cgroup, for all processes together")
        try:
            yield group
        finally:
            with contextlib.suppress(OSError):
                group.rmdir()

    def _before_exec(self, group: Path | None) -> Callable[[], None]:
        processors, umask = self.processors, self._first("umask")
        memory = None if group else self._first("memory")

        def prepare() -> None:
            os.setsid()
            os.sched_setaffinity(0, processors)
            if umask is not None:
                os.umask(umask)
            if memory:
                resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
            if group:
                (group / "cgroup.procs").write_text(str(os.getpid()))

        return prepare


def _give_away(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, OTHER_USER.pw_uid, OTHER_USER.pw_gid)


def _available_bytes() -> int:
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    found = re.search(r"^MemAvailable: +(\d+) kB", text, re.M)
    return int(found[1]) * 1024 if found else _WORKER_BYTES


@contextlib.contextmanager
def _busy(processors: list[int]) -> Iterator[None]:
    """A process beside that computes without end."""
    loop = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(10**6))"
    process = subprocess.Popen(
        [sys.executable, "-c", loop], preexec_fn=lambda: os.sched_setaffinity(0, processors)
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


# ---- the tests -------------------------------------------------------------------------------


def _ctest_files(to: Path) -> None:
    """ctest writes beside the files that tell it what there is: copies of them."""
    shutil.copy(BUILD / "CTestTestfile.cmake", to)
    for path in (BUILD / "tests").rglob("CTestTestfile.cmake"):
        copy = to / path.relative_to(BUILD)
        copy.parent.mkdir(parents=True)
        shutil.copy(path, copy)


def _commands(
    one: Round, out: Path, pytest_args: list[str]
) -> Iterator[tuple[str, list[str], Path]]:
    """The sets of tests: name, command, file of results."""
    bin_ = ROOT / ".venv" / "bin"
    yield (
        "C++",
        [
            *(str(bin_ / "ctest"), "--test-dir", str(out / "ctest"), "--output-on-failure"),
            *("-j", str(one.workers), "--output-junit", str(out / "cc.xml")),
            *("--test-output-size-passed", _ALL, "--test-output-size-failed", _ALL),
        ],
        out / "cc.xml",
    )
    parallel = ["-p", "no:xdist"]
    if one.workers > 1:
        parallel = ["-n", str(one.workers), "--dist", "loadfile", "--no-loadscope-reorder"]
    yield (
        "Python",
        [
            *(str(bin_ / "python"), "-m", "pytest", "-rs", "-p", "no:cacheprovider"),
            *(*parallel, f"--junitxml={out / 'python.xml'}", *pytest_args),
        ],
        out / "python.xml",
    )


def read_results(path: Path, result: Result) -> None:
    """Adds what a file of results in JUnit's format says.

    What ctest ran may be a part of a GoogleTest program: its tests are then read off what it said.
    """
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname') or ''}::{case.get('name')}"
        skipped = case.find("skipped")
        if _GTEST.search(said := case.findtext("system-out") or ""):
            ended = [found.groups() for found in _GTEST_TEST.finditer(said)]
            failed = [f"{name}: {test}" for how, test in ended if how == "FAILED"]
            if case.find("failure") is not None and not failed:
                failed = [name]  # it crashed
            result.failed += len(failed)
            result.failures += failed
            result.passed += sum(how == "OK" for how, _ in ended)
            for why in _GTEST_SKIPPED.findall(said):
                result.skipped += 1
                result.reasons[why] = result.reasons.get(why, 0) + 1
            continue
        if case.find("failure") is not None or case.find("error") is not None:
            result.failed += 1
            result.failures.append(name)
        elif skipped is not None or case.get("status") in ("notrun", "disabled"):
            result.skipped += 1
            why = (skipped.get("message") if skipped is not None else "") or "no reason given"
            result.reasons[why] = result.reasons.get(why, 0) + 1
        else:
            result.passed += 1


def _run_one(
    command: list[str], log: Path, options: dict[str, Any], tell: Callable[[str], None]
) -> int:
    """Runs it, writes its log, and tells how far it is."""
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            **options,
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                stream.write(line)
                stream.flush()
                far = re.search(r"\[ *(\d+%)\]|^ *(\d+/\d+) Test", line)
                if far:
                    tell(far[1] or far[2])
            return process.wait()
        except BaseException:
            # It leads a session of its own: whatever it has started ends with it.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise


def run_round(
    one: Round, only: str | None, pytest_args: list[str], tell: Callable[[str], None]
) -> list[Result]:
    one.logs.mkdir(parents=True, exist_ok=True)
    results = []
    with one.open() as (home, options):
        out = home / "out"
        (out / "ctest").mkdir(mode=0o755)
        _ctest_files(out / "ctest")
        if one.prefix:
            _give_away(home)
        for tests, command, file in _commands(one, out, pytest_args):
            if only not in (None, tests):
                continue
            begin = time.monotonic()
            log = one.logs / f"{file.stem}.log"
            status = _run_one(
                [*one.prefix, *command],
                log,
                options,
                lambda far, tests=tests: tell(f"{tests} {far}"),
            )
            result = Result(one.name, tests, seconds=time.monotonic() - begin)
            try:
                read_results(file, result)
                shutil.copy(file, one.logs / file.name)
            except (OSError, ElementTree.ParseError) as error:
                result.broken = f"exit status {status}, no results: {error}"
            if status not in (0, 5, 8) and not result.failed and not result.broken:
                result.broken = f"exit status {status}"
            results.append(result)
    return results


# ---- what is shown ---------------------------------------------------------------------------


def _listing() -> str:
    lines = []
    for name, circumstances in ROUNDS.items():
        lines.append(f"round {name}")
        for circumstance in circumstances:
            why = circumstance.lacking()
            lines.append(f"  {circumstance.name}" + (f": not possible here: {why}" if why else ""))
    return "\n".join(lines)


def show(rounds: list[Round], results: list[Result]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    for column in ("round", "circumstances", "tests"):
        table.add_column(column)
    for column in ("passed", "failed", "skipped", "seconds"):
        table.add_column(column, justify="right")
    for one in rounds:
        names = ", ".join(c.name for c in one.given)
        for result in (r for r in results if r.round == one.name):
            counts = [str(n) for n in (result.passed, result.failed, result.skipped)]
            if result.broken:
                counts = ["-", "broken", "-"]
            table.add_row(one.name, names, result.tests, *counts, f"{result.seconds:.0f}")
            names = ""
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    for one in rounds:
        for name, why in one.impossible:
            said = "" if why.startswith("left out") else "not possible here: "
            print(f"round {one.name}, {name}: {said}{why}")
        for text in one.how:
            print(f"round {one.name}, {text}")
    for result in results:
        where = f"round {result.round}, {result.tests}"
        for why, count in sorted(result.reasons.items()):
            print(f"{where}: skipped {count}: {why}")
        if result.broken:
            print(f"{where}: {result.broken}")
        for name in result.failures:
            print(f"{where}: FAILED {name}")
    print(f"Logs: {LOGS.relative_to(ROOT)}")


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A line on a terminal; else a line for each tenth or so."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("") as status:
            yield status.update
        return
    said: set[str] = set()

    def tell(text: str) -> None:
        # "Python 43%": once for the forties; "C++ 143/637": once for each hundred.
        key = re.sub(r"\d%|\d\d/\d+$", "", text)
        if key not in said:
            said.add(key)
            print(text, file=sys.stderr, flush=True)

    yield tell


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./run test --elsewhere", description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--rounds", default=",".join(ROUNDS), help="such as 1,3 (default: all)")
    parser.add_argument(
        "--without", action="append", default=[], metavar="TEXT",
        help="leaves out the circumstances with this text in their names",
    )  # fmt: skip
    parser.add_argument("--only", choices=("C++", "Python"), help="these tests alone")
    parser.add_argument("--list", action="store_true", help="the rounds and their circumstances")
    args, pytest_args = parser.parse_known_args()
    if args.list:
        print(_listing())
        return 0
    names = [name.strip() for name in args.rounds.split(",") if name.strip()]
    unknown = [name for name in names if name not in ROUNDS]
    if unknown or not names:
        parser.error(f"--rounds knows {', '.join(ROUNDS)}, not {', '.join(unknown) or 'none'}")
    rounds = [Round(name, ROUNDS[name], args.without) for name in names]
    results: list[Result] = []
    with _progress() as tell:
        for one in rounds:
            tell(f"round {one.name}: {', '.join(c.name for c in one.given)}")
            results += run_round(
                one, args.only, pytest_args, lambda far, n=one.name: tell(f"round {n}: {far}")
            )
    show(rounds, results)
    return 1 if any(result.failed or result.broken for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
