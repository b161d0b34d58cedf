"""lms bench: the same training stock and with lms, measured, each in a process of its own."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from typing import Any

from lms_cli import _targets
from lms_cli._child import run_child
from lms_cli._output import Output
from lms_cli._plan import add_option_argument, options_of
from lms_cli._status import DONE, PROBLEM, CommandError, NotLoadedError, UsageError

_TOLERANCE = 1.01  # over the budget, relative: what feedback lets pass as well

_DESCRIPTION = """\
Trains a model for some steps with stock TensorFlow and with lms, each in a
process of its own, on the same random data from the same weights: the
allocator's real peak, the time per step, and whether all losses and weights
are the same to the last bit.

Where they are not, kernels on several threads may be the reason: stock
TensorFlow then differs from itself. So both are run again with one thread of
each kind, and those bits count.
"""

_EXAMPLES = """\
examples:
  lms bench ResNet50 --batch 8 --budget 60%
  lms bench MobileNetV2 --batch 32 --image 128 --budget 1GiB --steps 20
  lms bench train.py:make_model --batch 64 --budget min --json
  lms bench my.module:train_step --arg 'float32[8,224,224,3]'

The exit status is 0 where the measured peak keeps the budget (within 1%) and
all bits are the same; else 1. Times are those of a machine as busy as it is.
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "bench",
        help="train stock and with lms, and measure",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _targets.add_arguments(parser, graphs=False)
    parser.add_argument(
        "--budget",
        default="60%",
        metavar="B",
        help='memory_budget of lms.enable: "6GiB", "60%%", "min", "auto" (default 60%%)',
    )
    add_option_argument(parser)
    parser.add_argument(
        "--steps", type=_targets.positive, default=10, metavar="N", help="measured (default 10)"
    )
    parser.add_argument(
        "--warm-up",
        type=_targets.positive,
        default=3,
        metavar="N",
        help="steps before those, which trace, plan, and measure the plan (default 3)",
    )
    parser.add_argument(
        "--threads",
        type=_targets.positive,
        metavar="N",
        help="of each kind (default: TensorFlow's); with 1, stock repeats itself to the last bit",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=3600.0,
        metavar="S",
        help="seconds that each process may take (default 3600)",
    )
    return parser


def run(args: argparse.Namespace, out: Output) -> int:
    options_of(args)
    total = 2 * (args.warm_up + args.steps)
    with out.progress("stock", total) as move:
        stock = _process(args, False, args.threads, args.steps, move)
        move(text="with lms")
        ours = _process(args, True, args.threads, args.steps, move)
        bits = _bits(stock, ours, args.threads)
        if bits["equal"] is False and args.threads != 1:
            move(text="again, one thread")
            few = min(args.steps, 2)
            again = [_process(args, with_lms, 1, few, move) for with_lms in (False, True)]
            bits = _bits(again[0], again[1], 1)
    if "error" in ours and "error" in stock:
        raise CommandError(f"{args.target} does not train at all: {ours['error']}")
    data = {
        "command": "bench",
        "target": args.target,
        "budget": args.budget,
        "stock": _figures(stock),
        "lms": _figures(ours),
        "bits": bits,
        "budget_met": _met(ours),
        "report": ours.get("report"),
    }
    data["ok"] = "error" not in ours and bool(data["budget_met"]) and bits["equal"] is not False
    out.result(data, lambda: _show(data, out))
    return DONE if data["ok"] else PROBLEM


def _process(
    args: argparse.Namespace, with_lms: bool, threads: int | None, steps: int, move: Any
) -> dict[str, Any]:
    """What the child measured; {"error": why not} where it failed."""
    found: dict[str, Any] = {"steps": []}

    def receive(event: dict[str, Any]) -> None:
        kind = event.pop("event")
        if kind == "step":
            found["steps"].append(event)
            move(advance=1)
        else:
            found.update(event)

    told = {
        name: getattr(args, name) for name in ("target", "batch", "image", "optimizer", "policy")
    }
    told.update(arg=args.arg, option=args.option, budget=args.budget)
    told.update(lms=with_lms, threads=threads, steps=steps, warm_up=args.warm_up)
    problem, said = run_child("lms_cli._bench_child", [json.dumps(told)], receive, args.timeout)
    if "usage" in found:
        raise UsageError(found["usage"])
    if "not_loaded" in found:
        raise NotLoadedError(found["not_loaded"])
    if problem:
        found.setdefault("error", problem)
        lines = [line for line in said.strip().splitlines() if line.strip()]
        found["said"] = lines[-5:]
    return found


