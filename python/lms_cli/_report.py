"""lms report: reports that were saved, to read, look at, compare, or pass on."""

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
Several are shown side by side: yesterday's and today's, one per worker.
"""

_EXAMPLES = """\
examples:
  lms report report.json                         the tables
  lms report report.json --html report.html      the interactive page
  lms report report.json --perfetto trace.json   for ui.perfetto.dev, chrome://tracing
  lms report report.json --plot memory.png       the picture (.png, .svg, .pdf)
  lms report old.json new.json                   both side by side
  lms report old.json new.json --html both.html  the same as a page

The exit status is 0 where the report says that the step keeps its budget
("rewritten", "fits"), 1 where it does not ("infeasible"), or nothing is known
of it ("skipped", "failed"). Of several reports all have to.
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "report",
        help="show a saved report",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files", type=pathlib.Path, metavar="FILE.json", nargs="+", help="a saved report"
    )
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
    lms = load_lms()
    reports = [_load(path, lms) for path in args.files]
    kept = all(map(keeps_budget, reports))
    if len(reports) > 1:
        _compare(reports, args, out, lms)
        return DONE if kept else PROBLEM
    (report,) = reports
    written = write_forms(report, args, out)
    out.result(
        {
            "command": "report",
            "file": str(args.files[0]),
            "keeps_budget": kept,
            "written": written,
            "report": as_data(report),
        },
        lambda: show(report),
    )
    return DONE if kept else PROBLEM


def _load(path: pathlib.Path, lms: Any) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} is no JSON: {error}") from error
    # What `lms plan --json` and `lms bench --json` print holds a report.
    if isinstance(data, dict) and isinstance(data.get("report"), dict):
        data = data["report"]
    try:
        return lms.Report.from_json(json.dumps(data))
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path} is no report of lms: {error}") from error


def _compare(reports: list[Any], args: argparse.Namespace, out: Output, lms: Any) -> None:
    """Several reports side by side."""
    for form in ("plot", "perfetto"):
        if getattr(args, form) is not None:
            raise UsageError(f"--{form} is of one report; several are compared by --html")
    stems = [path.stem for path in args.files]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in args.files]
    try:
        comparison = lms.compare(*reports, names=names)
        if args.html is not None:
            comparison.to_html(args.html)
            out.say(f"written to {args.html}")
    except ValueError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"--html {args.html}: {error}") from error
    out.result(
        {
            "command": "report",
            "files": [str(path) for path in args.files],
            "keeps_budget": all(map(keeps_budget, reports)),
            "written": {} if args.html is None else {"html": str(args.html)},
            "reports": [as_data(report) for report in reports],
        },
        lambda: show(comparison),
    )


def show(shown: Any) -> None:
    """A report or comparison: in colours and as wide as a terminal is; plain where it is piped."""
    if sys.stdout.isatty():
        shown.show()
    else:
        print(shown.table(), end="")
