"""lms report: a report that was saved, to read, look at, or pass on."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Any

from lms_cli._facts import load_lms
from lms_cli._output import Output
from lms_cli._status import DONE, PROBLEM, UsageError

_DESCRIPTION = """\
Shows a report that was saved as JSON: by Report.to_json(), by the callback
lms.keras.MemoryBudget(report="report.json"), or by lms plan --json.
"""

_EXAMPLES = """\
examples:
  lms report report.json                         the tables
  lms report report.json --html report.html      the interactive page
  lms report report.json --perfetto trace.json   for ui.perfetto.dev, chrome://tracing
  lms report report.json --plot memory.png       the picture (.png, .svg, .pdf)

The exit status is 0 where the report says that the step keeps its budget
("rewritten", "fits"), 1 where it does not ("infeasible"), or nothing is known
of it ("skipped", "failed").
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "report",
        help="show a saved report",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=pathlib.Path, metavar="FILE.json", help="the saved report")
    add_forms(parser)
    return parser


def add_forms(parser: argparse.ArgumentParser) -> None:
    """The files that a report can be written to."""
    parser.add_argument("--html", type=pathlib.Path, metavar="FILE", help="write the page there")
    parser.add_argument(
        "--plot", type=pathlib.Path, metavar="FILE", help="write the picture there (.png, .svg)"
    )
    parser.add_argument(
        "--perfetto", type=pathlib.Path, metavar="FILE", help="write the trace there"
    )


def write_forms(report: Any, args: argparse.Namespace, out: Output) -> dict[str, str]:
    """Writes the files asked for; returns their names by form."""
    written = {}
    for form in ("html", "plot", "perfetto"):
        path = getattr(args, form)
        if path is None:
            continue
        write = report.plot if form == "plot" else getattr(report, f"to_{form}")
        try:
            write(path)
        except (OSError, ImportError, ValueError) as error:
            raise UsageError(f"--{form} {path}: {error}") from error
        written[form] = str(path)
        out.say(f"written to {path}")
    return written


def as_data(report: Any) -> dict[str, Any]:
    """The report as Report.to_json() has it."""
    data: dict[str, Any] = json.loads(report.to_json())
    return data


def keeps_budget(report: Any) -> bool:
    """Is the step predicted to keep its budget? Of what was skipped, that is seldom known."""
    if report.status == "skipped":
        return bool(0 < report.peak_before_bytes <= report.budget_bytes)
    return report.status in ("rewritten", "fits")


def run(args: argparse.Namespace, out: Output) -> int:
    try:
        text = args.file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{args.file} cannot be read: {error}") from error
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{args.file} is no JSON: {error}") from error
    # What `lms plan --json` and `lms bench --json` print holds a report.
    if isinstance(data, dict) and isinstance(data.get("report"), dict):
        data = data["report"]
    lms = load_lms()
    try:
        report = lms.Report.from_json(json.dumps(data))
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{args.file} is no report of lms: {error}") from error
    written = write_forms(report, args, out)
    out.result(
        {
            "command": "report",
            "file": str(args.file),
            "keeps_budget": keeps_budget(report),
            "written": written,
            "report": as_data(report),
        },
        lambda: show(report),
    )
    return DONE if keeps_budget(report) else PROBLEM


def show(report: Any) -> None:
    """In colours and as wide as it is in a terminal; plain where the output is piped."""
    if sys.stdout.isatty():
        report.show()
    else:
        print(report.table(), end="")