def _bits(stock: dict[str, Any], ours: dict[str, Any], threads: int | None) -> dict[str, Any]:
    """equal: None where one of them failed."""
    result: dict[str, Any] = {"equal": None, "threads": threads}
    if "error" in stock or "error" in ours:
        return result
    losses = [[step["loss"] for step in run["steps"]] for run in (stock, ours)]
    first, second = (run["variables"] for run in (stock, ours))
    names = sorted({*first, *second})
    differ = [name for name in names if first.get(name) != second.get(name)]
    result.update(
        equal=losses[0] == losses[1] and not differ,
        losses=len(losses[0]),
        losses_that_differ=sum(a != b for a, b in zip(*losses)),
        variables=len(names),
        variables_that_differ=len(differ),
    )
    return result


def _figures(run: dict[str, Any]) -> dict[str, Any]:
    """Of one process, over its measured steps. Bytes and seconds."""
    if "error" in run:
        return {"error": run["error"], "said": run.get("said", [])}
    steps = [step for step in run["steps"] if step["measured"]]
    rise = max(step["peak_bytes"] - step["before_bytes"] for step in steps)
    seconds = [step["seconds"] for step in steps]
    cpu = [step["cpu_seconds"] for step in steps]
    return {
        "batch": run["batch"],
        "peak_bytes": max(step["peak_bytes"] for step in steps),
        "activations_bytes": rise,
        "step_seconds": _spread(seconds),
        "step_cpu_seconds": _spread(cpu),
        "first_step_seconds": run["steps"][0]["seconds"],
        "device": run["device"],
        "versions": run["versions"],
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def _met(run: dict[str, Any]) -> bool | None:
    """Does the measured peak keep the budget? None where nothing was planned."""
    report = run.get("report")
    if not report or "error" in run or not report["budget_bytes"]:
        return None
    allowed = report["budget_bytes"] - report["resident_bytes"]
    rise: int = _figures(run)["activations_bytes"]
    return bool(rise <= allowed * _TOLERANCE)


def _show(data: dict[str, Any], out: Output) -> None:
    from rich import box
    from rich.table import Table

    stock, ours = data["stock"], data["lms"]
    table = Table(title=f"{data['target']}, budget {data['budget']}", box=box.SIMPLE)
    table.add_column("")
    for name in ("peak", "activations", "step", "(least to most)", "CPU time", "first step"):
        table.add_column(name, justify="right")
    for name, run in (("stock", stock), ("lms", ours)):
        if "error" not in run:
            table.add_row(name, *_row(run))
    out.print(table)
    for name, run in (("stock", stock), ("lms", ours)):
        if "error" in run:
            out.print(f"{name} failed: {run['error']}", *(f"    {line}" for line in run["said"]))
            if any(signal in run["error"] for signal in ("SIGKILL", "SIGSEGV", "SIGABRT")):
                out.print("    This is how it looks from outside where memory runs out, too.")
    if "error" not in stock and "error" not in ours:
        peak = ours["activations_bytes"] / max(1, stock["activations_bytes"])
        wall = ours["step_seconds"]["median"] / stock["step_seconds"]["median"]
        cpu = ours["step_cpu_seconds"]["median"] / max(1e-9, stock["step_cpu_seconds"]["median"])
        out.print(
            f"with lms: {peak:.1%} of the activations, {wall:.2f} times the time per step, "
            f"{cpu:.2f} times the CPU time"
        )
    out.print(_budget_in_words(data), _bits_in_words(data["bits"]))


def _row(run: dict[str, Any]) -> list[str]:
    from lms_cli._text import bytes_in_words, seconds_in_words

    step = run["step_seconds"]
    return [
        bytes_in_words(run["peak_bytes"]),
        bytes_in_words(run["activations_bytes"]),
        seconds_in_words(step["median"]),
        f"{seconds_in_words(step['least'])} to {seconds_in_words(step['most'])}",
        seconds_in_words(run["step_cpu_seconds"]["median"]),
        seconds_in_words(run["first_step_seconds"]),
    ]


def _budget_in_words(data: dict[str, Any]) -> str:
    from lms_cli._text import bytes_in_words

    report = data["report"]
    if data["budget_met"] is None or report is None:
        return "budget: nothing was planned" + (f" ({report['reason']})" if report else "")
    allowed = bytes_in_words(report["budget_bytes"] - report["resident_bytes"])
    predicted = bytes_in_words(report["peak_after_bytes"] - report["resident_bytes"])
    met = "met" if data["budget_met"] else "NOT met"
    return (
        f"budget: {met}: {allowed} for activations, {predicted} predicted "
        f"({report['status']}, {report['predicted_time_overhead']:+.1%} time predicted)"
    )


def _bits_in_words(bits: dict[str, Any]) -> str:
    if bits["equal"] is None:
        return "bits: not compared, for one of the two failed"
    how = "one thread of each kind" if bits["threads"] == 1 else "as measured"
    if bits["equal"]:
        return f"bits: equal: {bits['losses']} losses and {bits['variables']} variables ({how})"
    return (
        f"bits: DIFFERENT: {bits['losses_that_differ']} of {bits['losses']} losses and "
        f"{bits['variables_that_differ']} of {bits['variables']} variables ({how})"
    )
