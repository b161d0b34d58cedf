"""lms doctor: does lms work in this environment, and what stands in its way?"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from lms_cli import _host
from lms_cli._checks import OK, PROBLEM, WARNING, Check
from lms_cli._child import run_child
from lms_cli._output import Output
from lms_cli._status import DONE
from lms_cli._status import PROBLEM as FOUND

_DESCRIPTION = """\
Looks at versions and the ABI, the optimizer's registration, XLA and Grappler,
GPUs, the host's limits, the disk for swapping and the environment variables;
then trains a small step with and without lms: is it rewritten, does its
measured peak fall, are all bits the same?

TensorFlow and lms are loaded in a process of their own, so that doctor works
where they cannot be loaded, and says why.
"""

_EXAMPLES = """\
examples:
  lms doctor
  lms doctor --json | jq '.checks[] | select(.status != "ok")'

Each line is ok, warning (works, but look) or problem (does not work) with what
to do. The exit status is 1 where there is a problem, else 0.
"""

_GROUPS = (
    *("versions", "optimizer", "XLA", "GPU", "host", "swapping", "environment", "self-test"),
)
_STYLES = {OK: "green", WARNING: "yellow", PROBLEM: "bold red"}
_SECONDS = 600.0  # for loading TensorFlow on a busy machine, and the self-test


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help="does lms work here?",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--no-self-test", action="store_true", help="leave the training step out (seconds)"
    )
    return parser


def run(args: argparse.Namespace, out: Output) -> int:
    checks = list(_host.checks())
    with out.progress("looking at the host") as move:
        loaded = _loaded_checks(not args.no_self_test, move)
    checks += [*_host.link_checks([c.text for c in loaded if c.group == "GPU"]), *loaded]
    checks.sort(key=lambda check: _GROUPS.index(check.group))
    count = {
        status: sum(check.status == status for check in checks) for status in (WARNING, PROBLEM)
    }
    ok = not count[PROBLEM]
    out.result(
        {
            "command": "doctor",
            "ok": ok,
            "problems": count[PROBLEM],
            "warnings": count[WARNING],
            "checks": [dataclasses.asdict(check) for check in checks],
        },
        lambda: _show(checks, count, out),
    )
    return DONE if ok else FOUND


def _loaded_checks(self_test: bool, move: Any) -> list[Check]:
    """The findings of the process that loads TensorFlow and lms."""
    found: list[Check] = []
    stage = "starting Python"

    def receive(event: dict[str, Any]) -> None:
        nonlocal stage
        if "check" in event:
            found.append(Check(**event["check"]))
        else:
            stage = event["stage"]
            move(text=stage)

    arguments = ["self-test"] if self_test else []
    # A GPU that others are using as well has little left.
    grow = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    problem, said = run_child("lms_cli._doctor_child", arguments, receive, _SECONDS, grow)
    if problem:
        lines = [line for line in said.strip().splitlines() if line.strip()]
        last = f" Its last words: {lines[-1]}" if lines else ""
        group = "self-test" if stage == "self-test" else "versions"
        found.append(
            Check(
                *(group, stage, PROBLEM, f"the process that does it failed: {problem}.{last}"),
                "TensorFlow or lms is damaged or of another build: reinstall both",
            )
        )
    return found


def _show(checks: list[Check], count: dict[str, int], out: Output) -> None:
    from rich.table import Table
    from rich.text import Text

    for group in _GROUPS:
        rows = [check for check in checks if check.group == group]
        if not rows:
            continue
        table = Table(title=group, title_justify="left", box=None, show_header=False)
        table.add_column(no_wrap=True, min_width=7)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for check in rows:
            text = check.text + (f"\n-> {check.fix}" if check.fix else "")
            table.add_row(Text(check.status, _STYLES[check.status]), check.name, text)
        out.print(table, "")
    if not any(count.values()):
        out.print("all is well")
    else:
        out.print(f"{count[PROBLEM]} problems, {count[WARNING]} warnings")
