"""Exit codes, and the errors that end a command with one of them."""

from __future__ import annotations

DONE = 0
PROBLEM = 1  # a problem was found, or the budget is not met
USAGE = 2  # what argparse uses as well
NOT_LOADED = 3
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
BROKEN_PIPE = 141  # 128 + SIGPIPE

MEANINGS = {
    DONE: "done; the budget is met",
    PROBLEM: "a problem was found, or the budget is not met",
    USAGE: "the command was not understood: an option, a target or an argument of it",
    NOT_LOADED: "TensorFlow or lms could not be loaded (lms doctor says why, and ends with 1)",
    INTERRUPTED: "interrupted by Ctrl-C",
}


class CommandError(Exception):
    """Ends the command: its text for the user, its status for the shell."""

    status = PROBLEM


class UsageError(CommandError):
    status = USAGE


class NotLoadedError(CommandError):
    status = NOT_LOADED
