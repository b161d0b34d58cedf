"""The parser of the command `lms`, and what its exit status says."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from lms_cli import _bench, _doctor, _plan, _report
from lms_cli._facts import version_line
from lms_cli._output import Output
from lms_cli._status import BROKEN_PIPE, INTERRUPTED, MEANINGS, USAGE, CommandError, UsageError

_DESCRIPTION = """\
Trains TensorFlow models under a memory budget: what would it take, what was
done, and does it work here?
"""

_EXAMPLES = """\
examples:
  lms doctor                                       does lms work here?
  lms plan ResNet152 --batch 256 --device V100-16GB --budget auto
  lms plan train.py:make_model --batch 64 --budget 6GiB --html plan.html
  lms bench ResNet50 --batch 8 --budget 60%        stock and lms, measured
  lms report report.json --html report.html        a saved report as a page

exit status:
"""


def make_parser() -> argparse.ArgumentParser:
    """The parser; each command's namespace has `run`, a function of (arguments, output)."""
    codes = "".join(f"  {code:<4}{meaning}\n" for code, meaning in MEANINGS.items())
    parser = argparse.ArgumentParser(
        prog="lms",
        description=_DESCRIPTION,
        epilog=_EXAMPLES + codes,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print versions and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in (_doctor, _plan, _report, _bench):
        added = command.add_parser(commands)
        added.add_argument(
            "--json", action="store_true", help="print one JSON object, and nothing else"
        )
        added.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command given by `argv` (the process's arguments where None).

    Returns the exit status. Raises SystemExit where argparse ends the program: for --help, and
    for arguments that it does not understand.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    for stream in (sys.stdout, sys.stderr):
        # What the locale's encoding lacks is no reason to end without a result.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    parser = make_parser()
    args = parser.parse_args(argv)
    if args.version:
        print(version_line())
        return 0
    if not hasattr(args, "run"):
        parser.print_help(sys.stderr)
        return USAGE
    out = Output(args.json)
    status: int
    with out.guarded():
        try:
            status = args.run(args, out)
            sys.stdout.flush()
        except CommandError as error:
            status = error.status
            command = f"lms {argv[0] if argv else sys.argv[1]}"
            hint = f"\n({command} --help says what there is)" if type(error) is UsageError else ""
            text = f"{command}: {error}"
            out.result({"ok": False, "error": str(error), "status": status}, lambda: None)
            out.say(text + hint)
        except KeyboardInterrupt:
            status = INTERRUPTED
            out.result({"ok": False, "error": "interrupted", "status": status}, lambda: None)
            out.say("interrupted")
        except BrokenPipeError:  # who reads has enough, as `head` has
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            status = BROKEN_PIPE
    return status
