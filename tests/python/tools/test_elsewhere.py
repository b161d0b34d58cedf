"""./run test --elsewhere: what is chosen, how it is given, and what is counted."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lms
import pytest
from lms._base import format as _format
from patience import HANGS
from places import ROOT

pytestmark = pytest.mark.slow

TOOLS = ROOT / "tools"
LOOK = """
import json, os, resource
resource_limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
print(json.dumps({"processors": len(os.sched_getaffinity(0)), "columns": os.environ["COLUMNS"],
                  "data": resource_limit, "uid": os.getuid(), "umask": os.umask(0),
                  "home": os.access(os.environ["HOME"], os.W_OK | os.X_OK),
                  "tmp": os.access(os.environ["TMPDIR"], os.W_OK)}))
"""


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(TOOLS))
    import elsewhere

    return elsewhere


def look(elsewhere: Any, *circumstances: Any) -> dict[str, Any]:
    """What a process sees in a round of these circumstances."""
    one = elsewhere.Round(
        "test", (elsewhere.Circumstance("", {"COLUMNS": "40"}), *circumstances), []
    )
    assert one.impossible == []
    with one.open() as (_, options):
        command = [*one.prefix, sys.executable, "-c", LOOK]
        for _ in range(2):  # the C++ tests, then those in Python
            done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_what_a_round_gives(elsewhere: Any) -> None:
    make = elsewhere.Circumstance
    seen = look(elsewhere, make("one", processors=1), make("umask", umask=0o077))
    assert seen["processors"] == 1 and seen["columns"] == "40" and seen["umask"] == 0o077
    assert seen["uid"] == os.getuid() and seen["home"] and seen["tmp"]
    seen = look(elsewhere, make("memory", memory=8 << 30), make("home", read_only_home=True))
    assert seen["data"] == 8 << 30 or (elsewhere.CGROUPS / "cgroup.controllers").exists()
    assert not seen["home"] and seen["tmp"]
    assert seen["processors"] == len(os.sched_getaffinity(0))


def test_another_user_where_that_is_possible(elsewhere: Any) -> None:
    found = [c for several in elsewhere.ROUNDS.values() for c in several if c.other_user]
    assert len(found) == 1
    why = found[0].lacking()
    if why:
        assert os.geteuid() != 0 or "as nobody" in why or "there is no" in why
        pytest.skip(f"not possible here: {why}")
    seen = look(elsewhere, found[0], elsewhere.Circumstance("umask", umask=0o077))
    assert seen["uid"] != 0 and seen["umask"] == 0o077
    assert seen["home"] and seen["tmp"]


def test_what_is_not_possible_is_said(elsewhere: Any, capsys: pytest.CaptureFixture[str]) -> None:
    kept = elsewhere.Circumstance("kept")
    lacking = elsewhere.Circumstance("a mainframe", lacking=lambda: "there is none")
    one = elsewhere.Round("7", (kept, lacking, elsewhere.Circumstance("loud")), ["lou"])
    assert one.given == [kept]
    assert one.impossible == [("a mainframe", "there is none"), ("loud", "left out by --without")]
    result = elsewhere.Result("7", "Python", passed=3, failed=1, skipped=2, seconds=61.5)
    result.failures.append("tests.test_x::test_y")
    result.reasons["no such disk"] = 2
    elsewhere.show([one], [result])
    said = capsys.readouterr().out
    for text in (
        "round 7, a mainframe: not possible here: there is none",
        "round 7, loud: left out by --without",
        "round 7, Python: skipped 2: no such disk",
        "round 7, Python: FAILED tests.test_x::test_y",
    ):
        assert text in said


def test_results_are_counted(elsewhere: Any, tmp_path: Path) -> None:
    file = tmp_path / "results.xml"
    file.write_text(
        """<testsuites><testsuite>
        <testcase classname="a" name="one"/>
        <testcase classname="a" name="two"><failure message="no"/></testcase>
        <testcase classname="a" name="three"><error message="setup"/></testcase>
        <testcase classname="a" name="four"><skipped message="no disk"/></testcase>
        <testcase name="five" status="disabled"/>
        </testsuite></testsuites>""",
        encoding="utf-8",
    )
    result = elsewhere.Result("1", "Python")
    elsewhere.read_results(file, result)
    assert (result.passed, result.failed, result.skipped) == (1, 2, 2)
    assert result.failures == ["a::two", "a::three"]
    assert result.reasons == {"no disk": 1, "no reason given": 1}


def test_tests_of_a_part_of_a_program_are_counted_one_by_one(
    elsewhere: Any, tmp_path: Path
) -> None:
    said = """[==========] Running 4 tests from 1 test suite.
[       OK ] One.Works (3 ms)
cc/two.cc:7: Skipped
needs oneDNN

[  SKIPPED ] One.IsSkipped (0 ms)
[  FAILED  ] One.Fails, where GetParam() = 3 (1 ms)
[  FAILED  ] 1 test, listed below:
[  FAILED  ] One.Fails, where GetParam() = 3
"""
    crashed = "[==========] Running 2 tests from 1 test suite.\n[       OK ] Two.Works (3 ms)\n"
    file = tmp_path / "results.xml"
    file.write_text(
        f"""<testsuite>
        <testcase name="tf.0"><failure/><system-out>{said}</system-out></testcase>
        <testcase name="tf.1"><failure/><system-out>{crashed}</system-out></testcase>
        <testcase name="tf.Fuzz"><system-out>all well</system-out></testcase>
        </testsuite>""",
        encoding="utf-8",
    )
    result = elsewhere.Result("1", "C++")
    elsewhere.read_results(file, result)
    assert (result.passed, result.failed, result.skipped) == (3, 2, 1)
    assert result.failures == ["::tf.0: One.Fails, where GetParam() = 3", "::tf.1"]
    assert result.reasons == {"needs oneDNN": 1}


def run_tool(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOLS / "elsewhere.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)


def test_the_list_and_wrong_rounds(elsewhere: Any) -> None:
    listed = run_tool("--list")
    assert listed.returncode == 0, listed.stderr
    for several in elsewhere.ROUNDS.values():
        for circumstance in several:
            assert f"  {circumstance.name}" in listed.stdout
    wrong = run_tool("--rounds", "1,nine")
    assert wrong.returncode == 2 and "not nine" in wrong.stderr


# ---- where stdout has few characters ---------------------------------------------------------


@dataclasses.dataclass
class Stream:
    encoding: str | None


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", None, "of-my-own"])
def test_tables_can_be_printed_whatever_the_locale(
    encoding: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_format.sys, "stdout", Stream(encoding))
    text = lms.devices().table()
    assert "V100-16GB" in text
    if encoding in ("ascii", "latin-1"):
        text.encode(encoding)
        assert "----" in text and "\u2500" not in text
    else:
        assert "\u2500\u2500\u2500" in text
